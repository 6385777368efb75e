"""String tasks: each says which source character stands at each output position.

A task is its ideal alignment; the target string follows from it. The alignment is also what `eval` holds a model's
attention against.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Task(ABC):
    """From source strings to target strings.

    A subclass gives `alignment`, and `expansion` if its targets are a multiple of the source's length.
    """

    expansion: int = 1
    """length of the target / length of the source"""

    @abstractmethod
    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        """The source position that each output position copies.

        source (B, S) character ids, right-padded; lengths (B,) of the strings; positions (T,) = 0..T-1.
        Returns (B, T) int64, defined where the position is inside the target; elsewhere the value is ignored.
        """

    def solve(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The targets of a batch: source (B, S), lengths (B,) -> targets (B, T), alignment (B, T), T = expansion * S.

        Past a target's end the target is 0 (`<pad>`) and the alignment -1.
        """
        positions = torch.arange(self.expansion * source.size(1), device=source.device)
        inside = positions < (self.expansion * lengths).unsqueeze(1)  # (B, T)
        alignment = self.alignment(source, lengths, positions).masked_fill(~inside, -1)
        target = source.gather(1, alignment.clamp(min=0)).masked_fill(~inside, 0)
        return target, alignment
