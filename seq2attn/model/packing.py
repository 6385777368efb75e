"""Batches without their padding: the real positions only, step after step, as a recurrence goes through them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from seq2attn.masks import valid_mask


@dataclass(frozen=True)
class Packing:
    """Which positions of a batch (B, L) take part, in the order of the steps: N in all.

    The layout is that of `torch.nn.utils.rnn.PackedSequence`: the rows of step 0, then those of step 1, and so on.
    """

    rows: int
    steps: int
    sizes: list[int]
    """how many rows take part in each step: the first so many, never more than in the step before"""
    index: Tensor
    """(N,) where each packed position lies in the flattened batch (B * L)"""

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
        row = torch.arange(self.rows * self.steps, device=self.index.device) // self.steps  # (B * L,)
        place = torch.where(self._place < len(self.index), self._place, self.last[row])
        held: Tensor = _Unpack.apply(packed, place, self.index)  # type: ignore[no-untyped-call]
        return held.view(self.rows, self.steps, *packed.shape[1:])

    @property
    def is_full(self) -> bool:
        """Whether all positions take part."""
        return len(self.index) == self.rows * self.steps

    @cached_property
    def previous(self) -> Tensor:
        """(N,) where each position's predecessor lies in (B + N, ...): B initial values, and then all packed positions."""
        starts = torch.tensor([0, *itertools.accumulate([self.rows, *self.sizes])], device=self.index.device)
        row, step = self.index // self.steps, self.index % self.steps
        return starts[step] + row

    @cached_property
    def last(self) -> Tensor:
        """(B,) the packed position of each row's last one. Each row takes part in the first step."""
        real = (self._place.view(self.rows, self.steps) < len(self.index)).sum(dim=1, keepdim=True)  # (B, 1)
        return self._place.view(self.rows, self.steps).gather(1, real - 1).squeeze(1)

    @cached_property
    def _place(self) -> Tensor:
        """(B * L,) where each position lies among the packed ones; N: it takes no part."""
        count = len(self.index)
        place = torch.full((self.rows * self.steps,), count, device=self.index.device)
        return place.index_copy_(0, self.index, torch.arange(count, device=self.index.device))


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
    rows, listed = len(lengths), lengths.tolist()
    if any(earlier < later for earlier, later in itertools.pairwise(listed)):
        return pack_all(rows, steps, lengths.device)
    valid = valid_mask(lengths, steps)  # (B, L)
    step, row = valid.t().nonzero(as_tuple=True)
    return Packing(rows, steps, valid.sum(dim=0).tolist(), row * steps + step)


def pack_all(rows: int, steps: int, device: torch.device) -> Packing:
    """Every position of a batch (rows, steps)."""
    index = torch.arange(rows * steps, device=device).view(rows, steps).t().flatten()
    return Packing(rows, steps, [rows] * steps, index)
