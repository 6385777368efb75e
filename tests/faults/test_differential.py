"""Random configs, each trained for a few steps: whatever can be computed in two ways has to agree.

A batch against its strings alone and against a textbook's loops; more padding against less; the C
against the formulas over 20 steps; a run that was stopped against one that was not. A failure names
its seed. More configs: SEQ2ATTN_DIFFERENTIAL=10000, or only those from a seed: SEQ2ATTN_SEED=123.
"""

import itertools
import json
import os
import random
from dataclasses import replace
from functools import partial

import pytest
import torch
import yaml
from models import CPU, assert_close
from outcomes import StopAt, weights
from tables import slow
from textbook import Textbook

from seq2attn import parts
from seq2attn.build import build_model, build_task, build_training_data
from seq2attn.config import check_config, flat_values
from seq2attn.data.batches import generator, make_batch
from seq2attn.errors import ConfigError
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.training.recorder import Recorder
from seq2attn.training.session import NewRun, train
from seq2attn.training.step import TrainingStep, learning_rate

FIRST = int(os.environ.get("SEQ2ATTN_SEED", "15"))  # small, padded, and the C computes it
SAMPLE = int(os.environ.get("SEQ2ATTN_DIFFERENTIAL", "1"))
ALL, CHUNK = 10_000, 100
STEPS = 20  # with the C and without
CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # in float64


def names(registry):
    return ", ".join(registry.names())


CHOICES = f"""
task.name: [reverse, copy, sort, duplicate]
task.alphabet: [a, ab, abc, abcd]
task.min_length: [1, 2]
task.max_length: [2, 3, 4, 5]
model.hidden: [1, 2, 3, 4, 5, 6]
model.embedding: [1, 2, 3, 4, 5]
model.source_eos: [true, false]
model.cell: [gru, gru, {names(parts.CELLS)}]
model.layers: [1, 1, 1, 2, 3]
model.dropout: [0.0, 0.0, 0.3]
model.bidirectional: [true, false]
model.initial_state: [{names(parts.INITIAL_STATES)}]
model.decoder: [{names(parts.DECODERS).replace(", hard_monotonic", "")}]
model.decoder.input_feeding: [true, false]
model.attention.score: [{names(parts.SCORES)}]
model.attention.score.width: [null, 3]
model.attention.score.initial_std: [null, 0.5]
model.attention.mask_padding: [true, true, false]
model.attention.scalable_softmax: [true, false]
model.attention.normaliser: [softmax, softmax, {names(parts.NORMALISERS)}]
model.attention.window: [global, global, {names(parts.WINDOWS)}]
model.attention.window.radius: [1, 2, 3]
model.attention.window.centre: [monotonic, reversed]
model.attention.history: [none, none, {names(parts.HISTORIES)}]
model.attention.history.filters: [1, 2, 3]
model.attention.history.kernel: [1, 3]
training.batch_size: [1, 2, 3, 4, 5, 6]
training.word_dropout: [0.0, 0.3]
training.encoder_reset: [0.0, 0.0, 0.3]
training.decoder_reset: [0.0, 0.0, 0.3]
training.weight_decay: [0.0, 0.1]
training.losses:
- cross_entropy
- cross_entropy
- - {{name: cross_entropy, weight: 1.0, label_smoothing: 0.0}}
  - {{name: coverage, weight: 0.5}}
training.clip_norm: [null, 0.5]
training.warmup: [0, 2]
training.schedule: [{names(parts.SCHEDULES)}]
training.learning_rate: [0.003, 0.05]
training.log_every: [1, 2]
training.evaluate_every: [2, 3]
training.snapshots: [0, 0, 0, 2]
evaluation.lengths: [[1, 4], [2, 3], [3, 6], [5]]
"""  # key: its values, of which what stands twice is drawn twice as often; of `hard_monotonic` the
# alignments are too many
CHOICES = yaml.safe_load(CHOICES)
PARTS = {
    registry.config_key: registry
    for registry in parts.KINDS.values()
    if registry.config_key in CHOICES and registry.config_key.startswith("model.")
}
WITHOUT_ATTENTION = """
model.bidirectional: false
model.attention.mask_padding: true
model.attention.scalable_softmax: false
model.attention.normaliser: softmax
model.attention.window: global
model.attention.history: none
training.decoder_reset: 0.0
training.losses: cross_entropy
"""  # the source is in the decoder's state alone
BASE = yaml.safe_load("{training: {steps: 5, validation_samples: 1}, evaluation: {samples: 2}}")


def draw_config(seed):
    """A random config whose parts fit together."""
    draw = random.Random(seed)
    while True:
        drawn = {key: draw.choice(values) for key, values in CHOICES.items()}
        if drawn["model.attention.score"] == "none":
            drawn |= yaml.safe_load(WITHOUT_ATTENTION)
        given = [f"seed={seed}"]
        for key, value in drawn.items():
            owner = key.rpartition(".")[0]
            if (
                owner not in PARTS
                or key.split(".")[-1] in PARTS[owner].get(drawn[owner]).options.model_fields
            ):
                given.append(f"{key}{'.name' if key in PARTS else ''}={json.dumps(value)}")
        try:
            return check_config(BASE, given)
        except ConfigError:  # a combination that cannot work
            continue


def check_seed(seed, folder, monkeypatch):
    """Everything for the config of one seed."""
    config = draw_config(seed)
    try:
        run = check_resume(config, random.Random(seed), folder)
        path = run.checkpoint("last")
        model = build_model(config)
        weights = load_checkpoint(path, model).part("model.")
        model.load_state_dict(weights)
        book = Textbook(config, weights)
        check_batch(config, model.double().eval(), book)
        check_kernels(config, monkeypatch)
    except Exception as error:
        error.add_note(f"SEQ2ATTN_SEED={seed}: {config.model_dump(mode='json')}")
        raise


def check_resume(config, draw, folder):
    """Stopped and resumed, or not: the same tensors, state and records. Returns the run."""
    whole = train(config, NewRun(folder, f"whole-{config.seed}"), device="cpu").run
    stop = StopAt(draw.randint(1, config.training.steps - 1))
    stopped = train(config, NewRun(folder, f"stopped-{config.seed}"), device="cpu", **stop.given)
    torch.manual_seed(config.seed)
    torch.rand(3)
    assert train(config, stopped.run, device="cpu").stopped_by is None
    assert whole.checkpoint("best").read_bytes() == stopped.run.checkpoint("best").read_bytes()
    assert weights(whole) == weights(stopped.run)
    return whole


def check_batch(config, model, book):
    """Logits and weights of a padded batch, in training (with the C) and without gradients, are the
    textbook's.
    """
    task = build_task(config)
    random = generator(CPU, config.seed, "differential")
    batch = make_batch(task.examples(random, 4), source_eos=config.model.source_eos)
    batch = batch.select(batch.source_lengths.argsort(descending=True, stable=True))
    if not config.model.attention.mask_padding:  # padding then changes the results, as it should
        batch = batch.select((batch.source_lengths == batch.source_lengths[0]).nonzero().squeeze(1))
        batch = replace(batch, source=batch.source[:, : batch.source_lengths[0]])
    expected = []  # of each row
    for row, (size, steps) in enumerate(
        zip(batch.source_lengths, batch.decoder_lengths, strict=True)
    ):
        source, inputs = batch.source[row, :size], batch.decoder_input[row, :steps]
        logits, weights = book.teacher_forced(source.tolist(), inputs.tolist())
        expected.append((torch.stack(logits), torch.tensor(weights, dtype=torch.float64)))
    wider = batch
    if config.model.attention.mask_padding:  # then more padding, which holds a letter, is nothing
        pad = partial(torch.nn.functional.pad, value=3)
        tokens = pad(batch.decoder_input, (0, 2))
        wider = replace(batch, source=pad(batch.source, (0, 3)), decoder_input=tokens)
    for grad, one in itertools.product((True, False), (batch, wider)):
        with torch.set_grad_enabled(grad):
            decoded = model(one)
        for row, (logits, weights) in enumerate(expected):
            steps, size = len(logits), int(one.source_lengths[row])
            assert_close(decoded.logits[row, :steps], logits, **CLOSE)
            if decoded.weights is not None:
                assert_close(decoded.weights[row, :steps, :size], weights, **CLOSE)
                assert (decoded.weights[row, :steps, size:] == 0).all()


def check_kernels(config, monkeypatch):
    """Losses and gradients with the C and without, at the weights of each step, in float64."""
    if config.model.cell.name != "gru":  # the C would not be used
        return
    model = build_model(config).double()
    parameters = list(model.parameters())
    steps = []
    for switch in ("on", "off"):
        monkeypatch.setenv("SEQ2ATTN_KERNELS", switch)
        steps.append(TrainingStep(model, config, CPU))
    for number, batch in zip(
        range(STEPS), build_training_data(config, CPU).batches(), strict=False
    ):
        found, expected = (step.losses(step.forward(batch, number), batch) for step in steps)
        how = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        gradients = [
            _flat(torch.autograd.grad(one["loss"], parameters, **how)) for one in (found, expected)
        ]
        assert_close(found["loss"], expected["loss"], **CLOSE)
        assert_close(*gradients, **CLOSE)
        steps[0].gradients(found["loss"])
        steps[0].update(
            learning_rate(config.training, number % config.training.steps, config.training.steps)
        )


def _flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """No maps, and torch's generator as it was."""
    monkeypatch.setattr(Recorder, "attention", lambda *_, **__: None)
    with torch.random.fork_rng(devices=[]):
        yield


CHUNKS = [range(first, first + CHUNK) for first in range(0, ALL, CHUNK)]


@pytest.mark.parametrize("seeds", [range(FIRST, FIRST + SAMPLE), *map(slow, CHUNKS)], ids=str)
def test_random_configs_agree_in_every_way(tmp_path, monkeypatch, seeds):
    for seed in seeds:
        check_seed(seed, tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_random_configs_have_every_value():
    drawn = [flat_values(draw_config(seed)) for seed in range(150)]
    for key, values in CHOICES.items():
        found = {json.dumps(config.get(key.removesuffix(".name"))) for config in drawn}
        assert found >= set(map(json.dumps, values)), key
