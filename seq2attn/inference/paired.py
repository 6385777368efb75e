"""Two systems on the same words, compared word by word. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seq2attn.inference.intervals import Estimate, bootstrap
from seq2attn.inference.pair_results import PairAnswer, PairsResult


@dataclass(frozen=True)
class PairedDifference:
    """How `other` differs from `one` on the same words. The intervals are of words; they do not cover other seeds."""

    words: int
    only_one: int
    """words that only `one` gets right"""
    only_other: int
    """words that only `other` gets right"""
    p_value: float
    """McNemar's exact test, two-sided: how probable a split of these words this uneven is if both are equally good"""
    wer: Estimate
    """word error rate of `other` minus that of `one`, with a paired 95 % bootstrap interval over words"""
    ser: Estimate
    """the same of symbol error rates"""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def paired_difference(one: PairsResult, other: PairsResult, *, seed: int = 0) -> PairedDifference:
    """Compare two results on the same sources. Raises ValueError if the sources differ."""
    rows = {answer.source: answer for answer in other.answers}
    if rows.keys() != {answer.source for answer in one.answers}:
        raise ValueError("the two results are not on the same sources")
    pairs = [(answer, rows[answer.source]) for answer in one.answers]
    only_one = sum(first.is_right and not second.is_right for first, second in pairs)
    only_other = sum(second.is_right and not first.is_right for first, second in pairs)
    wrong = [[not answer.is_right for answer in side] for side in zip(*pairs, strict=True)]
    return PairedDifference(
        words=len(pairs),
        only_one=only_one,
        only_other=only_other,
        p_value=mcnemar(only_one, only_other),
        wer=_difference(wrong, [[1] * len(pairs)] * 2, seed),
        ser=_difference(*_edits(pairs), seed),
    )


def mcnemar(only_one: int, only_other: int) -> float:
    """The two-sided p-value of McNemar's exact test (McNemar 1947, with the binomial distribution, not chi-squared)."""
    count = only_one + only_other
    tail: int = sum(math.comb(count, k) for k in range(min(only_one, only_other) + 1))
    return min(1.0, tail / 2 ** (count - 1)) if count else 1.0


def _edits(pairs: Sequence[tuple[PairAnswer, PairAnswer]]) -> tuple[list[list[int]], list[list[int]]]:
    """Of either system: edits of each word, and symbols of its right answer."""
    sides = list(zip(*pairs, strict=True))
    return [[len(one.edits) for one in side] for side in sides], [[one.right_length for one in side] for side in sides]


def _difference(numerators: Sequence[Sequence[float]], denominators: Sequence[Sequence[float]], seed: int) -> Estimate:
    """Second ratio of sums minus the first; both are resampled on the same words."""
    import numpy  # not at the top: `--help` does not wait for it

    above, below = numpy.asarray(numerators, dtype=float), numpy.asarray(denominators, dtype=float)  # (2, words)

    def difference(words: Any) -> float:
        first, second = above[:, words].sum(axis=1) / below[:, words].sum(axis=1)
        return float(second - first)

    return bootstrap(difference, above.shape[1], seed)
