"""Two systems on the same words, compared word by word. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
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


def side_by_side(evaluations: Mapping[str, Evaluation]) -> Table:
    """How each run, by its name, differs from the first on the same file, word by word."""
    columns = (
        Column("run"),
        Column("", key="words"),
        Column("WER %", key="wer", form=".1%"),
        Column("SER %", optional=True, key="ser", form=".1%"),
        Column("WER - first", key="wer_difference", form="+.1%"),
        Column("SER - first", optional=True, key="ser_difference", form="+.1%"),
        Column("only first", right=True, key="only_first_right"),
        Column("only this", right=True, key="only_this_right"),
        Column("p", right=True),
    )
    (first, reference), *others = evaluations.items()
    rows: list[list[Any]] = [[first, len(reference.answers), reference.get("wer"), reference.get("ser"), *[None] * 5]]
    for name, evaluation in others:
        try:
            paired = paired_difference([reference], [evaluation])
        except ValueError:
            raise Seq2AttnError(
                f"{first} and {name} read different sources from the file",
                hint="Runs with the same columns, separators and normalisation can be compared word by word.",
            ) from None
        differences = [paired.wer, paired.ser, paired.only_one, paired.only_other, paired.p_value]
        rows.append([name, paired.words, evaluation.get("wer"), evaluation.get("ser"), *differences])
    note = (
        "differences are paired word by word; only first, only this: words that only one of the two gets right; "
        "p: McNemar's exact test. They are of these models, not of other seeds"
    )
    return Table(columns, rows, notes=[note])
