"""Beam search against exhaustive enumeration, and against greedy decoding for all models; and
ensembles, which average probabilities step by step.
"""

import itertools
import math
from pathlib import Path

import pytest
import torch
from models import (
    ARRANGEMENTS,
    CELLS,
    HISTORIES,
    TRANSFORMER,
    WINDOWS,
    as_batch,
    close,
    make_config,
    make_model,
    make_task,
    predictor_of,
)
from refusal import refused
from tables import table

import seq2attn
from seq2attn.build import build_model
from seq2attn.inference import trained_model
from seq2attn.inference.decoding import BeamSearch, Ensemble, beam_decode, greedy_decode
from seq2attn.inference.trained_model import load_ensemble
from seq2attn.model.interface import Decoded, Model

EOS, V = 2, 5
SOURCE = torch.tensor([[3, 4, 3, 3], [4, 3, 0, 0], [4, 4, 4, 0]])
LENGTHS = torch.tensor([4, 2, 3])
MODELS = {
    **{one: {"arrangement": one} for one in ARRANGEMENTS},
    **{cell: {"cell": cell, "arrangement": "feeding"} for cell in CELLS},
    **{f"window-{name}": {"window": name} for name in WINDOWS if name != "global"},
    **{f"history-{name}": {"history": name} for name in HISTORIES if name != "none"},
    "none": {"score": "none", "initial_state": "bridge", "bidirectional": True},
    "layers": {"layers": 2, "bidirectional": True, "scalable_softmax": True},
    "transformer": None,
    "ensemble": None,
}


def model_of(name, seed=3, sharper=4.0):
    """A random model; multiplied logits make hypotheses differ clearly in probability."""
    if name == "ensemble":
        return ensemble_of("bahdanau", "lstm", "transformer")
    if MODELS[name] is None:
        changes = f"seed={seed} task.alphabet=ab model.layers=2 {TRANSFORMER}"
        model = build_model(make_config(changes)).double()
    else:
        model = make_model(vocabulary=V, seed=seed, **MODELS[name])
    output = model.output if MODELS[name] is None else model.decoder.output
    with torch.no_grad():
        output.weight.mul_(sharper)
        output.bias.mul_(sharper)
    return model.eval()


def ensemble_of(*names):
    return Ensemble([model_of(name) for name in names])


def teacher_forced(model, source, tokens):
    """Logits (1, L, V) and weights (1, L, S) at these tokens, of one source alone."""
    inputs = torch.tensor([[1, *tokens[:-1]]])
    return model(as_batch(source.unsqueeze(0), torch.tensor([len(source)]), inputs))


def forced(model, source, tokens):
    """log P(tokens | source), and the weights."""
    decoded = teacher_forced(model, source, tokens)
    chosen = torch.log_softmax(decoded.logits[0], dim=1)[range(len(tokens)), list(tokens)]
    return float(chosen.sum()), decoded.weights


def every_output(steps):
    """Every sequence of so many tokens, but `<pad>` and `<sos>`, which ends with its first
    `<eos>`.
    """
    for tokens in itertools.product(range(EOS, V), repeat=steps):
        yield tokens[: (*tokens, EOS).index(EOS) + 1]


def hypotheses(found, row):
    """The existing hypotheses of one source: tokens with the `<eos>`, log-probabilities, scores."""
    numbers = found.log_probabilities[row].tolist(), found.scores[row].tolist()
    for rank, (log_probability, score) in enumerate(zip(*numbers, strict=True)):
        if log_probability > -math.inf:
            yield tuple(found.output(row, rank)[0]), log_probability, score


@torch.no_grad()
@table(
    "name, alpha",
    """
bahdanau | 0
bahdanau | 1
transformer | 0.6
""",
    "alpha",
)
def test_a_beam_as_wide_as_all_outputs_finds_what_enumeration_finds(name, alpha):
    model = model_of(name)
    outputs = list({*every_output(3)})
    found = beam_decode(model, SOURCE, LENGTHS, BeamSearch(len(outputs), alpha), max_steps=3)
    for row, length in enumerate(LENGTHS.tolist()):
        source = SOURCE[row, :length]
        expected = {tokens: forced(model, source, tokens)[0] for tokens in outputs}
        scores = {one: expected[one] / ((5 + len(one)) / 6) ** alpha for one in outputs}
        ranked = list(hypotheses(found, row))
        in_order = sorted(outputs, key=scores.get, reverse=True)
        assert [tokens for tokens, _, _ in ranked] == in_order
        for tokens, logp, score in ranked:
            assert logp == pytest.approx(expected[tokens], abs=1e-9)
            assert score == pytest.approx(scores[tokens], abs=1e-9)


@torch.no_grad()
@table(
    "name",
    """
bahdanau
hard_monotonic
none
layers
transformer
""",
)
def test_a_beam_of_one_is_greedy_decoding(name):
    model = model_of(name)
    greedy = greedy_decode(model, SOURCE, LENGTHS, max_steps=6, keep_weights=True)
    found = beam_decode(model, SOURCE, LENGTHS, BeamSearch(1, 0.6), max_steps=6, keep_weights=True)
    assert torch.equal(found.tokens, greedy.tokens)
    assert (found.weights is None) == (greedy.weights is None) == (name == "none")
    if greedy.weights is not None:
        close(found.weights, greedy.weights)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_every_hypothesis_has_its_own_probability_and_weights(name):
    """What a wide beam carries along belongs to the right hypothesis: state, log-probability and
    attention.
    """
    model = model_of(name)
    found = beam_decode(model, SOURCE, LENGTHS, BeamSearch(4, 0.5), max_steps=5, keep_weights=True)
    for row, length in enumerate(LENGTHS.tolist()):
        source = SOURCE[row, :length]
        ranked = list(hypotheses(found, row))
        assert len(ranked) == len({tokens for tokens, _, _ in ranked}) == 4
        scores = [score for _, _, score in ranked]
        assert scores == sorted(scores, reverse=True)
        for place, (tokens, logp, _) in enumerate(ranked):
            expected, weights = forced(model, source, tokens)
            assert logp == pytest.approx(expected, abs=1e-9)
            if weights is not None:
                attended = found.weights[row, place, : len(tokens), :length]
                close(attended, weights[0], 1e-9)


class Fixed(Model):
    """A model whose log-probabilities depend on the position alone: (T, V)."""

    def __init__(self, *rows):
        super().__init__()
        self.rows = torch.tensor(rows).log()

    def encode(self, source, lengths):
        return (), 0

    def select(self, state, rows):
        return state

    def steps(self, tokens, state, memory):
        return Decoded(self.rows[state].expand(len(tokens), 1, -1), None), state + 1


def test_what_is_never_written_is_not_chosen_and_keeps_its_probability():
    """`<pad>` 0.5, `<sos>` 0.1, `<eos>` 0.25, `<unk>` 0.05, `a` 0.1 at both steps: what remains is
    `<eos>` and `a<eos>`, with the probabilities that the model gives them.
    """
    model = Fixed(*[[0.5, 0.1, 0.25, 0.05, 0.1]] * 2)
    model.unknown = True
    source = torch.tensor([[4]])
    for models in (model, Ensemble([model, model])):
        found = beam_decode(models, source, torch.tensor([1]), BeamSearch(5), max_steps=2)
        outputs = list(hypotheses(found, 0))
        assert [tokens for tokens, *_ in outputs] == [(EOS,), (4, EOS), (4, 4)]
        probabilities = [math.exp(log_probability) for _, log_probability, _ in outputs]
        assert probabilities == pytest.approx([0.25, 0.025, 0.01])
        greedy = greedy_decode(models, source, torch.tensor([1]), max_steps=2)
        assert greedy.tokens.tolist() == [[[EOS]]]


def test_fewer_outputs_than_the_beam_is_wide():
    model = Fixed([0.0, 0.0, 1.0, 0.0, 0.0])
    found = beam_decode(model, torch.tensor([[3]]), torch.tensor([1]), BeamSearch(3), max_steps=4)
    assert found.log_probabilities[0].tolist() == [0, -math.inf, -math.inf]
    assert found.tokens.size(2) == 1  # nothing waits for hypotheses that do not exist


# ---- ensembles ----


@torch.no_grad()
def test_teacher_forcing_averages_probabilities_and_weights():
    names = "bahdanau", "lstm", "transformer"
    for source, length in zip(SOURCE, LENGTHS.tolist(), strict=True):
        models = [*map(model_of, names), ensemble_of(*names)]
        *parts, found = (teacher_forced(one, source[:length], [3, 4, 4, 3]) for one in models)
        likely = [torch.softmax(part.logits, dim=2) for part in parts]
        close(found.logits.exp(), sum(likely) / 3)
        close(found.weights, sum(part.weights for part in parts) / 3)


@torch.no_grad()
def test_a_model_without_attention_leaves_no_weights():
    assert teacher_forced(ensemble_of("bahdanau", "none"), SOURCE[0], [3]).weights is None


def predictor(alphabet="ab", source_eos=True):
    model = make_model(vocabulary=3 + len(alphabet))
    return predictor_of(model, make_task("copy", alphabet=alphabet), source_eos)


def test_what_cannot_decode_together_is_refused(monkeypatch):
    one, two = seq2attn.Run(Path("one")), seq2attn.Run(Path("two"))
    for other in (predictor("ac"), predictor(source_eos=False)):
        made = {one: predictor(), two: other}
        loaded = {run: seq2attn.TrainedModel(run, None, made[run], "best", 1) for run in made}
        monkeypatch.setattr(trained_model, "load_run", lambda run, *_, of=loaded: of[run])
        with refused("one and two cannot form an ensemble: they read or write different symbols"):
            load_ensemble([one, two])
