"""Families of strings: kinds of strings that a task can be measured on, besides random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from seq2attn.data.vocabulary import SPECIAL

LONGEST_WORD, LONGEST_RUN = 8, 10


def draw_family(family: str, random: torch.Generator, count: int, length: int, symbols: int) -> Tensor:
    """`count` strings of a family other than `random`: ids (count, length) of an alphabet of `symbols`.

    They depend only on the arguments. `parts.FAMILIES` lists the families.
    """
    draw = _Draw(random, count, length, symbols)
    return _FAMILIES[family](draw) + len(SPECIAL)


class _Draw:
    """Random numbers for `count` strings of `length` characters from `symbols`."""

    def __init__(self, random: torch.Generator, count: int, length: int, symbols: int) -> None:
        self.random, self.count, self.length, self.symbols = random, count, length, symbols
        self.positions = torch.arange(length, device=random.device).expand(count, length)  # (N, S)

    def characters(self, width: int) -> Tensor:
        """Uniform characters (N, width)."""
        return self.between(0, self.symbols - 1, width)

    def between(self, least: int, most: int, width: int) -> Tensor:
        """Uniform integers from `least` to `most`, (N, width)."""
        size = (self.count, width)
        return torch.randint(least, most + 1, size, generator=self.random, device=self.random.device)


def _unary(draw: _Draw) -> Tensor:
    return draw.characters(1).expand(-1, draw.length)


def _periodic(draw: _Draw) -> Tensor:
    periods = draw.between(2, LONGEST_WORD, 1)  # (N, 1)
    return draw.characters(LONGEST_WORD).gather(1, draw.positions % periods)


def _two_letter(draw: _Draw) -> Tensor:
    first = draw.characters(1)
    other = (first + draw.between(1, max(1, draw.symbols - 1), 1)) % draw.symbols  # another letter, if there is one
    return torch.cat([first, other], dim=1).gather(1, draw.between(0, 1, draw.length))


def _palindrome(draw: _Draw) -> Tensor:
    return draw.characters(draw.length).gather(1, torch.minimum(draw.positions, draw.length - 1 - draw.positions))


def _sorted(draw: _Draw) -> Tensor:
    return draw.characters(draw.length).sort(dim=1).values


def _runs(draw: _Draw) -> Tensor:
    ends = draw.between(1, LONGEST_RUN, draw.length).cumsum(dim=1)  # (N, S) where each run stops
    run = torch.searchsorted(ends, draw.positions.contiguous(), right=True)  # (N, S) the run of each position
    return draw.characters(draw.length).gather(1, run)


_FAMILIES: Mapping[str, Callable[[_Draw], Tensor]] = {
    "unary": _unary,
    "periodic": _periodic,
    "two_letter": _two_letter,
    "palindrome": _palindrome,
    "sorted": _sorted,
    "runs": _runs,
}
