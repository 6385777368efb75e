"""The tables of an evaluation, a `seq2attn.inference.results.Evaluation`: accuracy by length, exact
match by family of strings, error rates, and wrong answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from seq2attn.display.table import Column, Table, text_of

MAX_EDITS = 12  # different ones that a note lists
NEVER_SEEN = "* never seen in training"


def evaluation_tables(evaluation: Any, title: str = "") -> list[Table]:
    """Return the tables of an evaluation for people: of pairs the error rates, then accuracy by
    length; or exact match by family and length.

    title: what was measured.
    """
    if set(evaluation.families) - {"random"}:
        return [family_table(evaluation)]
    if evaluation.get("wer"):
        return [rate_table(evaluation, title), length_table(evaluation)]
    return [length_table(evaluation)]


def length_table(evaluation: Any) -> Table:
    """Return a table with a row for each length and a column for each metric with a heading."""
    exact_match = evaluation.by_length("exact_match")
    metrics = [metric for metric in evaluation.metrics if metric.heading and not metric.of_file]
    columns = [Column("length", right=True)]
    for metric in metrics:
        columns.append(Column(metric.heading, optional=metric.name != "exact_match"))
    rows = []
    for row in exact_match:
        cells = [evaluation.get(metric.name, row.length) for metric in metrics]
        rows.append([_length(row), *cells])
    return Table(columns, rows, notes=_note(exact_match))


def family_table(evaluation: Any) -> Table:
    """Return exact match with a row for each family of strings, and a column for each length."""
    exact_match = {(row.family, row.length): row for row in evaluation.by_length("exact_match")}
    headings = {length: _length(row) for (_, length), row in exact_match.items()}
    columns = [Column("exact match")]
    columns += [Column(headings[length], right=True) for length in evaluation.lengths]
    worst = evaluation.worst_family()
    rows = []
    for family in evaluation.families:
        is_worst = worst is not None and family == worst.family
        cells = [exact_match.get((family, length)) for length in evaluation.lengths]
        values = [row and row.value for row in cells]
        rows.append([f"{family} (worst)" if is_worst else family, *values])
    notes = [*_note(exact_match.values()), "--json has every measure with its intervals"]
    if worst is not None:
        notes.insert(0, f"worst: {worst.family} at length {worst.length}, {text_of(worst)}")
    return Table(columns, rows, notes=notes)


def rate_table(evaluation: Any, title: str) -> Table:
    """Return the error rates of all words of a file, with the most frequent edits.

    title: what was measured.
    """
    rates = [metric for metric in evaluation.metrics if metric.heading and metric.of_file]
    rows = [[metric.heading, evaluation.get(metric.name)] for metric in rates]
    if title and evaluation.data:
        title = f"{title} on {evaluation.data['name']}"
    edits = Counter(edit for answer in evaluation.answers for edit in answer.edits)
    counts = ", ".join(f"{edit} {count:,}" for edit, count in edits.most_common(MAX_EDITS))
    about = f"most frequent edits (a>b: b written for a; a>: left out; >b: added): {counts}"
    return Table(
        [Column("rate"), Column("%", form=".1%")],
        rows,
        f"{title or 'pairs'}: {len(evaluation.answers):,} words",
        [about] if counts else [],
    )


def errors_table(evaluation: Any) -> Table:
    """Return the wrong answers: source, right answer, answer, number of edits, and the edits as
    `a>b` (b written for a), `a>` (left out) or `>b` (added).
    """
    columns = [
        Column("source"),
        Column("right"),
        Column("answer"),
        Column("edits", right=True),
        Column("what"),
    ]
    rows = []
    for answer in evaluation.errors():
        what = [*map(str, answer.edits)]
        if not answer.finished:
            what.append("(cut off)")
        source = answer.source.replace("\t", " ")  # before its features
        rows.append([source, answer.right, answer.answer, len(answer.edits), " ".join(what)])
    return Table(columns, rows)


def _length(row: Any) -> str:
    return f"{row.length}{'' if row.trained else '*'}"


def _note(rows: Any) -> list[str]:
    return [] if all(row.trained for row in rows) else [NEVER_SEEN]
