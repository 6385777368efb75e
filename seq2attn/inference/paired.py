"""Two systems on the same words, compared word by word. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seq2attn.inference.results import Evaluation, PairAnswer
from seq2attn.inference.statistics import Estimate, bootstrap, mcnemar


@dataclass(frozen=True)
class PairedDifference:
    """How `other` differs from `one` on the same words. The intervals are of words; they do not cover other seeds.

    A system that was trained with several seeds has several results, which count together for each word.
    """

    words: int
    only_one: int
    """words that `one` gets right with more of its seeds; with one seed each: words that only `one` gets right"""
    only_other: int  # the same of `other`
    p_value: float
    """McNemar's exact test, two-sided: how probable a split of these words this uneven is if both are equally good"""
    wer: Estimate  # word error rate of `other` minus that of `one`, with a paired 95 % bootstrap interval over words
    ser: Estimate  # the same of symbol error rates


def paired_difference(one: Sequence[Evaluation], other: Sequence[Evaluation], *, seed: int = 0) -> PairedDifference:
    """Compare two systems on the same sources, each by its evaluations with as many seeds as the other's.

    Raises ValueError if the sources or the numbers of evaluations differ.
    """
    import numpy as np  # not at the top: `--help` does not wait for it

    by_source = [[{answer.source: answer for answer in found.answers} for found in side] for side in (one, other)]
    words = list(by_source[0][0]) if one else []
    if not words or len(one) != len(other) or any(rows.keys() != set(words) for side in by_source for rows in side):
        raise ValueError("the evaluations are not on the same sources")

    def sums(number: Callable[[PairAnswer], int]) -> Any:
        """(2, words): the sum over seeds."""
        return np.array([[sum(number(rows[word]) for rows in side) for word in words] for side in by_source], float)

    def difference(above: Any, below: Any) -> Estimate:
        """Second ratio of sums minus the first; both are resampled on the same words."""
        return bootstrap(
            lambda chosen: float(np.diff(above[:, chosen].sum(1) / below[:, chosen].sum(1))[0]), len(words), seed
        )

    wrong = sums(lambda answer: not answer.is_right)
    only_one, only_other = int((wrong[0] < wrong[1]).sum()), int((wrong[1] < wrong[0]).sum())
    edits, symbols = sums(lambda answer: len(answer.edits)), sums(lambda answer: answer.right_length)
    return PairedDifference(
        words=len(words),
        only_one=only_one,
        only_other=only_other,
        p_value=mcnemar(only_one, only_other),
        wer=difference(wrong, np.full_like(wrong, len(one))),
        ser=difference(edits, symbols),
    )
