"""Edit distance and alignment of two sequences of symbols (Levenshtein 1966; Wagner & Fischer 1974). Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Edit(NamedTuple):
    """One column of an alignment: a symbol of the reference beside one of the hypothesis.

    One of the two is empty for a deletion (the hypothesis lacks a symbol) or an insertion (it has one too many).
    """

    reference: str
    hypothesis: str

    @property
    def is_error(self) -> bool:
        """Whether this is a substitution, a deletion or an insertion, which cost 1; a match costs 0."""
        return self.reference != self.hypothesis

    def __str__(self) -> str:
        """`a` match, `a>b` substitution, `a>` deletion, `>b` insertion."""
        return f"{self.reference}>{self.hypothesis}" if self.is_error else self.reference


def edit_distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """The least number of substitutions, deletions and insertions that turn `reference` into `hypothesis`."""
    return _distances(reference, hypothesis)[-1][-1]


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """A cheapest alignment, in order: `edit_distance` of its columns are errors.

    Of several cheapest ones, the one that, from the end, has a match or substitution before a deletion, and a deletion
    before an insertion.
    """
    distances = _distances(reference, hypothesis)
    row, column = len(reference), len(hypothesis)
    edits = []
    while row or column:
        here = distances[row][column]
        edit = Edit(reference[row - 1] if row else "", hypothesis[column - 1] if column else "")
        if row and column and here == distances[row - 1][column - 1] + edit.is_error:
            row, column = row - 1, column - 1
        elif row and here == distances[row - 1][column] + 1:
            edit = Edit(edit.reference, "")
            row -= 1
        else:
            edit = Edit("", edit.hypothesis)
            column -= 1
        edits.append(edit)
    return edits[::-1]


def _distances(reference: Sequence[str], hypothesis: Sequence[str]) -> list[list[int]]:
    """Entry [i][j]: the distance between the first i symbols of `reference` and the first j of `hypothesis`."""
    rows = [list(range(len(hypothesis) + 1))]
    for symbol in reference:
        above, row = rows[-1], [len(rows)]
        for column, other in enumerate(hypothesis):
            row.append(min(above[column] + (symbol != other), above[column + 1] + 1, row[column] + 1))
        rows.append(row)
    return rows
