"""Rows of unequal length in one tensor, padded on the right."""

from collections.abc import Sequence

import torch
from torch import Tensor


def valid_mask(lengths: Tensor, width: int) -> Tensor:
    """Return (B, width) bool of lengths (B,): True where a position holds a real token."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Pad B rows with `<pad>`, 0: return ids (B, N) int64, N the longest row, and lengths (B,)."""
    lengths = [len(row) for row in rows]
    width = max(lengths, default=0)
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    ids = torch.tensor(padded, dtype=torch.int64, device=device).view(len(rows), width)
    return ids, torch.tensor(lengths, dtype=torch.int64, device=device)
