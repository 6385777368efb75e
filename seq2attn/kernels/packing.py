"""Batches without their padding: the real positions only, step after step, as a recurrence on a CPU goes through them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Packing:
    """Which positions of a batch (B, L) take part, in the order of the steps: N in all.

    The layout is that of `torch.nn.utils.rnn.PackedSequence`: the rows of step 0, then those of step 1, and so on. Where
    everything lies is worked out in NumPy, whose operations on so few numbers cost a fraction of a tensor's.
    """

    def __init__(self, lengths: np.ndarray[Any, Any], steps: int) -> None:
        """lengths (B,): how many positions of each row take part, never more than of the row before, at most `steps`."""
        self.rows = len(lengths)
        self.steps = steps
        self._lengths = lengths
        self._taking_part = np.arange(steps)[:, None] < lengths  # (L, B)
        self.sizes: list[int] = self._taking_part.sum(axis=1).tolist()
        """how many rows take part in each step: the first so many"""

    @cached_property
    def counts(self) -> Tensor:
        """(L,) `sizes` as a tensor."""
        return torch.tensor(self.sizes)

    @cached_property
    def offsets(self) -> Tensor:
        """(L,) where the positions of each step begin among the packed ones."""
        return self.counts.cumsum(0) - self.counts

    @property
    def last(self) -> tuple[Tensor, Tensor]:
        """(B,) each row, and its last position that takes part; each row has one."""
        return torch.arange(self.rows), torch.from_numpy(self._lengths - 1)

    def pack(self, padded: Tensor) -> Tensor:
        """(B, L) -> (N,), of ids: no gradient passes."""
        return torch.from_numpy(padded.numpy().T[self._taking_part])

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...), zeros at positions that take no part."""
        index = torch.from_numpy(np.flatnonzero(self._taking_part))
        unpacked = packed.new_zeros(self.steps * self.rows, *packed.shape[1:]).index_copy(0, index, packed)
        return unpacked.view(self.steps, self.rows, *packed.shape[1:]).transpose(0, 1)

    def spread(self, packed: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...) at a third of the cost, any of the packed numbers at positions that take no part."""
        return packed.index_select(0, self._place).view(self.rows, self.steps, *packed.shape[1:])

    @cached_property
    def _place(self) -> Tensor:
        """(B * L,) where each position is packed; where it takes no part, where another is."""
        return torch.from_numpy((self._taking_part.cumsum().reshape(self.steps, self.rows).T - 1).ravel())


def pack_lengths(lengths: Tensor, steps: int) -> Packing | None:
    """The real positions of rows with these lengths (B,), if they come longest first."""
    counts = lengths.numpy()
    return Packing(counts, steps) if (counts[:-1] >= counts[1:]).all() else None


def pack_all(rows: int, steps: int) -> Packing:
    """Every position of a batch (rows, steps)."""
    return Packing(np.full(rows, steps), steps)


def pack(tokens: Tensor, lengths: Tensor | None) -> Packing:
    """The real positions of tokens (B, L), or all where lengths (B,) are not given or not longest first."""
    rows, steps = tokens.shape
    return (None if lengths is None else pack_lengths(lengths, steps)) or pack_all(rows, steps)
