"""Batches without their padding: the real positions only, step after step, as a recurrence goes through them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

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
        flat = packed.new_zeros(self.rows * self.steps, *packed.shape[1:])
        return flat.index_copy(0, self.index, packed).view(self.rows, self.steps, *packed.shape[1:])


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
