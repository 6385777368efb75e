"""The saturation of weights as the width grows, and the gradient of the largest weight by the scale of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.analysis.sampling import check_work, random_weights
from seq2attn.data.batches import generator

SATURATED = 0.99


@dataclass(frozen=True)
class SaturationRow:
    """The weights of one score at one width D, over S random keys."""

    score: str
    width: int
    largest: float
    """mean of the largest weight"""
    largest_error: float
    """its standard error"""
    saturated: float
    """share of queries whose largest weight exceeds 0.99"""
    weights: tuple[float, ...]
    """mean weight by rank, the largest first: S numbers that sum to 1"""


@dataclass(frozen=True)
class Saturation:
    """Softmax weights by width."""

    keys: int
    samples: int
    seed: int
    rows: tuple[SaturationRow, ...]


def weight_saturation(
    scores: Sequence[str], widths: Sequence[int], *, keys: int, samples: int, seed: int
) -> Saturation:
    """Sort the attention weights of `samples` random queries over `keys` random keys, all components N(0, 1)."""
    check_work(samples * (keys + 1) * sum(widths), samples * keys)
    rows = {}
    for width in widths:
        parts = list(random_weights(scores, width, keys, samples, seed))
        for name in scores:
            weights = torch.cat([part[name] for part in parts])  # (samples, S)
            weights = weights.sort(dim=1, descending=True).values
            largest = weights[:, 0]
            rows[name, width] = SaturationRow(
                score=name,
                width=width,
                largest=float(largest.mean()),
                largest_error=float(largest.std() / len(weights) ** 0.5),
                saturated=float((largest > SATURATED).double().mean()),
                weights=tuple(weights.mean(dim=0).tolist()),
            )
    return Saturation(keys, samples, seed, tuple(rows[name, width] for name in scores for width in widths))


@dataclass(frozen=True)
class GradientRow:
    """Scores of standard deviation `scale`."""

    scale: float
    mean: float
    """mean norm of the gradient of the largest weight with respect to the scores, by autograd"""
    mean_error: float
    """its standard error"""
    median: float
    formula: float
    """the mean by formula, on the same scores"""
    largest: float
    """mean of the largest weight"""


@dataclass(frozen=True)
class Gradient:
    """Gradient norms by scale."""

    keys: int
    samples: int
    seed: int
    peak: float
    """the scale with the largest mean"""
    rows: tuple[GradientRow, ...]


def gradient_by_scale(scales: Sequence[float], *, keys: int, samples: int, seed: int) -> Gradient:
    """The norm of d max_j softmax(z)_j / dz at z = c e, e ~ N(0, 1), for each scale c; the same e at each.

    By formula, with p = softmax(z) and m the largest: p_m sqrt((1 - p_m)^2 + sum of p_j^2 over j != m).
    An unscaled dot product of N(0, 1) components has scale sqrt(D), a scaled one scale 1.
    """
    check_work(samples * keys * len(scales), samples * keys)
    random = generator(torch.device("cpu"), seed, "gradient", keys)
    scores = torch.randn(samples, keys, generator=random, dtype=torch.float64)  # (n, S)
    rows = tuple(_gradient_row(scale, scores) for scale in scales)
    return Gradient(keys, samples, seed, max(rows, key=lambda row: row.mean).scale, rows)


def _gradient_row(scale: float, scores: Tensor) -> GradientRow:
    scaled = (scale * scores).requires_grad_()
    weights = torch.softmax(scaled, dim=1)
    largest = weights.max(dim=1).values  # (n,)
    (gradient,) = torch.autograd.grad(largest.sum(), scaled)
    norms = gradient.norm(dim=1)
    weights, largest = weights.detach(), largest.detach()
    others = weights.square().sum(dim=1) - largest.square()
    formula = largest * ((1 - largest).square() + others).sqrt()
    return GradientRow(
        scale=scale,
        mean=float(norms.mean()),
        mean_error=float(norms.std() / len(norms) ** 0.5),
        median=float(norms.median()),
        formula=float(formula.mean()),
        largest=float(largest.mean()),
    )
