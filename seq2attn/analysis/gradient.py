"""The gradient of the largest softmax weight as a function of the scale of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.analysis.sampling import check_work
from seq2attn.data.batches import generator


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
    rows = tuple(_row(scale, scores) for scale in scales)
    return Gradient(keys, samples, seed, max(rows, key=lambda row: row.mean).scale, rows)


def _row(scale: float, scores: Tensor) -> GradientRow:
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
