"""Scores of random queries and keys, shared by the analyses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.batches import generator
from seq2attn.model.scores import Score
from seq2attn.parts import SCORES

BLOCK = 2**20  # numbers drawn at once


@dataclass(frozen=True)
class Components:
    """Queries and keys with i.i.d. normal components: s ~ N(query_mean, query_sd^2), h ~
    N(key_mean, key_sd^2).
    """

    query_mean: float = 0.0
    query_sd: float = 1.0
    key_mean: float = 0.0
    key_sd: float = 1.0


def seeded_score(name: str, width: int, seed: int) -> Score:
    """Return a score for queries and keys of this width, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SCORES.make(SCORES.choose(name), width, width)


@torch.no_grad()
def random_scores(
    score: Score,
    purpose: str,
    width: int,
    keys: int,
    samples: int,
    seed: int,
    components: Components,
) -> Tensor:
    """Score `samples` random queries against `keys` random keys each: (samples, S), float64.

    Every score sees the same queries and keys.
    """
    random = generator("cpu", seed, purpose, width, keys)
    block = max(1, BLOCK // (width * (keys + 1)))
    blocks = []
    for first in range(0, samples, block):
        count = min(block, samples - first)
        query = torch.randn(count, 1, width, generator=random)
        states = torch.randn(count, keys, width, generator=random)
        query = query * components.query_sd + components.query_mean
        states = states * components.key_sd + components.key_mean
        scores = score(query, score.project(states))  # (n, 1, S)
        blocks.append(scores.squeeze(1).double())
    return torch.cat(blocks)


def random_weights(name: str, width: int, keys: int, samples: int, seed: int) -> Tensor:
    """Return the attention weights (samples, S) of a score, all components N(0, 1)."""
    score = seeded_score(name, width, seed)
    scores = random_scores(score, "weights", width, keys, samples, seed, Components())
    return torch.softmax(scores, dim=1)


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Return the mean of values (n,), and its standard error."""
    return float(values.mean()), float(values.std() / len(values) ** 0.5)
