"""Tables of several evaluations, and of the wrong answers of one."""

from collections.abc import Mapping
from itertools import combinations

from seq2attn.display.table import Column, Number, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.results.evaluation import Evaluation, length_table, lines_left_out

ERRORS = ("source", "features", "right", "answer", "edits", "what")
ERRORS_HEADER = "\t".join(ERRORS) + "\n"
"""the first line of a file of wrong answers"""


def paired_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """Return a table that compares each two evaluations of the same words, by the name of their
    run: error rates, how many words only one of them has right, and the p-value of the difference.

    Raises `Seq2AttnError` for two that were not measured on the same words.
    """
    rows = []
    for (first, one), (second, other) in combinations(evaluations.items(), 2):
        rates = one.get("wer"), other.get("wer")
        try:
            paired = one.paired(other)
        except Seq2AttnError as error:
            error.message = f"A = {first}, B = {second}: {error.message}"
            raise
        rows.append((first, second, *rates, paired.only_a, paired.only_b, paired.p))
    columns = [
        Column("A"),
        Column("B"),
        Column("WER A, %", key="wer_a", form=".1%"),
        Column("WER B, %", key="wer_b", form=".1%"),
        Number("only A right"),
        Number("only B right"),
        Column("p", form=".2g"),
    ]
    note = f"p: {_test(evaluations)}; the smaller, the less it can be chance"
    return Table(columns, rows, notes=[note, *lines_left_out(evaluations.values())])


def _test(evaluations: Mapping[str, Evaluation]) -> str:
    """Return the name of the test that `Evaluation.paired` makes: `sign_flips`, which is McNemar's
    where each source counts once.
    """
    by_lines = any(answer.words > 1 for one in evaluations.values() for answer in one.answers)
    test = "a permutation test over sources" if by_lines else "McNemar's exact test"
    return f"{test}, two-sided"


def paper_table(evaluations: Mapping[str, Evaluation], seeds: Mapping[str, int]) -> Table:
    """Return a table for a paper of the evaluations of several runs, by their names. Words of the
    same file: the error rates, and the difference of each other run from the first. Strings that a
    task draws: exact match, a row for each length.

    seeds: name of a run -> the seed of its training; an ensemble has none.
    """
    first, baseline = next(iter(evaluations.items()))
    if baseline.get("wer") is None:  # measured on strings that a task draws
        count = f"brackets: 95 % intervals; {baseline.rows[0].samples:,} strings of each length"
        trained = [f"{name} with seed {seed}" for name, seed in seeds.items()]
        return length_table(evaluations, [count, *trained])
    columns = [Column("run"), Number("seed", form="d"), Number("n")]
    columns += [Number(f"{rate}, %", form=".1%") for rate in ("WER", "SER")]
    columns += [Number("difference", form="+.1%"), Column("p", form=".2g")]
    rows: list[list[object]] = []
    for name, one in evaluations.items():
        difference = p = None  # the first run is not compared with itself
        if one is not baseline:
            paired = one.paired(baseline)  # a difference above 0: worse than the first run
            difference, p = paired.difference, paired.p
        rates = one.get("wer"), one.get("ser")
        rows.append([name, seeds.get(name), one.words, *rates, difference, p])
    notes = ["brackets: 95 % intervals; n: words or lines"]
    if len(evaluations) > 1:
        notes.append(f"difference: in WER from {first}; p: {_test(evaluations)}")
    notes += lines_left_out(evaluations.values())
    return Table(columns, rows, baseline.data["name"] if baseline.data else "", notes)


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
