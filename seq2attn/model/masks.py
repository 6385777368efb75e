"""The one masked softmax of the project."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, valid: Tensor | None, *, out: Tensor | None = None) -> Tensor:
    """Softmax over the last dimension, with what is not valid excluded exactly.

    scores (..., S); valid broadcasts to it, True = may be attended to, None = everything. Returns weights (..., S):
    exactly 0 where not valid; a row with nothing valid is all zeros, with zero gradients. `out` takes the weights where
    autograd is not to follow.
    """
    if valid is None:
        return torch.softmax(scores, dim=-1, out=out)
    invalid = ~valid
    filled = scores.masked_fill(invalid, torch.finfo(scores.dtype).min)
    if out is None:
        return torch.softmax(filled, dim=-1).masked_fill(invalid, 0.0)
    return torch.softmax(filled, dim=-1, out=out).masked_fill_(invalid, 0.0)


def additive_mask(valid: Tensor, dtype: torch.dtype) -> Tensor:
    """The same exclusion as numbers to add to the scores before a plain softmax, of the shape of `valid`.

    0 where valid, elsewhere the lowest number there is: its softmax is exactly 0. For rows with something valid.
    """
    return torch.where(valid, torch.zeros((), dtype=dtype, device=valid.device), torch.finfo(dtype).min)
