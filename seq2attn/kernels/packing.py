"""Batches without their padding: the real positions only, step after step, in the order in which a recurrence needs them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Packing:
    """Which positions of a batch (B, L) take part, in the order of the steps: N in all.

    The layout is that of `torch.nn.utils.rnn.PackedSequence`: the rows of step 0, then those of step 1, and so on. Indices
    are computed in NumPy, whose operations on so few numbers cost a fraction of a tensor's.
    """

    def __init__(self, lengths: np.ndarray[Any, Any], steps: int) -> None:
        """lengths (B,): how many positions of each row take part, never more than of the row before, at most `steps`."""
        self.rows = len(lengths)
        self.steps = steps
        self.is_whole = bool(lengths[-1] == steps)
        """whether all positions take part"""
        self._lengths = lengths
        self._taking_part = np.arange(steps)[:, None] < lengths  # (L, B)
        self._sizes = self._taking_part.sum(axis=1)  # (L,)

    @cached_property
    def sizes(self) -> Tensor:
        """(L,) how many rows take part in each step: the first so many."""
        return torch.from_numpy(self._sizes)

    @cached_property
    def offsets(self) -> Tensor:
        """(L,) where the positions of each step begin among the packed ones."""
        return torch.from_numpy(self._sizes.cumsum() - self._sizes)

    @property
    def last(self) -> tuple[Tensor, Tensor]:
        """(B,) each row, and its last position that takes part; each row has one."""
        return torch.arange(self.rows), torch.from_numpy(self._lengths - 1)

    def pack(self, padded: Tensor) -> Tensor:
        """(B, L) -> (N,), of ids: no gradient passes."""
        return torch.from_numpy(padded.numpy().T[self._taking_part])

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, W) -> (B, L, W), zeros at positions that take no part."""
        steps, rows = np.nonzero(self._taking_part)  # (N,) each
        places = torch.from_numpy(rows * self.steps + steps)
        padded = packed.new_zeros(self.rows * self.steps, packed.size(1)).index_copy(0, places, packed)
        return padded.view(self.rows, self.steps, -1)


def pack(tokens: Tensor, lengths: Tensor | None) -> Packing:
    """The real positions of tokens (B, L); all of them without lengths (B,), or where the longest row is not first, or where
    lengths are not from 1 to L.
    """
    rows, steps = tokens.shape
    if lengths is not None:
        counts = lengths.numpy()
        if steps >= counts[0] and counts[-1] >= 1 and (counts[:-1] >= counts[1:]).all():
            return Packing(counts, steps)
    return Packing(np.full(rows, steps), steps)
