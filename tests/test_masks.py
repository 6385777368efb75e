import math

import pytest
import torch

from seq2attn.model.attention import masked_softmax


def loop_softmax(scores, valid):
    """One row, by the definition: exp of each valid score over their sum."""
    exponentials = [math.exp(score) if ok else 0.0 for score, ok in zip(scores, valid, strict=True)]
    total = sum(exponentials)
    return [value / total if total else 0.0 for value in exponentials]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masked_softmax_is_the_loop(dtype):
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 3, 6, generator=random, dtype=dtype) * 3
    valid = torch.rand(4, 3, 6, generator=random) < 0.5
    valid[0, 0] = False
    valid[0, 1] = True
    weights = masked_softmax(scores, valid)
    expected = [
        [loop_softmax(*row) for row in zip(*rows, strict=True)]
        for rows in zip(scores.tolist(), valid.tolist(), strict=True)
    ]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=dtype))
    assert (weights[~valid] == 0).all()
    assert (weights[valid] > 0).all()


def test_the_mask_broadcasts_over_queries_and_none_masks_nothing():
    scores = torch.tensor([[[0.0, 1.0, 2.0], [5.0, 5.0, 9.0]]])
    weights = masked_softmax(scores, torch.tensor([[[True, True, False]]]))
    low, high = 1 / (1 + math.e), math.e / (1 + math.e)
    torch.testing.assert_close(weights, torch.tensor([[[low, high, 0.0], [0.5, 0.5, 0.0]]]))
    everything = torch.ones(1, 1, 3, dtype=torch.bool)
    torch.testing.assert_close(masked_softmax(scores, None), masked_softmax(scores, everything))
    assert (masked_softmax(scores, None) > 0).all()


def test_a_row_with_nothing_valid_is_zero_and_so_is_its_gradient():
    scores = torch.tensor([[1.0, 2.0], [3.0, -4.0]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert weights[0].tolist() == [0.0, 0.0]
    (weights * torch.tensor([1.0, 2.0])).sum().backward()
    assert scores.grad[0].tolist() == [0.0, 0.0]
    share = math.exp(3) / (math.exp(3) + math.exp(-4))  # d/de_1 of w_1 + 2 w_2 is -w_1 w_2
    torch.testing.assert_close(scores.grad[1], torch.tensor([-1.0, 1.0]) * share * (1 - share))


@pytest.mark.parametrize("poison", [1e30, -1e30, math.inf, -math.inf, math.nan])
def test_what_stands_at_a_masked_position_cannot_matter(poison):
    scores = torch.tensor([[0.5, poison, -0.5], [poison, poison, poison]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, False, True], [False, False, False]]))
    share = 1 / (1 + math.exp(-1))
    torch.testing.assert_close(weights, torch.tensor([[share, 0.0, 1 - share], [0.0, 0.0, 0.0]]))
    weights[:, 0].sum().backward()
    slope = share * (1 - share)
    torch.testing.assert_close(scores.grad, torch.tensor([[slope, 0.0, -slope], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([1e30, -1e30, 0.0], [1.0, 0.0, 0.0]),
        ([1e30, 1e30, -1e30], [0.5, 0.5, 0.0]),
        ([-1e30, -1e30, 7.0], [0.5, 0.5, 0.0]),  # the last is masked: small valid scores still share everything
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_scores(scores, weights, dtype):
    valid = torch.tensor([True, True, False])
    assert masked_softmax(torch.tensor(scores, dtype=dtype), valid).tolist() == weights
