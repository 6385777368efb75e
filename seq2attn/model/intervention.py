"""Interventions: attention as a person sets it, instead of as the model computes it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Intervention(NamedTuple):
    """What is changed at one output position of B strings; `Model.intervene` puts it into their memory.

    Scores are divided by the temperature; banned keys are left out of the softmax, as padding is; then the weights of some
    keys are set. The context, and what a history remembers, follow from the changed weights. The Transformer is changed in
    every head of every layer of its cross-attention.
    """

    banned: Tensor
    """(B, 1, S) True = the key may not be attended to"""
    forced: Tensor
    """(B, 1, S) True = the key's weight is set, whether or not it is banned, padding or outside the window"""
    weights: Tensor
    """(B, 1, S) the weights to set, from 0 to 1; others are not read"""
    temperature: Tensor
    """(B, 1, 1) positive; below 1 attention is sharper, above 1 it is flatter"""
    valid: Tensor | None = None
    """(B, 1, S) takes the place of the padding mask; None: the mask of the memory"""

    def for_heads(self) -> Intervention:
        """The same with (B, 1, 1, ...) in place of (B, 1, ...), for scores (B, H, 1, S)."""
        valid = None if self.valid is None else self.valid.unsqueeze(1)
        banned, forced, weights, temperature = (part.unsqueeze(1) for part in self[:4])
        return Intervention(banned, forced, weights, temperature, valid)

    def allowed(self, valid: Tensor | None) -> Tensor:
        """valid (B, 1, S), the memory's mask, None: all keys -> (B, 1, S), the keys that may be attended to."""
        valid = valid if self.valid is None else self.valid
        return ~self.banned if valid is None else valid & ~self.banned

    def set_weights(self, weights: Tensor) -> Tensor:
        """The weights (B, 1, S) with some set, and the others scaled to sum to what those leave of 1.

        Where the others are all 0 they stay 0. A row in which none is set is unchanged, whatever its sum.
        """
        others = weights.masked_fill(self.forced, 0.0)
        left = 1 - self.weights.masked_fill(~self.forced, 0.0).sum(dim=-1, keepdim=True)  # (B, 1, 1)
        least = torch.finfo(weights.dtype).tiny
        others = others * (left.clamp(min=0) / others.sum(dim=-1, keepdim=True).clamp(min=least))
        changed = torch.where(self.forced, self.weights, others)
        return torch.where(self.forced.any(dim=-1, keepdim=True), changed, weights)
