"""The entropy of attention over random keys against the width: it falls with unscaled scores and stays with scaled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import mean_and_error, random_weights
from seq2attn.data.batches import generator
from seq2attn.inference.evaluation import attention_entropy

DRAWN = 2**21  # numbers for an expected entropy, which is then right to about 0.001


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


@cache
def expected_entropy(keys: int, deviation: float) -> float:
    """E[H(softmax(z))] for z_1..z_S independent N(0, deviation^2), nats: the mean over many draws."""
    random = generator(torch.device("cpu"), "expected entropy", keys)
    scores = torch.randn(DRAWN // keys, keys, generator=random)
    return float(attention_entropy(torch.softmax(deviation * scores.double(), dim=1)).mean())
