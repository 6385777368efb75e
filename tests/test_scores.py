import math

import pytest
import torch
from models import make_score


@pytest.mark.parametrize("name", ["general", "scaled_general"])
def test_initial_std_is_the_deviation_of_the_first_weights(name):
    torch.manual_seed(0)
    weight = make_score(name, 64, 64, initial_std=0.1).map.weight.detach()
    # of 4096 draws: the mean is within 4 * .1/64 of 0, the deviation within 4 * .1/sqrt(2 * 4096)
    # of .1
    assert abs(float(weight.mean())) < 4 * 0.1 / 64
    assert float(weight.std()) == pytest.approx(0.1, abs=4 * 0.1 / math.sqrt(8192))
    default = make_score(name, 64, 64).map.weight.detach()
    assert float(default.abs().max()) <= 1 / 8  # torch.nn.Linear: uniform within 1 / sqrt(64)


def test_cosine_begins_with_scores_of_variance_1():
    query, keys = torch.randn(2, 1, 400, 96, generator=torch.Generator().manual_seed(0))
    score = make_score("cosine", 96, 96)
    # the cosine of two random vectors has variance 1/D; of 160,000 dependent ones at least 400 are
    # independent
    assert float(score(query, score.project(keys)).detach().var()) == pytest.approx(
        1, abs=4 * math.sqrt(2 / 400)
    )
