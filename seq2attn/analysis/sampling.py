"""Random queries, keys and scores, shared by the analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2attn.data.batches import generator
from seq2attn.model.scores import Score
from seq2attn.parts import SCORES

BLOCK = 2**20  # numbers drawn per block


def seeded_score(name: str, width: int, seed: int) -> Score:
    """A score for queries and keys of this width, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SCORES.make(SCORES.choose(name), width, width)


def random_vectors(
    purpose: str, width: int, keys: int, samples: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """`samples` queries (n, 1, D) and `keys` keys for each (n, S, D) in blocks; all components are
    N(0, 1).
    """
    random = generator("cpu", seed, purpose, width, keys)
    block = max(1, BLOCK // (width * (keys + 1)))
    for first in range(0, samples, block):
        count = min(block, samples - first)
        yield (
            torch.randn(count, 1, width, generator=random),
            torch.randn(count, keys, width, generator=random),
        )


@torch.no_grad()
def random_weights(
    names: Sequence[str], width: int, keys: int, samples: int, seed: int
) -> dict[str, Tensor]:
    """The attention weights (samples, S) of each score, in float64. Every score sees the same
    queries and keys.
    """
    scores = {name: seeded_score(name, width, seed) for name in names}
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    for query, states in random_vectors("weights", width, keys, samples, seed):
        for name, score in scores.items():
            parts[name].append(
                torch.softmax(score(query, score.project(states)).squeeze(1).double(), dim=1)
            )  # (n, S)
    return {name: torch.cat(some) for name, some in parts.items()}


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """The mean of values (n,), and its standard error."""
    return float(values.mean()), float(values.std() / len(values) ** 0.5)
