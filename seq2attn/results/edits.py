"""Edit distance and alignment of two sequences of symbols (Levenshtein 1966; Wagner & Fischer
1974). Imports no torch.
"""

from collections.abc import Sequence
from typing import NamedTuple

MATCH, DELETION, INSERTION = range(3)  # a match or a substitution; of equal costs, the first wins


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

    Of several such alignments, it is the one that, read from the end, prefers a match or
    substitution to a deletion, and a deletion to an insertion.
    """
    # moves[i][j]: the cost of aligning the first i symbols of the reference with the first j of the
    # other, and the last move of the cheapest alignment
    moves = [[(j, INSERTION) for j in range(len(hypothesis) + 1)]]
    for i, symbol in enumerate(reference):
        above = moves[i]
        row = [(i + 1, DELETION)]
        for j, other in enumerate(hypothesis):
            match = above[j][0] + (symbol != other), MATCH
            deletion = above[j + 1][0] + 1, DELETION
            insertion = row[j][0] + 1, INSERTION
            row.append(min(match, deletion, insertion))  # of equal costs, the first move
        moves.append(row)

    edits = []
    i, j = len(reference), len(hypothesis)
    while i or j:  # from the end back to the start
        move = moves[i][j][1]
        symbol = other = ""
        if move != INSERTION:
            i -= 1
            symbol = reference[i]
        if move != DELETION:
            j -= 1
            other = hypothesis[j]
        edits.append(Edit(symbol, other))
    return edits[::-1]
