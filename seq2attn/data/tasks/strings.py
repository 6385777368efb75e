"""Tasks on random strings over one alphabet, whose targets consist of characters of the source."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from seq2attn.data.padding import pad_rows, valid_mask
from seq2attn.data.tasks.base import Examples, Solution, Task
from seq2attn.data.vocabulary import PAD, SPECIAL, Vocabulary
from seq2attn.parts import DIGITS, FAMILIES, RANDOM, SYMBOLS

LONGEST_WORD, LONGEST_RUN = 8, 10  # of families
RUNS = (1, 3, 5)  # of `DeDupe`


class StringTask(Task):
    """Each target position copies a source position; characters are i.i.d. uniform, lengths
    uniform.

    A subclass gives `alignment`, and `expansion` if its targets are longer than the source;
    `target_lengths` if they are not that multiple of it.
    """

    expansion: ClassVar[int] = 1  # length of the longest target / length of its source

    def __init__(
        self,
        *,
        alphabet: str = "abcdefghijklmnopqrstuvwxyz",
        symbols: int | None = None,
        min_length: int = 1,
        max_length: int = 12,
    ) -> None:
        self.source_vocabulary = self.target_vocabulary = Vocabulary(
            SYMBOLS[:symbols] if symbols else alphabet
        )
        self.min_length, self.max_length = min_length, max_length

    @abstractmethod
    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        """The source position that each target position copies.

        source (B, S) character ids, right-padded; lengths (B,) of the strings; positions (T,) =
        0..T-1. Returns (B, T) int64, defined where the position is inside the target; elsewhere the
        value is ignored.
        """

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """Sources padded to `max_length`, or of exactly `length` characters."""
        shortest, longest = (
            (self.min_length, self.max_length) if length is None else (length, length)
        )
        device, alphabet_size = random.device, len(self.source_vocabulary.symbols)
        lengths = torch.randint(shortest, longest + 1, (count,), generator=random, device=device)
        ids = torch.randint(alphabet_size, (count, longest), generator=random, device=device) + len(
            SPECIAL
        )
        return self.solve(ids.masked_fill(~valid_mask(lengths, longest), PAD), lengths)

    @property
    def families(self) -> Sequence[str]:
        """All; of a subclass that draws its own examples, those only."""
        free = type(self).examples is StringTask.examples
        return FAMILIES.names() if free else (RANDOM,)

    def family(self, name: str, random: torch.Generator, count: int, length: int) -> Examples:
        if name == RANDOM:
            return self.examples(random, count, length)
        source = draw_family(name, random, count, length, len(self.source_vocabulary.symbols))
        return self.solve(source, torch.full((count,), length, device=source.device))

    def target_length(self, source_length: int) -> int:
        return self.expansion * source_length

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        """The length of each target (B,), at most `target_length`; source and lengths as for
        `alignment`.
        """
        return self.expansion * lengths

    def answer(self, text: str) -> Solution:
        """The target of `text`, which may only use the alphabet."""
        solved = self.solve(*pad_rows([self.source_vocabulary.encode(text)], "cpu"))
        assert solved.alignment is not None
        length = int(solved.target_lengths)
        target, alignment = (
            solved.target[0, :length].tolist(),
            solved.alignment[0, :length].tolist(),
        )
        return Solution(self.target_vocabulary.decode(target), tuple(alignment))

    def solve(self, source: Tensor, lengths: Tensor) -> Examples:
        """The examples with these sources (N, S), right-padded, of these lengths (N,)."""
        target_lengths = self.target_lengths(source, lengths)
        positions = torch.arange(self.expansion * source.size(1), device=source.device)
        valid = valid_mask(target_lengths, positions.size(0))  # (N, T)
        alignment = self.alignment(source, lengths, positions).masked_fill(~valid, -1)
        target = source.gather(1, alignment.clamp(min=0)).masked_fill(~valid, PAD)
        return Examples(source, lengths, target, target_lengths, alignment)


def draw_family(
    family: str, random: torch.Generator, count: int, length: int, symbols: int
) -> Tensor:
    """`count` strings of a family other than `random`: ids (count, length) of an alphabet of
    `symbols`.

    They depend only on the arguments. `parts.FAMILIES` describes the families.
    """

    def between(least: int, most: int, width: int) -> Tensor:
        """Uniform integers from `least` to `most`, (N, width)."""
        return torch.randint(
            least, most + 1, (count, width), generator=random, device=random.device
        )

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
            other = (
                first + between(1, max(1, symbols - 1), 1)
            ) % symbols  # another letter, if there is one
            ids = torch.cat([first, other], dim=1).gather(1, between(0, 1, length))
        case "palindrome":
            ids = characters(length).gather(1, torch.minimum(positions, length - 1 - positions))
        case "sorted":
            ids = characters(length).sort(dim=1).values
        case _:  # runs
            ends = between(1, LONGEST_RUN, length).cumsum(dim=1)  # (N, S) where each run stops
            run = torch.searchsorted(ends, positions, right=True)  # (N, S) the run of each position
            ids = characters(length).gather(1, run)
    return ids + len(SPECIAL)


# ---- the tasks ----


class Copy(StringTask):
    """The string itself: output t copies source t.

    abc -> abc    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return positions.expand(len(source), -1)


class Reverse(StringTask):
    """The string backwards: output t copies source n-1-t.

    abc -> cba    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return lengths.unsqueeze(1) - 1 - positions


class Sort(StringTask):
    """The characters in the alphabet's order; equal characters keep their order (stable argsort).

    cab -> abc    banana -> aaabnn
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        past_the_end = positions >= lengths.unsqueeze(1)  # (B, S)
        return source.masked_fill(past_the_end, source.max() + 1).argsort(dim=1, stable=True)


class Duplicate(StringTask):
    """The string twice: output t copies source t mod n, t < 2n.

    abc -> abcabc    a -> aa
    """

    expansion = 2

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return positions % lengths.unsqueeze(1)


class OddsFirst(StringTask):
    """The characters at odd positions, counted from 0, then those at even ones (Deletang et al.
    2023).

    abcde -> bdace    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        odd = lengths.unsqueeze(1) // 2  # (B, 1) how many there are
        return 2 * torch.where(positions < odd, positions, positions - odd) + (positions < odd)


class Flip(StringTask):
    """The two characters of each pair exchanged (Grefenstette et al. 2015); of an odd length, the
    last one stays.

    abcd -> badc    abcde -> badce    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return torch.minimum(positions + 1 - 2 * (positions % 2), lengths.unsqueeze(1) - 1)


class ReCopy(StringTask):
    """Each digit as often as it says: 0 to 3 once, 4 to 6 three times, 7 to 9 five times (Ray
    Chowdhury & Caragea 2023).

    240 -> 24440    8 -> 88888    reverse: 240 -> 04442
    """

    expansion = 5

    def __init__(self, *, reverse: bool = False, min_length: int = 5, max_length: int = 10) -> None:
        super().__init__(alphabet=DIGITS, min_length=min_length, max_length=max_length)
        self.reverse = reverse

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self._times(source).sum(dim=1)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        ends = self._times(source).cumsum(dim=1)  # (B, S) where the copies of each digit end
        if self.reverse:
            positions = ends[:, -1:] - 1 - positions  # from the last one on
        return torch.searchsorted(ends, positions.expand(len(source), -1).contiguous(), right=True)

    def _times(self, source: Tensor) -> Tensor:
        """How often each digit is written, (B, S); 0 for padding."""
        digits = source - len(SPECIAL)
        return (digits >= 0).long() + 2 * (digits > 3) + 2 * (digits > 6)


class DeDupe(StringTask):
    """Each run of equal digits once (Ray Chowdhury & Caragea 2023).

    7772 -> 72    44444 -> 4

    Sources are runs of 1, 3 or 5 random digits, the last one cut to the source's length;
    neighbouring runs of one digit are one run.
    """

    def __init__(self, *, min_length: int = 5, max_length: int = 30) -> None:
        super().__init__(alphabet=DIGITS, min_length=min_length, max_length=max_length)

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        drawn = super().examples(random, count, length)
        times = torch.randint(len(RUNS), drawn.source.shape, generator=random, device=random.device)
        ends = torch.tensor(RUNS, device=random.device)[times].cumsum(dim=1)  # (N, S)
        places = (
            torch.arange(drawn.source.size(1), device=random.device)
            .expand_as(drawn.source)
            .contiguous()
        )
        source = drawn.source.gather(1, torch.searchsorted(ends, places, right=True))
        return self.solve(source.masked_fill(drawn.source == 0, 0), drawn.source_lengths)

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self._starts(source).sum(dim=1)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        run = self._starts(source).cumsum(dim=1)  # (B, S) the number of each position's run, from 1
        return torch.searchsorted(run, (positions + 1).expand(len(source), -1).contiguous())

    def _starts(self, source: Tensor) -> Tensor:
        """Where a run starts, (B, S); not in padding."""
        before = torch.nn.functional.pad(source, (1, 0))[:, :-1]
        return ((source != before) & (source != 0)).long()
