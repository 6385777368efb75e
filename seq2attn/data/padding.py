"""Rows of unequal length in one tensor, padded on the right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def valid_mask(lengths: Tensor, width: int) -> Tensor:
    """(B,) lengths -> (B, width) bool, True where a position holds a real token."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)


def pad_rows(
    rows: Sequence[Sequence[int]], device: torch.device | str, padding: int = 0
) -> tuple[Tensor, Tensor]:
    """B rows -> ids (B, N) int64, N the longest row, and lengths (B,)."""
    width = max(map(len, rows), default=0)
    padded = [[*row, *[padding] * (width - len(row))] for row in rows]
    ids = torch.tensor(padded, dtype=torch.int64, device=device).view(len(rows), width)
    return ids, torch.tensor([len(row) for row in rows], dtype=torch.int64, device=device)
