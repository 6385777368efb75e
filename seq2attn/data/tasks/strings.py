"""Tasks on random strings over one alphabet, whose targets consist of characters of the source."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from seq2attn.data.batches import Examples, draw_integers, pad_rows, valid_mask
from seq2attn.data.tasks import Solution, Task
from seq2attn.data.vocabulary import PAD, SPECIAL, Vocabulary
from seq2attn.parts import DIGITS, FAMILIES, RANDOM, SYMBOLS

LONGEST_WORD, LONGEST_RUN = 8, 10  # of families
RUNS = (1, 3, 5)  # of `DeDupe`


class StringTask(Task):
    """Each target position copies a source position; characters are i.i.d. uniform, lengths
    uniform.

    alphabet: the characters of strings. symbols: if given, they are the first so many of
        `parts.SYMBOLS` instead.

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
        characters = SYMBOLS[:symbols] if symbols else alphabet
        self.source_vocabulary = self.target_vocabulary = Vocabulary(characters)
        self.min_length = min_length
        self.max_length = max_length

    @abstractmethod
    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        """Return the source position that each target position copies.

        source (B, S) character ids, right-padded; lengths (B,) of the strings; positions (T,) =
        0..T-1. Returns (B, T) int64, defined where the position is inside the target; elsewhere the
        value is ignored.
        """

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw sources of `min_length` to `max_length` characters, all padded to `max_length`; or,
        with `length`, of exactly so many.
        """
        shortest, longest = self.min_length, self.max_length
        if length is not None:
            shortest = longest = length
        lengths = draw_integers(random, shortest, longest, count)
        first, last = len(SPECIAL), len(self.source_vocabulary) - 1
        source = draw_integers(random, first, last, count, longest)
        return self.solve(source.masked_fill(~valid_mask(lengths, longest), PAD), lengths)

    @property
    def _is_uniform(self) -> bool:
        """True unless a subclass draws its own examples."""
        return type(self).examples is StringTask.examples

    def share_drawn(self, length: int, examples: int) -> float | None:
        """Return the expected share of all strings of this length that so many examples contain;
        None if strings are not equally likely.

        Of n examples of this length, each is a given string with probability p. How often it is
        drawn is then about Poisson-distributed with mean n p, so it occurs with probability
        1 - exp(-n p).
        """
        if not self._is_uniform:
            return None
        if not self.is_trained(length):
            return 0.0
        of_length = examples / (self.max_length - self.min_length + 1)
        probability = float(len(self.source_vocabulary.symbols)) ** -length
        return -math.expm1(-of_length * probability)

    @property
    def families(self) -> Sequence[str]:
        """All; only `random` if a subclass draws its own examples."""
        return FAMILIES.names() if self._is_uniform else (RANDOM,)

    def family(self, name: str, random: Generator, count: int, length: int) -> Examples:
        """Draw `count` strings of `length` characters of a family, and solve them;
        `parts.FAMILIES` says what they are like.
        """
        if name == RANDOM:
            return self.examples(random, count, length)
        symbols = len(self.source_vocabulary.symbols)
        # characters(n) draws (N, n) characters, each as its number in the alphabet, from 0
        characters = partial(draw_integers, random, 0, symbols - 1, count)
        positions = torch.arange(length, device=random.device).expand(count, -1)  # (N, S)
        match name:
            case "unary":
                ids = characters(1).expand(-1, length)
            case "periodic":
                # the first characters of a word, as many as its period, again and again
                periods = draw_integers(random, 2, LONGEST_WORD, count, 1)  # (N, 1)
                ids = characters(LONGEST_WORD).gather(1, positions % periods)
            case "two_letter":
                first = characters(1)
                # from the first letter to the second, which is another one if symbols > 1
                distance = draw_integers(random, 1, max(1, symbols - 1), count, 1)
                choices = draw_integers(random, 0, 1, count, length)
                ids = (first + choices * distance) % symbols
            case "palindrome":  # a position and its mirror image have the same character
                ids = characters(length).gather(1, torch.minimum(positions, length - 1 - positions))
            case "sorted":
                ids = characters(length).sort(dim=1).values
            case _:  # `runs`, since `check_evaluation` has refused unknown names: each character is
                # written as often as its size says; S sizes of at least 1 fill the string
                sizes = draw_integers(random, 1, LONGEST_RUN, count, length)
                ids = characters(length).gather(1, _item_at(positions, sizes))
        lengths = torch.full((count,), length, device=random.device)
        return self.solve(ids + len(SPECIAL), lengths)

    def target_length(self, source_length: int) -> int:
        return self.expansion * source_length

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return the length of each target (B,), at most `target_length`; source and lengths as for
        `alignment`.
        """
        return self.expansion * lengths

    def answer(self, text: str) -> Solution:
        """Return the target of `text`, which may only use the alphabet."""
        ids = self.source_vocabulary.encode(text)
        solved = self.solve(*pad_rows([ids], "cpu"))
        assert solved.alignment is not None
        alignment = solved.alignment[0, : int(solved.target_lengths)].tolist()
        target = [ids[position] for position in alignment]
        return Solution(self.target_vocabulary.decode(target), tuple(alignment))

    def solve(self, source: Tensor, lengths: Tensor) -> Examples:
        """Return the examples with sources (N, S), right-padded, of lengths (N,)."""
        target_lengths = self.target_lengths(source, lengths)
        positions = torch.arange(self.expansion * source.size(1), device=source.device)
        past_the_end = ~valid_mask(target_lengths, positions.size(0))  # (N, T)
        alignment = self.alignment(source, lengths, positions).masked_fill(past_the_end, -1)
        target = source.gather(1, alignment.clamp(min=0)).masked_fill(past_the_end, PAD)
        return Examples(source, lengths, target, target_lengths, alignment)


def _item_at(positions: Tensor, times: Tensor) -> Tensor:
    """Return which item is written at each position, if each is written so many times in turn: for
    times 2, 0 and 3, at positions 0, 1, 2, 3 and 4 the items 0, 0, 2, 2 and 2.

    positions (T,) or (N, T), times (N, S) of each item, 0 or more -> items from 0 (N, T).
    """
    ends = times.cumsum(dim=1)
    return torch.searchsorted(ends, positions.expand(len(ends), -1).contiguous(), right=True)


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
        # padding, which has the lowest id, is sorted last
        return source.masked_fill(source == PAD, source.max() + 1).argsort(dim=1, stable=True)


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
        odd = lengths.unsqueeze(1) // 2  # (B, 1) how many odd positions there are
        return torch.where(positions < odd, 2 * positions + 1, 2 * (positions - odd))


class Flip(StringTask):
    """The two characters of each pair exchanged (Grefenstette et al. 2015); of an odd length, the
    last one stays.

    abcd -> badc    abcde -> badce    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        other = positions + 1 - 2 * (positions % 2)  # of the pair: one further, or one back
        return torch.minimum(other, lengths.unsqueeze(1) - 1)


class Repeats(StringTask):
    """Each digit is written zero or more times in its place."""

    def __init__(self, *, min_length: int = 5, max_length: int = 30) -> None:
        super().__init__(alphabet=DIGITS, min_length=min_length, max_length=max_length)

    @abstractmethod
    def times(self, source: Tensor) -> Tensor:
        """Return how often each character of source (B, S) is written, (B, S); 0 for padding."""

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self.times(source).sum(dim=1)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return _item_at(positions, self.times(source))


class ReCopy(Repeats):
    """Each digit as often as it says: 0 to 3 once, 4 to 6 three times, 7 to 9 five times (Ray
    Chowdhury & Caragea 2023).

    240 -> 24440    8 -> 88888    reverse: 240 -> 04442
    """

    expansion = 5

    def __init__(self, *, reverse: bool = False, min_length: int = 5, max_length: int = 10) -> None:
        super().__init__(min_length=min_length, max_length=max_length)
        self.reverse = reverse

    def times(self, source: Tensor) -> Tensor:
        digits = source - len(SPECIAL)  # below 0 where there is padding
        return (digits >= 0).long() + 2 * (digits > 3) + 2 * (digits > 6)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        if self.reverse:
            positions = self.target_lengths(source, lengths).unsqueeze(1) - 1 - positions  # (B, T)
        return super().alignment(source, lengths, positions)


class DeDupe(Repeats):
    """Each run of equal digits once (Ray Chowdhury & Caragea 2023).

    7772 -> 72    44444 -> 4

    Sources are runs of 1, 3 or 5 random digits, the last one cut to the source's length;
    neighbouring runs of one digit are one run.
    """

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw sources whose i-th run repeats the i-th character of a uniform random string, and
        which are as long as this string.
        """
        drawn = super().examples(random, count, length)
        # a run for each character that was drawn: together at least as long as the source
        choices = draw_integers(random, 0, len(RUNS) - 1, *drawn.source.shape)
        sizes = torch.tensor(RUNS, device=random.device)[choices]  # (N, S)
        positions = torch.arange(drawn.source.size(1), device=random.device)
        source = drawn.source.gather(1, _item_at(positions, sizes))
        # (position p copies character p or an earlier one: inside the string, never padding)
        return self.solve(source.masked_fill(drawn.source == PAD, PAD), drawn.source_lengths)

    def times(self, source: Tensor) -> Tensor:
        """Return 1 where a run starts, (B, S)."""
        before = torch.nn.functional.pad(source, (1, 0))[:, :-1]
        return ((source != before) & (source != PAD)).long()
