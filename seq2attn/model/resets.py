"""Resets: in training, recurrent states are set to zero now and then, so that a model cannot rely on what they carry.

Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout (Krueger et al. 2017): a count
that is spread over many units survives the loss of some, but not the loss of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Resets:
    """Which states of one batch survive: True = kept, False = set to zero before the GRU reads the position's token."""

    encoder: Tensor
    """(2, B, S) in the order of reading: the forward GRU's, then the backward one's"""
    decoder: Tensor
    """(B, L)"""


def draw_resets(
    random: torch.Generator, rows: int, width: int, steps: int, *, encoder: float, decoder: float
) -> Resets:
    """Independent ones for `rows` strings, S = width and L = steps; encoder and decoder are the shares that are reset."""
    device = random.device
    return Resets(
        encoder=torch.rand(2, rows, width, generator=random, device=device) >= encoder,
        decoder=torch.rand(rows, steps, generator=random, device=device) >= decoder,
    )
