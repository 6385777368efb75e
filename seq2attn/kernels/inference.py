"""A faster way through attention without gradients, one position at a time: what would be multiplied by 0 is left out."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.kernels.plain import is_plain_call, is_plain_tensor

SHORTEST = 512  # keys from which on looking for zeros pays
DENSEST = 1 / 16  # share of the columns that may differ from 0


def may_branch(values: Tensor) -> bool:
    """Whether a decision may depend on the numbers in a tensor: plain inference on a CPU, no tracing or transformation."""
    return is_plain_call(gradients=False) and is_plain_tensor(values, values.dtype, *values.shape)


def sparse_context(weights: Tensor, values: Tensor) -> Tensor | None:
    """weights (B, 1, S) times values (B, S, Dv) from the columns with a weight that is not 0: (B, 1, Dv). None: go by the
    formula.
    """
    if not may_branch(values) or weights.size(1) != 1:
        return None
    places = _nonzero_columns(weights.squeeze(1))
    return None if places is None else torch.bmm(weights[:, :, places], values[:, places])


def nonzero_span(values: Tensor, *, margin: int) -> slice | None:
    """The columns of values (B, S) that are not 0 in every row, and `margin` more on each side. None: go by the formula;
    there may be none, or too many, or one nearer to an end than the margin.
    """
    places = _nonzero_columns(values)
    if places is None or not len(places):
        return None
    first, last = int(places[0]) - margin, int(places[-1]) + 1 + margin
    inside = first >= 0 and last <= values.size(1)
    return slice(first, last) if inside and last - first <= values.size(1) * DENSEST else None


def _nonzero_columns(values: Tensor) -> Tensor | None:
    """The columns (K,) of values (B, S) that are not 0 in every row; None where looking for them does not pay."""
    if not may_branch(values) or values.size(1) < SHORTEST:
        return None
    places = values.abs().sum(dim=0).nonzero().squeeze(1)
    return places if len(places) <= values.size(1) * DENSEST else None
