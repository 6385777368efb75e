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
        """True for a substitution, a deletion or an insertion, which cost 1; a match costs 0."""
        return self.reference != self.hypothesis

    def __str__(self) -> str:
        """`a` match, `a>b` substitution, `a>` deletion, `>b` insertion."""
        return f"{self.reference}>{self.hypothesis}" if self.is_error else self.reference


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """Return an alignment with the fewest substitutions, deletions and insertions, in order.

    Of several, the one that, from the end, has a match or substitution before a deletion, and a
    deletion before an insertion.
    """
    # distances[i][j]: between the first i symbols of the reference and the first j of the other
    distances = [list(range(len(hypothesis) + 1))]
    for symbol in reference:
        above = distances[-1]
        row = [len(distances)]
        for column, other in enumerate(hypothesis):
            substituted = above[column] + (symbol != other)
            row.append(min(substituted, above[column + 1] + 1, row[column] + 1))
        distances.append(row)
    edits = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        edit = Edit(reference[i - 1] if i else "", hypothesis[j - 1] if j else "")
        if i and j and distances[i][j] == distances[i - 1][j - 1] + edit.is_error:
            i, j = i - 1, j - 1
        elif i and distances[i][j] == distances[i - 1][j] + 1:
            edit = edit._replace(hypothesis="")
            i -= 1
        else:
            edit = edit._replace(reference="")
            j -= 1
        edits.append(edit)
    return edits[::-1]
