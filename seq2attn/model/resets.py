"""Resets: in training, recurrent states are replaced by noise now and then, so that a model cannot rely on what they carry.

Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout (Krueger et al. 2017): a count
that is spread over many units survives the loss of some, but not the loss of all. By noise and not by zeros, which are the
first state: a reset in the middle of a string must not look like its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reset:
    """What one GRU finds in the place of its states, in the order in which it reads."""

    kept: Tensor
    """(B, L) True = the state as it is, False = noise, when the GRU reads this position's token"""
    noise: Tensor
    """(B, L, D) uniform in [-1, 1), as far as a GRU's states reach"""

    def __call__(self, state: Tensor, position: int) -> Tensor:
        """state (B, D) before `position` -> what the GRU is given in its place (B, D)."""
        return torch.where(self.kept[:, position].unsqueeze(1), state, self.noise[:, position])


@dataclass(frozen=True)
class Resets:
    """Those of one batch."""

    forward: Reset
    backward: Reset
    """the encoder's two directions"""
    decoder: Reset


def draw_reset(random: torch.Generator, tokens: Tensor, width: int, share: float) -> Reset:
    """For a GRU with states of this width that reads tokens (B, L): each state is reset with the probability `share`.

    The first too: places are not to be told by how far from the beginning they are.
    """
    device, (rows, steps) = random.device, tokens.shape
    return Reset(
        kept=torch.rand(rows, steps, generator=random, device=device) >= share,
        noise=2 * torch.rand(rows, steps, width, generator=random, device=device) - 1,
    )
