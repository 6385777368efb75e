"""Extreme scores and masks; and monotonic attention over more steps than the textbook compares."""

import math

import pytest
import torch
from models import assert_close, seeded
from tables import table

import seq2attn
from seq2attn.model.monotonic import Monotonic
from seq2attn.model.normalisers import masked_softmax
from seq2attn.parts import NORMALISERS


@table(
    "name",
    """
sparsemax
entmax15
""",
)
def test_low_scores_have_no_weight(name):
    normalise = NORMALISERS.get(name).load()()
    every = torch.tensor(True)
    weights = normalise(torch.arange(50).double() / 20, every)
    assert 1 < (weights > 0).sum() < 40
    assert float(weights.sum()) == pytest.approx(1)
    assert normalise(torch.tensor([3e38, -3e38, 0.0]), every).tolist() == [1, 0, 0]


def weights_and_slopes(name, scores, valid):
    """The weights, and the gradients of the first ones."""
    scores = torch.tensor(scores, requires_grad=True)
    weights = NORMALISERS.get(name).load()()(scores, torch.tensor(valid))
    weights[:, 0].sum().backward()
    return weights.detach(), scores.grad


@pytest.mark.parametrize("name", NORMALISERS.names())
@pytest.mark.parametrize("poison", [1e30, -1e30, math.inf, -math.inf, math.nan])
def test_what_stands_at_a_masked_position_cannot_matter(poison, name):
    alone = weights_and_slopes(name, [[0.4, -0.4]], [[True] * 2])
    scores = [[0.4, poison, -0.4], [poison] * 3]
    for found, expected in zip(
        weights_and_slopes(name, scores, [[True, False, True], [False] * 3]), alone, strict=True
    ):
        assert_close(found[0, [0, 2]], expected[0])
        found[0, [0, 2]] = 0
        assert not found.any()


@table(
    "scores, weights",
    """
[1.0e+30, -1.0e+30, 0.0] | [1.0, 0.0, 0.0]
[1.0e+30, 1.0e+30, -1.0e+30] | [0.5, 0.5, 0.0]
[-1.0e+30, -1.0e+30, 7.0] | [0.5, 0.5, 0.0]  # the last is masked: the others share everything
""",
    "scores weights",
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_scores(scores, weights, dtype):
    valid = torch.tensor([True, True, False])
    assert masked_softmax(torch.tensor(scores, dtype=dtype), valid).tolist() == weights


# ---- monotonic attention ----


D = 4


def step_of(past):
    """A step whose keys are all real."""
    valid = torch.ones(len(past), 1, past.size(2), dtype=torch.bool)
    return seq2attn.AttentionStep(None, past, None, valid, valid)


@pytest.mark.parametrize("training", [True, False])
def test_a_monotonic_step_is_noisy_in_training_only(training):
    history = Monotonic(D, D, 1).train(training)
    step = step_of(torch.ones(1, 1, 4))
    one, other = (history.combine(step.past, step.past, step) for _ in "ab")
    assert torch.equal(one, other) != training


def test_monotonic_attention_is_exact_and_differentiable_over_50_positions():
    size = 50
    history = Monotonic(D, D, 1, bias=0.0).eval()
    drawn = seeded(0)
    logits = 20 * torch.randn(size, size, generator=drawn)  # of what was read long ago, anything
    logits.fill_diagonal_(6)
    logits[1:].fill_diagonal_(-6)
    logits.requires_grad_()
    past = history.begin(torch.zeros(1, size, D))
    found = []
    for scores in logits.view(size, 1, 1, size):
        step = step_of(past)
        weights = history.combine(torch.softmax(scores, dim=2), scores, step)
        past = history.update(weights, step)
        found.append(weights.flatten())
    found = torch.stack(found)
    keys = torch.eye(size).double()
    weights = keys[0]
    for stop, of_step in zip(logits.detach().double().sigmoid(), found, strict=True):
        # what arrives at a key began there, or has passed the key before it
        passing = torch.diag(1 - stop[:-1], -1)
        weights = stop * torch.linalg.solve(keys - passing, weights)
        assert_close(of_step.double(), weights, rtol=1e-3, atol=1e-5)
    assert 0.2 < weights.sum() < 1
    (slopes,) = torch.autograd.grad(found.square().sum(), logits)
    assert slopes.isfinite().all()
    assert slopes.abs().max() > 1e-4
