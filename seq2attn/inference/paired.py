"""Two systems on the same words, compared word by word. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seq2attn.inference.intervals import Estimate, bootstrap
from seq2attn.inference.results import Evaluation, PairAnswer


@dataclass(frozen=True)
class PairedDifference:
    """How `other` differs from `one` on the same words. The intervals are of words; they do not cover other seeds.

    A system that was trained with several seeds has several results, which count together for each word.
    """

    words: int
    only_one: int
    """words that `one` gets right with more of its seeds; with one seed each: words that only `one` gets right"""
    only_other: int
    """the same of `other`"""
    p_value: float
    """McNemar's exact test, two-sided: how probable a split of these words this uneven is if both are equally good"""
    wer: Estimate
    """word error rate of `other` minus that of `one`, with a paired 95 % bootstrap interval over words"""
    ser: Estimate
    """the same of symbol error rates"""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def paired_difference(one: Sequence[Evaluation], other: Sequence[Evaluation], *, seed: int = 0) -> PairedDifference:
    """Compare two systems on the same sources, each by its results with as many seeds as the other's.

    Raises ValueError if the sources or the numbers of results differ.
    """
    by_source = [[{answer.source: answer for answer in result.answers} for result in side] for side in (one, other)]
    words = list(by_source[0][0])
    if not words or len(one) != len(other) or any(rows.keys() != set(words) for side in by_source for rows in side):
        raise ValueError("the results are not on the same sources")
    answers = [[[rows[word] for rows in side] for word in words] for side in by_source]  # [system][word][seed]
    right = [[sum(answer.is_right for answer in row) for row in side] for side in answers]
    only_one, only_other = (sum(a > b for a, b in zip(*pair, strict=True)) for pair in (right, right[::-1]))
    return PairedDifference(
        words=len(words),
        only_one=only_one,
        only_other=only_other,
        p_value=mcnemar(only_one, only_other),
        wer=_difference([[len(one) - count for count in side] for side in right], [[len(one)] * len(words)] * 2, seed),
        ser=_difference(
            _sums(answers, lambda answer: len(answer.edits)), _sums(answers, lambda answer: answer.right_length), seed
        ),
    )


def _sums(answers: Sequence[Sequence[Sequence[PairAnswer]]], number: Callable[[PairAnswer], int]) -> list[list[int]]:
    """[system][word]: the sum of a number of each answer over seeds."""
    return [[sum(map(number, row)) for row in side] for side in answers]


def mcnemar(only_one: int, only_other: int) -> float:
    """The two-sided p-value of McNemar's exact test (McNemar 1947, with the binomial distribution, not chi-squared)."""
    count = only_one + only_other
    tail: int = sum(math.comb(count, k) for k in range(min(only_one, only_other) + 1))
    return min(1.0, tail / 2 ** (count - 1)) if count else 1.0


def _difference(numerators: Sequence[Sequence[float]], denominators: Sequence[Sequence[float]], seed: int) -> Estimate:
    """Second ratio of sums minus the first; both are resampled on the same words."""
    import numpy  # not at the top: `--help` does not wait for it

    above, below = numpy.asarray(numerators, dtype=float), numpy.asarray(denominators, dtype=float)  # (2, words)

    def difference(words: Any) -> float:
        first, second = above[:, words].sum(axis=1) / below[:, words].sum(axis=1)
        return float(second - first)

    return bootstrap(difference, above.shape[1], seed)
