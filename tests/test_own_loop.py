"""A training loop of the user's own: what it computes, and the run that it saves."""

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from inline import ROOT, read
from models import VALUES, assert_close
from outcomes import events, metrics
from refusal import refused

import seq2attn
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import Run, is_training

SETTINGS = """
training.schedule=constant
training.weight_decay=0.1
training.steps=6
training.log_every=1
training.snapshots=1
model.dropout=0.2
training.losses=[cross_entropy, {name: coverage, weight: 0.5}]
""".strip().split("\n")


def train(model):
    """Train as `seq2attn train` does, with the optimiser that torch has: the norms of gradients."""
    config = model.config.training
    parameters = list(model.module.parameters())
    decay = config.weight_decay
    optimiser = torch.optim.AdamW(parameters, config.learning_rate, weight_decay=decay)
    norms = []
    for _, batch in zip(range(config.steps), model.batches(), strict=False):
        optimiser.zero_grad()
        model.loss(batch).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, config.clip_norm)))
        optimiser.step()
    return norms


@pytest.fixture
def saved(here):
    model = seq2attn.new_model(VALUES, SETTINGS, device="cpu")
    train(model)
    assert model.save("mine", note="a loop") == model.run == Run(Path("runs/mine"))
    return model


def test_the_same_steps_in_a_loop_give_the_weights_and_records_of_train(tmp_path):
    settings = [*SETTINGS, "training.clip_norm=0.05"]
    model = seq2attn.new_model(VALUES, settings, device="cpu")
    norms = train(model)
    saved = model.save("mine", runs_dir=tmp_path)
    run = seq2attn.train(model.config, runs_dir=tmp_path, name="theirs", device="cpu")
    theirs = load_checkpoint(run.checkpoint("last")).part("model.")
    for name, weight in model.module.state_dict().items():
        assert_close(weight, theirs[name])
    ours = [line for line in metrics(saved) if "loss" in line]
    assert len(ours) == 6
    for line, other, norm in zip(ours, metrics(run), norms, strict=False):
        assert line == pytest.approx({name: other[name] for name in line}, rel=1e-4)
        assert other["gradient_norm"] == pytest.approx(norm, rel=1e-3)
        assert other["learning_rate"] == pytest.approx(0.003)
        parts = line["cross_entropy_loss"], line["coverage_loss"]
        assert line["loss"] == pytest.approx(parts[0] + 0.5 * parts[1], rel=1e-6)
    tags = {"main/loss", "train/cross_entropy_loss", "train/coverage_loss"}
    assert events(run).keys() >= tags <= events(saved).keys()
    assert metrics(saved)[-1]["evaluation"]


def test_commands_take_the_run_and_resume_says_that_it_cannot(cli, blank_figures, saved):
    loaded = seq2attn.load("mine")
    assert loaded.step == 6
    assert loaded.predict("abc").output == saved.predict("abc").output
    cli("eval mine --lengths 2 --device cpu").check()
    for line in ("predict abc", "plot accuracy mine --plot a.svg", "report mine --to r.html"):
        cli(line).check()
    (row,) = cli("runs --json").json
    assert (row["state"], row["step"], row["note"]) == ("saved", 6, "a loop")
    before = saved.run.checkpoint("last").read_bytes()
    said = cli("train --resume mine").refusal
    assert "saved from a loop of your own, so it cannot be resumed" in said
    assert saved.run.checkpoint("last").read_bytes() == before


def test_what_cannot_be_saved_makes_no_run(saved):
    with refused("run 'mine' already exists"):
        saved.save("mine")
    saved.module.decoder.output = torch.nn.Linear(8, 3)
    with refused("does not belong to this config: it has torch.float32 .3,. as 'decoder.output"):
        saved.save("other")
    assert not Path("runs/other").exists()


def test_a_run_that_is_being_saved_is_locked(saved):
    found = []
    run = Run(Path("runs/another"))
    encoder = saved.module.encoder
    with encoder.register_forward_hook(lambda *_: found.append(is_training(run))):
        saved.save("another")
    assert set(found) == {True}
    assert not is_training(run)


def test_half_precision_and_autocast(here):
    model = seq2attn.new_model(VALUES, device="cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert model.loss(next(model.batches())).isfinite()
    model.module.bfloat16()
    assert seq2attn.load(model.save("half")).module.decoder.output.weight.dtype == torch.bfloat16


def test_a_model_can_be_pickled(saved):
    for model in (saved, seq2attn.load("mine")):
        copied = pickle.loads(pickle.dumps(model))
        assert copied.config == saved.config
        assert copied.predict("abcab").output == saved.predict("abcab").output


def test_the_documented_reader_of_a_checkpoint_needs_no_seq2attn(here):
    code = read(ROOT / "examples/read_checkpoint.py")
    assert "import seq2attn" not in code
    assert "from seq2attn" not in code
    quick = ["training.validation_samples=2", "training.snapshots=0", "evaluation.lengths=3"]
    model = seq2attn.new_model("configs/scaled.yaml", quick, device="cpu")
    model.save("scaled-001")
    names = {}
    exec(code, names)
    answer, cache = model.run_with_cache("hello")
    assert answer.output.startswith(names["text"])
    np.testing.assert_allclose(names["logits"], cache["logits"][len(names["text"]) - 1], atol=1e-5)


def test_batches_can_start_anywhere():
    model = seq2attn.new_model(VALUES, device="cpu")
    (sixth,) = itertools.islice(model.batches(), 5, 6)
    assert torch.equal(sixth.source, next(model.batches(5)).source)
