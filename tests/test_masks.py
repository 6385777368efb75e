import math

import pytest
import torch

from seq2attn.model.attention import masked_softmax


def test_the_mask_broadcasts_over_queries_and_none_masks_nothing():
    scores = torch.tensor([[[0.0, 1.0, 2.0], [5.0, 5.0, 9.0]]])
    weights = masked_softmax(scores, torch.tensor([[[True, True, False]]]))
    low, high = 1 / (1 + math.e), math.e / (1 + math.e)
    torch.testing.assert_close(weights, torch.tensor([[[low, high, 0.0], [0.5, 0.5, 0.0]]]))
    everything = torch.ones(1, 1, 3, dtype=torch.bool)
    torch.testing.assert_close(masked_softmax(scores, None), masked_softmax(scores, everything))
    assert (masked_softmax(scores, None) > 0).all()


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
