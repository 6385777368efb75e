"""What a model answered, as plain records: beside the right answer, with the edits between them,
and with the map of its attention. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeInt, PositiveInt

from seq2attn.display.table import Column, Table

ERRORS = ("source", "features", "right", "answer", "edits", "what")
ERRORS_HEADER = "\t".join(ERRORS) + "\n"
"""the first line of a file of wrong answers"""
LARGEST_SIDE = 200  # rows or columns of a map that is drawn
Symbol = Annotated[str, Field(max_length=100)]  # most have one character
Weight = Annotated[float, Field(ge=0, le=1.001)]  # above 1: by rounding
SUBSTITUTION, DELETION, INSERTION = range(3)  # of equal costs, the first wins


class Edit(NamedTuple):
    """One error of an alignment: a symbol of the reference, and that of the hypothesis instead.

    One of the two is empty for a deletion (the hypothesis lacks a symbol) or an insertion (it has
    one too many).
    """

    reference: str
    hypothesis: str

    def __str__(self) -> str:
        """`a>b` substitution, `a>` deletion, `>b` insertion."""
        return f"{self.reference}>{self.hypothesis}"


@dataclass(frozen=True)
class PairAnswer:
    """The model's answer to one source, beside the right one."""

    source: str
    right: str
    """of several right answers, the one closest to the model's"""
    answer: str
    source_length: int
    """symbols, features counted"""
    right_length: int
    edits: tuple[Edit, ...]
    """what turns the right answer into the model's: the errors of a cheapest alignment"""
    finished: bool
    """False if the model wrote no `<eos>`: the answer is then wrong"""
    others: tuple[str, ...] = ()
    """the other right answers"""
    words: PositiveInt = 1
    """how many it counts as: with `--per token`, as many as its source has lines"""

    @property
    def is_right(self) -> bool:
        """True if the answer is exactly right."""
        return not self.edits and self.finished

    @property
    def rights(self) -> set[str]:
        """All right answers."""
        return {self.right, *self.others}


def errors_table(wrong: Sequence[PairAnswer]) -> Table:
    """Return wrong answers: source, its features if it has any, right answer, answer, number of
    edits, and the edits as `a>b` (b written for a), `a>` (left out) or `>b` (added), with
    `(cut off)` behind them if the model wrote no `<eos>`.
    """
    rows = []
    for answer in wrong:
        what = list(map(str, answer.edits))
        if not answer.finished:
            what.append("(cut off)")
        source, _, features = answer.source.partition("\t")  # features stand behind a tab
        edits = len(answer.edits)
        rows.append((source, features, answer.right, answer.answer, edits, " ".join(what)))
    return Table(list(map(Column, ERRORS)), rows)


@dataclass(frozen=True)
class AttentionMap:
    """One source, its output, and the attention weights."""

    source: str
    output: str
    source_symbols: tuple[Symbol, ...]
    """the columns of `weights`, including `<eos>` if the model reads it"""
    output_symbols: tuple[Symbol, ...]
    """the rows of `weights`, including `<eos>`"""
    weights: tuple[tuple[Weight, ...], ...]
    ideal: tuple[NonNegativeInt, ...] = ()
    """the source position that each character of the right answer copies; empty if unknown"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, weights to 4 decimals."""
        weights = [[round(weight, 4) for weight in row] for row in self.weights]
        return {**asdict(self), "weights": weights}

    def check(self) -> None:
        """Raise ValueError if weights, symbols and ideal alignment do not fit together."""
        columns, rows = len(self.source_symbols), len(self.output_symbols)
        if not columns or not rows or list(map(len, self.weights)) != [columns] * rows:
            raise ValueError("weights do not fit the symbols")
        if max(self.ideal, default=0) >= columns:
            raise ValueError("the ideal alignment lies outside the source")


# ---- edit distance: Levenshtein 1966; Wagner & Fischer 1974 ----


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """Return the substitutions, deletions and insertions of an alignment with the fewest of them,
    in order.

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
            # a match is a substitution that costs nothing
            substitution = above[j][0] + (symbol != other), SUBSTITUTION
            deletion = above[j + 1][0] + 1, DELETION
            insertion = row[j][0] + 1, INSERTION
            row.append(min(substitution, deletion, insertion))  # of equal costs, the first move
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
        if symbol != other:
            edits.append(Edit(symbol, other))
    return edits[::-1]
