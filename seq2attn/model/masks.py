"""The one masked softmax of the project."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Softmax over the valid entries of the last dimension.

    scores (..., S); valid broadcasts to it, True = may be attended to, None = everything. Returns weights (..., S):
    exactly 0 where not valid; a row without valid entries is all zeros, with zero gradients.
    """
    if valid is None:
        return torch.softmax(scores, dim=-1)
    invalid = ~valid
    filled = scores.masked_fill(invalid, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1).masked_fill(invalid, 0.0)
