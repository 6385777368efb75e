"""How the weights saturate as the width grows, with unscaled and scaled scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.analysis.sampling import check_work, random_weights

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
            rows[name, width] = _row(name, width, weights.sort(dim=1, descending=True).values)
    return Saturation(keys, samples, seed, tuple(rows[name, width] for name in scores for width in widths))


def _row(name: str, width: int, weights: Tensor) -> SaturationRow:
    """weights (n, S), each row sorted, the largest first."""
    largest = weights[:, 0]
    return SaturationRow(
        score=name,
        width=width,
        largest=float(largest.mean()),
        largest_error=float(largest.std() / len(weights) ** 0.5),
        saturated=float((largest > SATURATED).double().mean()),
        weights=tuple(weights.mean(dim=0).tolist()),
    )
