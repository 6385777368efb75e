"""The entropy of attention over random keys against the width: it falls with unscaled scores and stays with scaled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import mean_and_error, random_weights
from seq2attn.inference.evaluation import attention_entropy

_STEP = 0.25  # of the quadrature
_WIDE = 9.0  # standard deviations on each side
_TAIL = 40.0


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
    """expected of S independent normal scores of the same variance, the limit D -> infinity; None: no formula"""
    uniform: float = column("uniform", ".4f")
    """log S, the entropy of uniform weights"""


def entropy_by_width(
    scores: Sequence[str], widths: Sequence[int], *, keys: Sequence[int], samples: int, seed: int
) -> Analysis[EntropyRow]:
    """The mean entropy of the weights that random queries give `keys` random keys, all components N(0, 1)."""
    rows = []
    for count in keys:
        for width in widths:
            for name, weights in random_weights(scores, width, count, samples, seed).items():
                deviation = {"dot": math.sqrt(width), "scaled": 1.0}.get(name)
                limit = None if deviation is None else expected_entropy(count, deviation)
                measured = mean_and_error(attention_entropy(weights))
                rows.append(EntropyRow(count, name, width, *measured, limit, math.log(count)))
    rows.sort(key=lambda row: (keys.index(row.keys), scores.index(row.score)))
    return Analysis({"samples": samples, "seed": seed}, tuple(rows))


def expected_entropy(keys: int, deviation: float) -> float:
    """E[H(softmax(z))] for z_1..z_S independent N(0, deviation^2), by quadrature; nats.

    H = log Z - sum p_j z_j with Z = sum exp z_j. By Stein's lemma E[sum p_j z_j] = deviation^2 (1 - E[sum p_j^2]). With
    F(u) = E[exp(-e^(u+z))] and G(u) = E[e^(2(u+z)) exp(-e^(u+z))],
    E[log Z] is the integral of exp(-e^u) - F(u)^S over all u, and E[sum p_j^2] that of S G(u) F(u)^(S-1):
    both follow from 1/Z^k = integral of t^(k-1) e^(-tZ) dt / (k-1)!, at t = e^u.
    """
    step = min(_STEP, deviation / 8)
    reach = math.ceil(_WIDE * deviation / step)
    z = step * np.arange(-reach, reach + 1)
    density = np.exp(-0.5 * (z / deviation) ** 2)
    density /= density.sum()
    beyond = math.ceil((_TAIL + math.log(keys)) / step)
    u = step * np.arange(-reach - beyond, reach + beyond + 1)
    wide = step * np.arange(-2 * reach - beyond, 2 * reach + beyond + 1)
    t = np.exp(np.minimum(wide, 50.0))
    survival, square = np.exp(-t), t**2 * np.exp(-t)
    f = np.clip(np.convolve(survival, density, "valid"), 0, 1)  # F at u; the density is even
    g = np.convolve(square, density, "valid")
    log_sum = float(np.sum(np.exp(-np.exp(np.minimum(u, 50.0))) - f**keys)) * step
    squares = float(np.sum(keys * g * f ** (keys - 1))) * step
    return log_sum - deviation**2 * (1 - squares)
