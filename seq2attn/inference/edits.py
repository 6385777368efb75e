"""Edit distance and alignment of two sequences of symbols (Levenshtein 1966; Wagner & Fischer
1974). Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Edit(NamedTuple):
    """One column of an alignment: a symbol of the reference beside one of the hypothesis.

    One of the two is empty for a deletion (the hypothesis lacks a symbol) or an insertion (it has
    one too many).
    """

    reference: str
    hypothesis: str

    @property
    def is_error(self) -> bool:
        """Whether this is a substitution, a deletion or an insertion, which cost 1; a match costs
        0.
        """
        return self.reference != self.hypothesis

    def __str__(self) -> str:
        """`a` match, `a>b` substitution, `a>` deletion, `>b` insertion."""
        return f"{self.reference}>{self.hypothesis}" if self.is_error else self.reference


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """A cheapest alignment, in order: the least number of substitutions, deletions and insertions.

    Of several cheapest ones, the one that, from the end, has a match or substitution before a
    deletion, and a deletion before an insertion.
    """
    distances = [
        list(range(len(hypothesis) + 1))
    ]  # [i][j]: between the first i symbols and the first j
    for symbol in reference:
        above, row = distances[-1], [len(distances)]
        for column, other in enumerate(hypothesis):
            row.append(
                min(above[column] + (symbol != other), above[column + 1] + 1, row[column] + 1)
            )
        distances.append(row)
    i, j = len(reference), len(hypothesis)
    edits = []
    while i or j:
        here, edit = (
            distances[i][j],
            Edit(reference[i - 1] if i else "", hypothesis[j - 1] if j else ""),
        )
        if i and j and here == distances[i - 1][j - 1] + edit.is_error:
            i, j = i - 1, j - 1
        elif i and here == distances[i - 1][j] + 1:
            edit, i = Edit(edit.reference, ""), i - 1
        else:
            edit, j = Edit("", edit.hypothesis), j - 1
        edits.append(edit)
    return edits[::-1]
