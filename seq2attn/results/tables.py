"""Tables of several evaluations, and of the wrong answers of one."""

from collections.abc import Mapping

from seq2attn.display.table import Column, Number, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.results.evaluation import Evaluation, length_table, lines_left_out

ERRORS = ("source", "features", "right", "answer", "edits", "what")
ERRORS_HEADER = "\t".join(ERRORS) + "\n"
"""the first line of a file of wrong answers"""
TEST = "exact permutation test over sources, two-sided; McNemar's exact test where each counts once"


def paired_table(evaluations: Mapping[str, Evaluation], seeds: Mapping[str, int]) -> Table:
    """Return a table of evaluations of the same words, by the name of their run: the error rates,
    and of each run against the first how many words only one of them has right, the difference in
    the word error rate, and its p-value. Where a terminal is too narrow, optional columns are
    left out.

    seeds: name of a run -> the seed of its training; an ensemble has none.

    Raises `Seq2AttnError` for two that were not measured on the same words.
    """
    first, baseline = next(iter(evaluations.items()))
    rows = []
    for name, one in evaluations.items():
        compared: tuple[object, ...] = (None,) * 4  # the first run is not compared with itself
        if one is not baseline:
            try:
                compared = one.paired(baseline)  # a difference above 0: worse than the first run
            except Seq2AttnError as error:
                error.message = f"A = {name}, B = {first}: {error.message}"
                raise
        rates = one.get("wer"), one.get("ser")
        rows.append([name, seeds.get(name), one.words, *rates, *compared])
    columns = [
        Column("run"),
        Number("seed", form="d", optional=True),
        Number("n"),
        Number("WER, %", key="wer", form=".1%"),
        Number("SER, %", key="ser", form=".1%", optional=True),
        Number("only it right"),
        Number("only the first right"),
        Number("difference", form="+.1%"),
        Column("p", form=".2g"),
    ]
    notes = ["brackets: 95 % intervals; n: words or lines"]
    if len(evaluations) > 1:
        notes.append(f"difference: in WER from {first}; p: {TEST}")
    notes += lines_left_out(evaluations.values())
    return Table(columns, rows, baseline.data["name"] if baseline.data else "", notes)


def paper_table(evaluations: Mapping[str, Evaluation], seeds: Mapping[str, int]) -> Table:
    """Return a table for a paper of the evaluations of several runs, by their names: `paired_table`
    for words of a file; of strings that a task draws exact match, a row for each length.
    """
    baseline = next(iter(evaluations.values()))
    if baseline.get("wer"):
        return paired_table(evaluations, seeds)
    count = f"brackets: 95 % intervals; {baseline.rows[0].samples:,} strings of each length"
    trained = [f"{name} with seed {seed}" for name, seed in seeds.items()]
    return length_table(evaluations, [count, *trained])


def errors_table(evaluation: Evaluation) -> Table:
    """Return the wrong answers: source, its features if it has any, right answer, answer, number of
    edits, and the edits as `a>b` (b written for a), `a>` (left out) or `>b` (added).
    """
    rows = []
    for answer in evaluation.errors():
        what = list(map(str, answer.edits))
        if not answer.finished:
            what.append("(cut off)")
        source, _, features = answer.source.partition("\t")
        edits = len(answer.edits)
        rows.append((source, features, answer.right, answer.answer, edits, " ".join(what)))
    return Table(list(map(Column, ERRORS)), rows)
