"""Attention weights over random keys: their saturation and entropy as the width grows, and the
gradient of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import mean_and_error, random_weights
from seq2attn.data.batches import generator
from seq2attn.inference.evaluation import attention_entropy

SATURATED = 0.99
DRAWN = 2**21  # numbers for an expected entropy, which is then right to about 0.001


@dataclass(frozen=True)
class SaturationRow:
    """The weights of one score at one width D, over S random keys."""

    score: str
    width: int = column("D", ",")
    largest: float = column("largest weight", ".3f")
    """mean of the largest weight"""
    largest_error: float = column("±", ".3f")
    saturated: float = column("saturated", ".3f")
    """share of queries whose largest weight exceeds 0.99"""
    weights: tuple[float, ...] = column("weights by rank", ".3f")
    """mean weight by rank, the largest first: S numbers that sum to 1"""


def weight_saturation(
    scores: Sequence[str], widths: Sequence[int], *, keys: int, samples: int, seed: int
) -> Analysis:
    """Sort the attention weights of `samples` random queries over `keys` random keys, all
    components N(0, 1).
    """
    rows = []
    for name in scores:
        for width in widths:
            weights = random_weights(name, width, keys, samples, seed)
            ranked = weights.sort(dim=1, descending=True).values  # (samples, S)
            largest, largest_error = mean_and_error(ranked[:, 0])
            row = SaturationRow(
                score=name,
                width=width,
                largest=largest,
                largest_error=largest_error,
                saturated=float((ranked[:, 0] > SATURATED).double().mean()),
                weights=tuple(ranked.mean(dim=0).tolist()),
            )
            rows.append(row)
    return Analysis({"keys": keys, "samples": samples, "seed": seed}, rows)


@dataclass(frozen=True)
class EntropyRow:
    """One score at one width D, over S random keys; entropies in nats."""

    keys: int = column("S", ",")
    score: str = column("score")
    width: int = column("D", ",")
    entropy: float = column("entropy", ".4f")
    """mean over the queries"""
    entropy_error: float = column("±", ".4f")
    limit: float | None = column("expected", ".4f")
    """expected of S independent normal scores of the same variance, the limit D -> infinity; None:
    no formula"""
    uniform: float = column("uniform", ".4f")
    """log S, the entropy of uniform weights"""


def entropy_by_width(
    scores: Sequence[str], widths: Sequence[int], *, keys: Sequence[int], samples: int, seed: int
) -> Analysis:
    """Measure the entropy of the weights that random queries give `keys` random keys, all
    components N(0, 1).
    """
    rows = []
    for count in keys:
        for name in scores:
            for width in widths:
                weights = random_weights(name, width, count, samples, seed)
                entropy, error = mean_and_error(attention_entropy(weights))
                deviation = {"dot": math.sqrt(width), "scaled": 1.0}.get(name)
                limit = deviation and expected_entropy(count, deviation)
                uniform = math.log(count)
                rows.append(EntropyRow(count, name, width, entropy, error, limit, uniform))
    return Analysis({"samples": samples, "seed": seed}, rows)


@cache
def expected_entropy(keys: int, deviation: float) -> float:
    """Return E[H(softmax(z))] in nats for z_1..z_S independent N(0, deviation^2): the mean over
    many draws.
    """
    random = generator("cpu", "expected entropy", keys)
    scores = torch.randn(DRAWN // keys, keys, generator=random)
    return float(attention_entropy(torch.softmax(deviation * scores.double(), dim=1)).mean())


@dataclass(frozen=True)
class GradientRow:
    """Scores of standard deviation `scale`."""

    scale: float = column("scale c", "g")
    mean: float = column("mean norm", ".4f")
    """mean norm of the gradient of the largest weight with respect to the scores, by autograd"""
    mean_error: float = column("±", ".4f")
    formula: float = column("by formula", ".4f")
    """the mean by formula, on the same scores"""
    median: float = column("median norm", ".4f")
    largest: float = column("largest weight", ".3f")
    """mean of the largest weight"""


def gradient_by_scale(scales: Sequence[float], *, keys: int, samples: int, seed: int) -> Analysis:
    """Measure the norm of d max_j softmax(z)_j / dz at z = c e, e ~ N(0, 1), for each scale c; the
    same e at each.

    By formula, with p = softmax(z) and m the largest: p_m sqrt((1 - p_m)^2 + sum of p_j^2 over j !=
    m). An unscaled dot product of N(0, 1) components has scale sqrt(D), a scaled one scale 1.
    """
    random = generator("cpu", seed, "gradient", keys)
    scores = torch.randn(samples, keys, generator=random, dtype=torch.float64)  # (n, S)
    rows = [_gradient_row(scale, scores) for scale in scales]
    return Analysis({"keys": keys, "samples": samples, "seed": seed}, rows)


def _gradient_row(scale: float, scores: Tensor) -> GradientRow:
    scaled = (scale * scores).requires_grad_()
    weights = torch.softmax(scaled, dim=1)
    largest = weights.max(dim=1).values  # (n,)
    (gradient,) = torch.autograd.grad(largest.sum(), scaled)
    norms = gradient.norm(dim=1)
    mean, error = mean_and_error(norms)

    weights = weights.detach()
    largest = largest.detach()
    others = weights.square().sum(dim=1) - largest.square()
    formula = largest * ((1 - largest).square() + others).sqrt()
    return GradientRow(
        scale=scale,
        mean=mean,
        mean_error=error,
        formula=float(formula.mean()),
        median=float(norms.median()),
        largest=float(largest.mean()),
    )
