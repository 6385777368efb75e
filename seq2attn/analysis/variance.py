"""The variance of a score over random queries and keys, measured and by formula."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from seq2attn.analysis.sampling import BLOCK, check_work, seeded_score
from seq2attn.data.batches import generator
from seq2attn.errors import Seq2AttnError
from seq2attn.model.scores import Dot, Score

LARGEST = 1e6


@dataclass(frozen=True)
class Components:
    """Queries and keys with i.i.d. normal components: s ~ N(query_mean, query_sd^2), h ~ N(key_mean, key_sd^2)."""

    query_mean: float = 0.0
    query_sd: float = 1.0
    key_mean: float = 0.0
    key_sd: float = 1.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(number) and abs(number) <= LARGEST for number in astuple(self)):
            raise Seq2AttnError("means and standard deviations are numbers of at most 1e6")


@dataclass(frozen=True)
class VarianceRow:
    """One score at one width D."""

    score: str
    width: int
    mean: float
    """measured"""
    mean_theory: float | None
    variance: float
    """measured"""
    variance_error: float
    """standard error of the measured variance"""
    variance_theory: float | None
    """None: the score has no formula"""
    deviation: float | None
    """(measured - theory) / standard error; beyond 3 once in 370 times"""


@dataclass(frozen=True)
class Variance:
    """The variance of scores over random queries and keys."""

    samples: int
    seed: int
    components: Components
    rows: tuple[VarianceRow, ...]


@torch.no_grad()
def score_variance(
    scores: Sequence[str], widths: Sequence[int], *, samples: int, seed: int, components: Components
) -> Variance:
    """Score `samples` random pairs at each width D; every score sees the same pairs.

    Theory: a multiplicative score is s.(M h) with M fixed (I for dot, I / sqrt(D) for scaled, W for general), so that
    Var = ss^2 sh^2 |M|^2 + ss^2 mh^2 |M 1|^2 + sh^2 ms^2 |1 M|^2, which for dot is D (ss^2 sh^2 + ss^2 mh^2 + sh^2 ms^2).
    """
    check_work(samples * 2 * sum(widths) * len(scores), samples)
    rows = []
    for name in scores:
        for width in widths:
            rows.append(_row(name, seeded_score(name, width, seed), width, samples, seed, components))
    return Variance(samples, seed, components, tuple(rows))


def _row(name: str, score: Score, width: int, samples: int, seed: int, components: Components) -> VarianceRow:
    pairs = _pairs(width, samples, seed, components)
    values = torch.cat([score(query, score.project(keys)).flatten().double() for query, keys in pairs])  # (samples,)
    mean = values.mean()
    squares = (values - mean).square()
    variance = float(squares.sum() / (samples - 1))
    error = float(((squares - squares.mean()).square().mean() / samples).sqrt())  # sqrt((m4 - m2^2) / n)
    mean_theory, theory = theoretical_moments(score, width, components)
    return VarianceRow(
        score=name,
        width=width,
        mean=float(mean),
        mean_theory=mean_theory,
        variance=variance,
        variance_error=error,
        variance_theory=theory,
        deviation=None if theory is None or error == 0 else (variance - theory) / error,
    )


@torch.no_grad()
def theoretical_moments(score: Score, width: int, components: Components) -> tuple[float | None, float | None]:
    """Mean and variance of a multiplicative score by formula; (None, None) for other scores."""
    if not isinstance(score, Dot):
        return None, None
    matrix = score.project(torch.eye(width).unsqueeze(0))[0].double()  # (D, D), row j = M e_j: the transpose of M
    query_variance, key_variance = components.query_sd**2, components.key_sd**2
    variance = (
        query_variance * key_variance * matrix.square().sum()
        + query_variance * components.key_mean**2 * matrix.sum(dim=0).square().sum()  # |M 1|^2
        + key_variance * components.query_mean**2 * matrix.sum(dim=1).square().sum()  # |1 M|^2
    )
    return float(components.query_mean * components.key_mean * matrix.sum()), float(variance)


def _pairs(width: int, samples: int, seed: int, components: Components) -> Iterator[tuple[Tensor, Tensor]]:
    """`samples` queries (n, 1, D) and keys (n, 1, D), in blocks."""
    random = generator(torch.device("cpu"), seed, "variance", width)
    block = max(1, BLOCK // width)
    for first in range(0, samples, block):
        shape = (min(block, samples - first), 1, width)
        query = torch.randn(shape, generator=random) * components.query_sd + components.query_mean
        keys = torch.randn(shape, generator=random) * components.key_sd + components.key_mean
        yield query, keys
