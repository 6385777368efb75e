"""The tables of an evaluation: accuracy by length, exact match by family of strings, error rates,
and wrong answers.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from seq2attn.display.table import Column, Table, text_of
from seq2attn.results.statistics import Estimate, paired_difference
from seq2attn.text import left_out_notes

MAX_EDITS = 12  # different ones that a note lists
ERRORS = ("source", "features", "right", "answer", "edits", "what")
ERRORS_HEADER = "\t".join(ERRORS) + "\n"
"""the first line of a file of wrong answers"""


def evaluation_tables(evaluation: Any, title: str = "") -> list[Table]:
    """Return the tables of an evaluation for people: of pairs the error rates, then accuracy by
    length; or exact match by family and length.

    title: what was measured.
    """
    if set(evaluation.families) - {"random", None}:
        return [family_table(evaluation)]
    if evaluation.get("wer"):
        return [rate_table(evaluation, title), length_table(evaluation)]
    return [length_table(evaluation)]


def length_table(evaluation: Any) -> Table:
    """Return a table with a row for each length and a column for each metric with a heading."""
    exact_match = evaluation.by_length("exact_match")
    columns = [Column("length", right=True)]
    metrics = []
    for metric in evaluation.metrics:
        if metric.heading and not metric.of_file:
            columns.append(Column(metric.heading, optional=metric.name != "exact_match"))
            metrics.append(metric.name)
    rows = []
    for row in exact_match:
        cells = [evaluation.get(metric, row.length) for metric in metrics]
        rows.append([_length(row), *cells])
    return Table(columns, rows, notes=_note(exact_match))


def family_table(evaluation: Any) -> Table:
    """Return exact match with a row for each family of strings, and a column for each length."""
    exact_match = evaluation.by_length("exact_match")
    headings = {row.length: _length(row) for row in exact_match}
    columns = [Column("exact match")]
    for length in evaluation.lengths:
        columns.append(Column(headings[length], right=True))
    worst = evaluation.worst_family()
    rows = []
    for family in evaluation.families:
        cells = [family]
        for length in evaluation.lengths:
            row = evaluation.get("exact_match", length, family)
            cells.append(row and row.value)
        if worst is not None and family == worst.family:
            cells[0] += " (worst)"
        rows.append(cells)
    notes = [*_note(exact_match), "--json has every measure with its intervals"]
    if worst is not None:
        notes.insert(0, f"worst: {worst.family} at length {worst.length}, {text_of(worst)}")
    return Table(columns, rows, notes=notes)


def rate_table(evaluation: Any, title: str) -> Table:
    """Return the error rates of all words of a file, with the most frequent edits.

    title: what was measured.
    """
    rows = []
    for metric in evaluation.metrics:
        if metric.heading and metric.of_file:
            rows.append((metric.heading, evaluation.get(metric.name)))
    if title and evaluation.data:
        title += f" on {evaluation.data['name']}"
    words = "tokens" if (evaluation.data or {}).get("per") == "token" else "words"
    title = f"{title or 'pairs'}: {len(evaluation.answers):,} {words}"
    edits = Counter(edit for answer in evaluation.answers for edit in answer.edits)
    counts = [f"{edit} {count:,}" for edit, count in edits.most_common(MAX_EDITS)]
    notes = left_out_notes(evaluation.left_out or {})
    if counts:
        signs = "a>b: b written for a; a>: left out; >b: added"
        notes.append(f"most frequent edits ({signs}): {', '.join(counts)}")
    return Table([Column("rate"), Column("%", form=".1%")], rows, title, notes)


def paired_table(evaluations: Mapping[str, Any]) -> Table:
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
    left_out = {name: n for one in evaluations.values() for name, n in (one.left_out or {}).items()}
    return Table(columns, rows, notes=[note, *left_out_notes(left_out)])


def paper_table(evaluations: Mapping[str, Any], seeds: Mapping[str, int]) -> Table:
    """Return a table for a paper of the evaluations of several runs, by their names: of words of
    the same file the error rates, and each run's difference from the first; of strings that a task
    draws, exact match by length. seeds: of their training.
    """
    (first, baseline), *_ = evaluations.items()
    columns = [Column("run"), Column("seed", right=True, form="d"), Column("n", right=True)]
    if baseline.get("wer"):
        columns += [Column(f"{rate}, %", right=True, form=".1%") for rate in ("WER", "SER")]
        columns += [Column("difference", right=True, form="+.1%"), Column("p", form=".2g")]
    places = [] if baseline.get("wer") else baseline.by_length("exact_match")
    columns += [Column(f"length {_length(place)}", right=True) for place in places]
    rows = []
    left_out: dict[str, int] = {}
    for name, one in evaluations.items():
        row = [name, seeds[name], one.rows[0].samples]
        row += [one.get("exact_match", place.length, place.family) for place in places]
        if not places:
            compared = (None, None) if name == first else _compared(one, baseline)
            row += [one.get("wer"), one.get("ser"), *compared]
        rows.append(row)
        left_out |= one.left_out or {}
    title = baseline.data["name"] if baseline.data else "exact match"
    notes = ["brackets: 95 % intervals; n: words, lines or strings of a length", *_note(places)]
    if not places and len(rows) > 1:
        test = "McNemar's exact test, or per token a permutation test over sources"
        notes.append(f"difference: in WER from {first}; p: {test}, two-sided")
    return Table(columns, rows, title, [*notes, *left_out_notes(left_out)])


def _compared(one: Any, first: Any) -> tuple[Estimate, float]:
    """Return the difference of two WER, with an interval unless lines are counted, which are not
    independent, and its p-value.
    """
    only_one, only_first, p = one.paired(first)
    difference = paired_difference(only_one, only_first, one.rows[0].samples)
    by_line = (first.data or {}).get("per") == "token"
    return Estimate(difference.value) if by_line else difference, p


def errors_table(evaluation: Any) -> Table:
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


def _length(row: Any) -> str:
    return f"{row.length}{'' if row.trained else '*'}"


def _note(rows: Any) -> list[str]:
    return [] if all(row.trained for row in rows) else ["* never seen in training"]
