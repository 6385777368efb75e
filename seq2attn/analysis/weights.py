"""Attention weights over random keys, the same for every analysis that looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2attn.data.batches import generator
from seq2attn.model.build import build_score

AT_ONCE = 2**20  # numbers drawn together


@torch.no_grad()
def random_weights(names: Sequence[str], width: int, keys: int, samples: int, seed: int) -> Iterator[dict[str, Tensor]]:
    """softmax of each score over `keys` random keys, for `samples` random queries, some at a time: (n, S), float64.

    All components are N(0, 1); every score sees the same queries and keys.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scores = {name: build_score(name, width, width, {}) for name in names}
    random = generator(torch.device("cpu"), seed, "weights", width, keys)
    at_once = max(1, AT_ONCE // (width * (keys + 1)))
    for first in range(0, samples, at_once):
        count = min(at_once, samples - first)
        query = torch.randn(count, 1, width, generator=random)
        states = torch.randn(count, keys, width, generator=random)
        yield {
            name: torch.softmax(score(query, score.project(states)).squeeze(1).double(), dim=1)  # (n, S)
            for name, score in scores.items()
        }
