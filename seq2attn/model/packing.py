"""Batches without their padding: the real positions only, step after step, as a recurrence on a CPU goes through them."""

from __future__ import annotations

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
        taking_part = np.arange(steps)[:, None] < lengths  # (L, B)
        self._sizes = taking_part.sum(axis=1)  # (L,)
        self.sizes: list[int] = self._sizes.tolist()
        """how many rows take part in each step: the first so many"""
        self._step, self._row = taking_part.nonzero()  # (N,) each
        self.index = torch.from_numpy(self._row * steps + self._step)
        """(N,) where each packed position lies in the flattened batch (B * L)"""
        self._starts = self._sizes.cumsum() - self._sizes  # (L,) where each step begins among the packed positions
        place = np.where(taking_part, self._starts[:, None] + np.arange(self.rows), len(self._step))  # (L, B)
        self._place = torch.from_numpy(place.T.ravel())  # (B * L,) where each position is packed; N: nowhere
        self._lengths = lengths

    @property
    def is_full(self) -> bool:
        """Whether all positions take part."""
        return len(self.index) == self.rows * self.steps

    @property
    def previous(self) -> Tensor:
        """(N,) where each position's predecessor lies in (B + N, ...): B initial values, and then all packed positions."""
        before = np.where(self._step > 0, self.rows + self._starts[self._step - 1], 0)
        return torch.from_numpy(before + self._row)

    @property
    def last(self) -> Tensor:
        """(B,) the packed position of each row's last one; each row takes part in the first step."""
        return torch.from_numpy(self._last)

    @property
    def _last(self) -> np.ndarray[Any, Any]:
        last: np.ndarray[Any, Any] = self._starts[self._lengths - 1] + np.arange(self.rows)
        return last

    def pack(self, padded: Tensor) -> Tensor:
        """(B, L, ...) -> (N, ...)"""
        return padded.flatten(0, 1).index_select(0, self.index)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...), zeros at positions that take no part."""
        unpacked: Tensor = _Unpack.apply(packed, self._place, self.index)  # type: ignore[no-untyped-call]
        return unpacked.view(self.rows, self.steps, *packed.shape[1:])

    def hold(self, packed: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...), each row's last value at its positions that take no part; gradients do not pass there.

        Each row takes part in the first step.
        """
        place = self._place.numpy().reshape(self.rows, self.steps)
        held = np.where(place < len(self.index), place, self._last[:, None]).ravel()
        unpacked: Tensor = _Unpack.apply(packed, torch.from_numpy(held), self.index)  # type: ignore[no-untyped-call]
        return unpacked.view(self.rows, self.steps, *packed.shape[1:])


class _Unpack(torch.autograd.Function):
    """packed (N, ...) -> row `place[i]` of it at position i, zeros where that is N; `index` says where each row went.

    Backwards each row gets what came to that one place: torch's own gather would add up place after place.
    """

    @staticmethod
    def forward(ctx: Any, packed: Tensor, place: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return torch.cat([packed, packed.new_zeros(1, *packed.shape[1:])]).index_select(0, place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.index_select(0, index), None, None


def pack_lengths(lengths: Tensor, steps: int) -> Packing:
    """The real positions of rows with these lengths (B,), if they come longest first; otherwise all positions."""
    counts = lengths.numpy()
    return Packing(counts, steps) if (counts[:-1] >= counts[1:]).all() else pack_all(len(counts), steps)


def pack_all(rows: int, steps: int) -> Packing:
    """Every position of a batch (rows, steps)."""
    return Packing(np.full(rows, steps), steps)
