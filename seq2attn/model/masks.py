"""The one masked softmax of the project."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Softmax over the last dimension, with everything that is not valid excluded exactly.

    scores (..., S); valid broadcasts to it, True = may be attended to, None = everything. Returns weights (..., S):
    exactly 0 where not valid; a row with nothing valid is all zeros, with zero gradients.
    """
    if valid is None:
        return torch.softmax(scores, dim=-1)
    filled = scores.masked_fill(~valid, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1).masked_fill(~valid, 0.0)
