"""The variance of a score over random queries and keys, measured and by formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import Components, random_scores, seeded_score
from seq2attn.model.scores import Dot, Score


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


def score_variance(
    scores: Sequence[str], widths: Sequence[int], *, samples: int, seed: int, components: Components
) -> Analysis:
    """Score `samples` random pairs at each width D; every score sees the same pairs.

    Theory: a multiplicative score is s.(M h) with M fixed (I for dot, I / sqrt(D) for scaled, W for
    general), so that Var = ss^2 sh^2 |M|^2 + ss^2 mh^2 |M 1|^2 + sh^2 ms^2 |1 M|^2, which for dot
    is D (ss^2 sh^2 + ss^2 mh^2 + sh^2 ms^2).
    """
    rows = []
    for name in scores:
        for width in widths:
            rows.append(_row(name, width, samples, seed, components))
    return Analysis({"samples": samples, "seed": seed, **asdict(components)}, rows)


def _row(name: str, width: int, samples: int, seed: int, components: Components) -> VarianceRow:
    score = seeded_score(name, width, seed)
    values = random_scores(score, "variance", width, 1, samples, seed, components).flatten()
    squares = (values - values.mean()).square()
    excess = (squares - squares.mean()).square().mean()  # m4 - m2^2
    variance = float(squares.sum() / (samples - 1))
    error = float((excess / samples).sqrt())
    mean_theory, theory = theoretical_moments(score, width, components)
    return VarianceRow(
        score=name,
        width=width,
        mean=float(values.mean()),
        mean_theory=mean_theory,
        variance=variance,
        variance_error=error,
        variance_theory=theory,
        deviation=(variance - theory) / error if theory is not None and error else None,
    )


@torch.no_grad()
def theoretical_moments(
    score: Score, width: int, components: Components
) -> tuple[float | None, float | None]:
    """Return the mean and variance of a multiplicative score by formula; of others, None twice."""
    if not isinstance(score, Dot):
        return None, None
    # (D, D), row j = M e_j: the transpose of M
    matrix = score.project(torch.eye(width).unsqueeze(0))[0].double()
    mean = components.query_mean * components.key_mean * matrix.sum()
    query_variance = components.query_sd**2
    key_variance = components.key_sd**2
    variance = (
        query_variance * key_variance * matrix.square().sum()
        + query_variance * components.key_mean**2 * matrix.sum(dim=0).square().sum()  # |M 1|^2
        + key_variance * components.query_mean**2 * matrix.sum(dim=1).square().sum()  # |1 M|^2
    )
    return float(mean), float(variance)
