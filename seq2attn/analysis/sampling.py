"""Random queries, keys and scores, shared by the analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2attn.data.batches import generator
from seq2attn.errors import Seq2AttnError
from seq2attn.model.scores import Score
from seq2attn.parts import SCORES

BLOCK = 2**20  # numbers drawn per block
MOST_DRAWN = 10**10  # random numbers in one analysis: some minutes
MOST_KEPT = 10**8  # results in memory


def check_work(drawn: int, kept: int) -> None:
    """Refuse an analysis that would draw or keep too many numbers, before it runs."""
    if drawn > MOST_DRAWN or kept > MOST_KEPT:
        raise Seq2AttnError(
            f"that takes {drawn:,} random numbers; at most {MOST_DRAWN:,}, and {MOST_KEPT:,} results",
            hint="Ask for fewer --samples, or smaller sizes.",
        )


def seeded_score(name: str, width: int, seed: int) -> Score:
    """A score for queries and keys of this width, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        score: Score = SCORES.make(SCORES.choose(name), width, width)
        return score


@torch.no_grad()
def random_weights(names: Sequence[str], width: int, keys: int, samples: int, seed: int) -> Iterator[dict[str, Tensor]]:
    """Attention weights of each score over `keys` random keys, for `samples` random queries, in blocks (n, S) of float64.

    All components are N(0, 1); every score sees the same queries and keys.
    """
    scores = {name: seeded_score(name, width, seed) for name in names}
    random = generator(torch.device("cpu"), seed, "weights", width, keys)
    block = max(1, BLOCK // (width * (keys + 1)))
    for first in range(0, samples, block):
        count = min(block, samples - first)
        query = torch.randn(count, 1, width, generator=random)
        states = torch.randn(count, keys, width, generator=random)
        yield {
            name: torch.softmax(score(query, score.project(states)).squeeze(1).double(), dim=1)  # (n, S)
            for name, score in scores.items()
        }
