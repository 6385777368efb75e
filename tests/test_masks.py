import math

import pytest
import torch
from torch.autograd.functional import jacobian
from torch.testing import assert_close

from seq2attn.model.normalisers import masked_softmax
from seq2attn.parts import NORMALISERS


def logistic(x):
    return 1 / (1 + math.exp(-x))


def softmax(a, b):
    share = logistic(a - b)
    return (share, 1 - share), (share * (1 - share), share * (share - 1))


def sparsemax(a, b):
    share = (1 + a - b) / 2  # in closed form, for scores at most 1 apart
    return (share, 1 - share), (0.5, -0.5)


def entmax15(a, b):
    half = (a - b) / 2  # x - y = half and x^2 + y^2 = 1 give both roots of the weights
    x, y = ((math.sqrt(2 - half**2) + sign * half) / 2 for sign in (1, -1))
    return (x * x, y * y), (x * y / (x + y), -x * y / (x + y))


def sigmoid(a, b):
    shares = [logistic(score - math.log(2)) for score in (a, b)]
    return shares, (shares[0] * (1 - shares[0]), 0.0)


TWO = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15, "sigmoid": sigmoid}
"""the weights of two keys by their scores, and the first one's derivatives"""


@pytest.mark.parametrize("name, power", [("sparsemax", 0), ("entmax15", 0.5)])
def test_low_scores_have_neither_weights_nor_gradients(name, power):
    normalise = NORMALISERS.load(name)()
    every = torch.tensor(True)
    scores = torch.randn(50, generator=torch.Generator().manual_seed(0)).double() / 4
    weights = normalise(scores, every)
    found = jacobian(lambda one: normalise(one, every), scores)
    assert 1 < (weights > 0).sum() < 40
    assert float(weights.sum()) == pytest.approx(1)
    slopes = (
        weights > 0
    ) * weights**power  # Martins & Astudillo 2016, eq. 9; Peters et al. 2019, prop. 2
    assert_close(found, torch.diag(slopes) - torch.outer(slopes, slopes) / slopes.sum())
    assert normalise(torch.tensor([3e38, -3e38, 0.0]), every).tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", NORMALISERS.names())
@pytest.mark.parametrize("poison", [1e30, -1e30, math.inf, -math.inf, math.nan])
def test_what_stands_at_a_masked_position_cannot_matter(poison, name):
    scores = torch.tensor([[0.4, poison, -0.4], [poison, poison, poison]], requires_grad=True)
    weights = NORMALISERS.load(name)()(
        scores, torch.tensor([[True, False, True], [False, False, False]])
    )
    (first, last), (own, other) = TWO[name](0.4, -0.4)
    assert_close(weights, torch.tensor([[first, 0.0, last], [0.0, 0.0, 0.0]]))
    weights[:, 0].sum().backward()
    assert_close(scores.grad, torch.tensor([[own, 0.0, other], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    "scores, weights",
    [
        ([1e30, -1e30, 0.0], [1.0, 0.0, 0.0]),
        ([1e30, 1e30, -1e30], [0.5, 0.5, 0.0]),
        (
            [-1e30, -1e30, 7.0],
            [0.5, 0.5, 0.0],
        ),  # the last is masked: small valid scores still share everything
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_scores(scores, weights, dtype):
    valid = torch.tensor([True, True, False])
    assert masked_softmax(torch.tensor(scores, dtype=dtype), valid).tolist() == weights
