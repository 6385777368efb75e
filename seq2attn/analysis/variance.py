"""The variance of a score over random queries and keys, measured and by formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import random_vectors, seeded_score
from seq2attn.model.scores import Dot, Score


@dataclass(frozen=True)
class Components:
    """Queries and keys with i.i.d. normal components: s ~ N(query_mean, query_sd^2), h ~
    N(key_mean, key_sd^2).
    """

    query_mean: float = 0.0
    query_sd: float = 1.0
    key_mean: float = 0.0
    key_sd: float = 1.0


@dataclass(frozen=True)
class VarianceRow:
    """One score at one width D; theory is None where the score has no formula."""

    score: str
    width: int = column("D", ",")
    mean: float = column("mean", ".4g")
    mean_theory: float | None = column("expected mean", ".4g")
    variance: float = column("variance", ".5g")
    variance_error: float = column("±", ".2g")
    """standard error of the measured variance"""
    variance_theory: float | None = column("expected variance", ".5g")
    deviation: float | None = column("off by", "+.1f")
    """(measured - theory) / standard error; beyond 3 once in 370 times"""


@torch.no_grad()
def score_variance(
    scores: Sequence[str], widths: Sequence[int], *, samples: int, seed: int, components: Components
) -> Analysis[VarianceRow]:
    """Score `samples` random pairs at each width D; every score sees the same pairs.

    Theory: a multiplicative score is s.(M h) with M fixed (I for dot, I / sqrt(D) for scaled, W for
    general), so that Var = ss^2 sh^2 |M|^2 + ss^2 mh^2 |M 1|^2 + sh^2 ms^2 |1 M|^2, which for dot
    is D (ss^2 sh^2 + ss^2 mh^2 + sh^2 ms^2).
    """
    rows = tuple(
        _row(name, width, samples, seed, components) for name in scores for width in widths
    )
    return Analysis({"samples": samples, "seed": seed, **asdict(components)}, rows)


def _row(name: str, width: int, samples: int, seed: int, components: Components) -> VarianceRow:
    score, parts = seeded_score(name, width, seed), []
    for query, keys in random_vectors("variance", width, 1, samples, seed):
        query = query * components.query_sd + components.query_mean
        keys = keys * components.key_sd + components.key_mean
        parts.append(score(query, score.project(keys)).flatten().double())
    values = torch.cat(parts)  # (samples,)
    squares = (values - values.mean()).square()
    variance = float(squares.sum() / (samples - 1))
    error = float(
        ((squares - squares.mean()).square().mean() / samples).sqrt()
    )  # sqrt((m4 - m2^2) / n)
    mean_theory, theory = theoretical_moments(score, width, components)
    deviation = None if theory is None or error == 0 else (variance - theory) / error
    return VarianceRow(
        name, width, float(values.mean()), mean_theory, variance, error, theory, deviation
    )


@torch.no_grad()
def theoretical_moments(
    score: Score, width: int, components: Components
) -> tuple[float | None, float | None]:
    """Mean and variance of a multiplicative score by formula; (None, None) for other scores."""
    if not isinstance(score, Dot):
        return None, None
    matrix = score.project(torch.eye(width).unsqueeze(0))[
        0
    ].double()  # (D, D), row j = M e_j: the transpose of M
    query_variance, key_variance = components.query_sd**2, components.key_sd**2
    variance = (
        query_variance * key_variance * matrix.square().sum()
        + query_variance * components.key_mean**2 * matrix.sum(dim=0).square().sum()  # |M 1|^2
        + key_variance * components.query_mean**2 * matrix.sum(dim=1).square().sum()  # |1 M|^2
    )
    return float(components.query_mean * components.key_mean * matrix.sum()), float(variance)
