"""Families of strings: kinds of strings that a task can be measured on, besides random ones."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.data.vocabulary import SPECIAL

LONGEST_WORD, LONGEST_RUN = 8, 10


def draw_family(family: str, random: torch.Generator, count: int, length: int, symbols: int) -> Tensor:
    """`count` strings of a family other than `random`: ids (count, length) of an alphabet of `symbols`.

    They depend only on the arguments. `parts.FAMILIES` describes the families.
    """

    def between(least: int, most: int, width: int) -> Tensor:
        """Uniform integers from `least` to `most`, (N, width)."""
        return torch.randint(least, most + 1, (count, width), generator=random, device=random.device)

    def characters(width: int) -> Tensor:
        return between(0, symbols - 1, width)

    positions = torch.arange(length, device=random.device).repeat(count, 1)  # (N, S)
    match family:
        case "unary":
            ids = characters(1).expand(-1, length)
        case "periodic":
            periods = between(2, LONGEST_WORD, 1)  # (N, 1)
            ids = characters(LONGEST_WORD).gather(1, positions % periods)
        case "two_letter":
            first = characters(1)
            other = (first + between(1, max(1, symbols - 1), 1)) % symbols  # another letter, if there is one
            ids = torch.cat([first, other], dim=1).gather(1, between(0, 1, length))
        case "palindrome":
            ids = characters(length).gather(1, torch.minimum(positions, length - 1 - positions))
        case "sorted":
            ids = characters(length).sort(dim=1).values
        case "runs":
            ends = between(1, LONGEST_RUN, length).cumsum(dim=1)  # (N, S) where each run stops
            run = torch.searchsorted(ends, positions, right=True)  # (N, S) the run of each position
            ids = characters(length).gather(1, run)
        case _:
            raise KeyError(family)
    return ids + len(SPECIAL)
