"""Tables of several evaluations, and of the wrong answers of one."""

from collections.abc import Mapping
from itertools import combinations

from seq2attn.display.table import Column, Table
from seq2attn.results.evaluation import Evaluation

ERRORS = ("source", "features", "right", "answer", "edits", "what")
ERRORS_HEADER = "\t".join(ERRORS) + "\n"
"""the first line of a file of wrong answers"""


def paired_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """Return a table that compares each two evaluations of the same file, by the name of their run:
    error rates, how many words only one of them has right, and McNemar's exact test.
    """
    rows = []
    for (first, one), (second, other) in combinations(evaluations.items(), 2):
        rates = one.get("wer"), other.get("wer")
        rows.append((first, second, *rates, *one.paired(other)))
    columns = [
        Column("A"),
        Column("B"),
        Column("WER of A, %", key="wer_a", form=".1%"),
        Column("WER of B, %", key="wer_b", form=".1%"),
        Column("only A right", right=True),
        Column("only B right", right=True),
        Column("p", form=".2g"),
    ]
    note = "p: of McNemar's exact test, two-sided; the smaller, the less it can be chance"
    return Table(columns, rows, notes=[note])


def errors_table(evaluation: Evaluation) -> Table:
    """Return the wrong answers: source, its features if it has any, right answer, answer, number of
    edits, and the edits as `a>b` (b written for a), `a>` (left out) or `>b` (added).
    """
    rows = []
    for answer in evaluation.errors():
        what = " ".join(map(str, answer.edits))
        if not answer.finished:
            what += " (cut off)"
        source, _, features = answer.source.partition("\t")
        edits = len(answer.edits)
        rows.append((source, features, answer.right, answer.answer, edits, what.strip()))
    return Table(list(map(Column, ERRORS)), rows)
