"""Monotonic attention: its noise, and over more steps than the textbook compares."""

import pytest
import torch
from models import assert_close

from seq2attn.model.histories import AttentionStep
from seq2attn.model.monotonic import Monotonic

D = 4


def step_of(past):
    """A step whose keys are all real."""
    valid = torch.ones(len(past), 1, past.size(2), dtype=torch.bool)
    return AttentionStep(None, past, None, valid, valid)


@pytest.mark.parametrize("training", [True, False])
def test_a_monotonic_step_is_noisy_in_training_only(training):
    history = Monotonic(D, D, 1).train(training)
    step = step_of(torch.ones(1, 1, 4))
    one, other = (history.combine(step.past, step.past, step) for _ in "ab")
    assert torch.equal(one, other) != training


def test_monotonic_attention_is_exact_and_differentiable_over_50_positions():
    size = 50
    history = Monotonic(D, D, 1, bias=0.0).eval()
    drawn = torch.Generator().manual_seed(0)
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
    p = torch.sigmoid(logits.detach().double()).tolist()
    last = [1.0] + [0.0] * (size - 1)
    expected = []
    for row in p:
        weights = []
        arriving = 0.0  # at the first key: what began there
        for stay, before, past in zip(row, [0.0, *row], last, strict=False):
            arriving = arriving * (1 - before) + past
            weights.append(arriving * stay)
        last = weights
        expected.append(weights)
    assert_close(found.double(), torch.tensor(expected).double(), rtol=1e-3, atol=1e-5)
    assert 0.2 < sum(last) < 1
    (slopes,) = torch.autograd.grad(found.square().sum(), logits)
    assert slopes.isfinite().all()
    assert slopes.abs().max() > 1e-4
