"""What an evaluation measured, with its tables. Imports no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeInt, PositiveInt

from seq2attn.display.signs import sign
from seq2attn.display.table import Column, Number, Table, Tabular
from seq2attn.errors import Seq2AttnError, left_out_notes, quoted
from seq2attn.parts import RANDOM
from seq2attn.results.answers import Edit, PairAnswer
from seq2attn.results.metrics import METRICS, RATES, Place, Row, worst_note
from seq2attn.results.statistics import Estimate, effective_count, paired_difference, sign_flips

MAX_EDITS = 12  # different ones that a note lists
TEST = "exact permutation test over sources, two-sided; McNemar's exact test where each counts once"


class Paired(NamedTuple):
    """Two evaluations of the same words, A and B, against each other."""

    only_a: int
    """words that only A has right"""
    only_b: int
    difference: Estimate
    """how much higher A's error rate is, with its 95 % interval"""
    p: float
    """the two-sided p-value of `sign_flips` over sources"""


@dataclass(frozen=True, repr=False)
class Evaluation(Tabular):
    """What was measured of one model, on strings that a task draws or on the pairs of a file."""

    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    """a row for each family of strings, length and metric"""
    answers: tuple[PairAnswer, ...] = ()
    """of pairs, an answer to each different source, in the order of the pairs; of strings that a
    task draws, the wrong answers, if they were kept"""
    checkpoint: str = ""
    """best, last or step-N, whichever was measured"""
    step: NonNegativeInt | None = None
    """the step after which the checkpoint was written"""
    seed: NonNegativeInt = 0
    """the seed of the strings"""
    created: str | None = None
    """when it was measured, ISO 8601"""
    trained_steps: NonNegativeInt | None = None
    """the run's last step at that time; only `compare` records this and the parameters"""
    parameters: dict[str, NonNegativeInt] | None = None
    """how many parameters each part has, and their total"""
    data: dict[str, Any] | None = None
    """of pairs: name, bytes, number of pairs and sha256 of their file; `per`: what was counted"""
    left_out: dict[str, PositiveInt] | None = None
    """of pairs: how many malformed lines were left out, by the name of each file, also of those of
    training; None if none was"""

    @cached_property
    def by_key(self) -> dict[tuple[str, int | None, str], Row]:
        """The rows by metric, length and family; of words, the family counts as `RANDOM`."""
        return {(row.metric, row.length, row.family or RANDOM): row for row in self.rows}

    def get(
        self, metric: str, length: int | None = None, family: str | None = RANDOM
    ) -> Row | None:
        """Return the row of a metric at a length, or of all words (length None); None if it was not
        measured. family: of strings that a task draws; None for words.
        """
        return self.by_key.get((metric, length, family or RANDOM))

    def by_length(self, metric: str) -> list[Row]:
        """Return the rows of a metric that have a length."""
        return [row for row in self.rows if row.metric == metric and row.length is not None]

    @property
    def places(self) -> list[Place]:
        """The families and lengths that were measured, in order."""
        return list(dict.fromkeys(row.place for row in self.rows if row.length is not None))

    @property
    def lengths(self) -> list[int]:
        """The lengths that were measured, ascending."""
        return sorted({row.length for row in self.rows if row.length is not None})

    @property
    def families(self) -> list[str | None]:
        """The families of strings that were measured, in order."""
        return list(dict.fromkeys(family for family, _ in self.places))

    def mean(self, metric: str) -> float | None:
        """Return a metric of all words; otherwise its mean over the trained lengths, or over all if
        none is trained; None if it was not measured.
        """
        if whole := self.get(metric):
            return whole.value
        values = [row.value for row in self._trained(metric)]
        return fmean(values) if values else None

    def lowest(self) -> Row:
        """Return the row of the trained length with the lowest exact match, the first on a tie."""
        return min(self._trained("exact_match"), key=lambda row: row.value)

    def _trained(self, metric: str) -> list[Row]:
        rows = self.by_length(metric)
        return [row for row in rows if row.trained] or rows

    def summary(self) -> dict[str, float]:
        """Return what status.json records, by name; what was not measured is left out.

        Of a file of pairs, these are the error rates and the loss. Of strings that a task draws,
        they are exact match at the worst trained length, and exact match and the entropy of
        attention on average over the trained lengths; over all lengths if none is trained.
        """
        if self.get("wer"):
            metrics = {"wer": "wer", "ser": "ser", "dev_loss": "loss"}
            summary = {}
        else:
            metrics = {"exact_match_mean": "exact_match", "attention_entropy": "entropy"}
            summary = {"exact_match_worst": self.lowest().value}
        for name, metric in metrics.items():
            value = self.mean(metric)
            if value is not None:
                summary[name] = value
        return summary

    def describe(self) -> str:
        """Return the summary as a few words."""
        values = self.summary()
        if "wer" in values:
            rates = f"WER {100 * values['wer']:.1f} %, SER {100 * values['ser']:.1f} %"
            loss = values.get("dev_loss", math.nan)  # an impossible loss has no row
            return f"{rates}, loss {loss:.3f} on the dev set"
        worst = self.lowest()
        if worst.value == 1:
            return f"exact match 1.000 at every {'trained ' if worst.trained else ''}length"
        mean = f"exact match {values['exact_match_mean']:.3f} on average"
        return f"{mean}; worst: {worst.value:.3f} at length {worst.length}"

    def errors(self) -> list[PairAnswer]:
        """Return the wrong answers, for reading: those with few edits first, and answers with the
        same edits together.

        Raises `Seq2AttnError` if some answers were wrong, but were not kept.
        """
        if not self.answers and any(row.value < 1 for row in self.by_length("exact_match")):
            raise Seq2AttnError(
                "the wrong answers were not kept", hint="Keep them: evaluate(..., errors=True)"
            )
        wrong = [answer for answer in self.answers if not answer.is_right]
        return sorted(wrong, key=lambda answer: (len(answer.edits), answer.edits, answer.source))

    def paired(self, other: Evaluation) -> Paired:
        """Compare the answers of this evaluation, A, with those of another, B, source by source.

        A source may count as several words, which share its answer, so that all words are worth
        fewer independent ones: for the difference and its interval, the counts are scaled down to
        that number.

        Raises `Seq2AttnError` if they were not measured on the same words, with the first
        difference.
        """
        if not (self.get("wer") and other.get("wer")):
            raise Seq2AttnError("only evaluations on a file of pairs can be paired")
        of_a = {answer.source: answer for answer in self.answers}
        of_b = {answer.source: answer for answer in other.answers}
        words = []
        differences = []  # of each source, in words; below 0 if only B has it right
        for source in {**of_a, **of_b}:
            a, b = of_a.get(source), of_b.get(source)
            if a is None or b is None:
                raise _not_paired(f"only {'B' if a is None else 'A'} has {quoted(source)}")
            if a.rights != b.rights:
                mine, theirs = quoted(sorted(a.rights)), quoted(sorted(b.rights))
                raise _not_paired(
                    f"the right answers to {quoted(source)} are {mine} for A and {theirs} for B"
                )
            if a.words != b.words:
                raise _not_paired(f"{quoted(source)} counts {a.words} times in A, {b.words} in B")
            words.append(a.words)
            differences.append(a.words * (a.is_right - b.is_right))
        only_a = sum(difference for difference in differences if difference > 0)
        only_b = only_a - sum(differences)
        count = effective_count(words)
        scale = count / sum(words)
        difference = paired_difference(only_a * scale, only_b * scale, count)
        return Paired(only_a, only_b, difference, sign_flips(differences))

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, such as for pandas."""
        return list(map(asdict, self.rows))

    def to_json(self, run: str) -> dict[str, Any]:
        """Return plain values, from which `read_record` makes an `Evaluation`; nothing for what is
        unknown. run: its name.
        """
        known = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return {"run": run, **known}

    def tables(self) -> list[Table]:
        """Return the tables of `side_by_side`, of this evaluation alone."""
        return side_by_side({"": self})


def _not_paired(difference: str) -> Seq2AttnError:
    return Seq2AttnError(
        f"A and B were measured on different words, which cannot be paired: {difference}",
        hint="Measure both on the same file, read in the same way.",
    )


# ---- tables for people ----


def side_by_side(evaluations: Mapping[str, Evaluation]) -> list[Table]:
    """Return tables of evaluations, which are given by the names of their runs: if any is on a file
    of pairs, one of the error rates, with a row for each such run; and one with a row for each
    family of strings and length, whose columns are every metric of a single run, or the exact match
    of each of several.
    """
    tables = []
    if of_files := {name: one for name, one in evaluations.items() if one.get("wer")}:
        tables.append(rates_table(of_files, {}, paired=False))
    if len(evaluations) > 1:
        return [*tables, length_table(evaluations)]
    ((name, one),) = evaluations.items()
    # people do not see the column of what was not measured
    columns = [(metric.heading, one, metric.name) for metric in METRICS.values()]
    notes = worst_note({row.place: row.value for row in one.by_length("exact_match")})
    return [*tables, _by_length(columns, name, notes)]


def length_table(evaluations: Mapping[str, Evaluation], notes: Sequence[str] = ()) -> Table:
    """Return exact match: a column for each evaluation, by the name of its run, and a row for each
    family and length that any of them has. notes: lines below the table.
    """
    columns = [(name, one, "exact_match") for name, one in evaluations.items()]
    return _by_length(columns, "exact match", [*notes, *lines_left_out(evaluations.values())])


def _by_length(
    columns: Sequence[tuple[str, Evaluation, str]], title: str, notes: Sequence[str]
) -> Table:
    """Return a table with a row for each family of strings and length.

    columns: the heading of each, and a metric of an evaluation, by its name.
    """
    places: dict[Place, Row] = {}
    for _, one, metric in columns:
        for row in one.by_length(metric):
            places.setdefault(row.place, row)
    rows = []
    # by length; families of one length stay in their order
    for row in sorted(places.values(), key=lambda row: row.length or 0):
        cells = [one.get(metric, row.length, row.family) for _, one, metric in columns]
        rows.append([f"{row.length}{'' if row.trained else '*'}", row.family, *cells])
    # without a heading, only programs see the column of the only family
    family = "family" if len({family for family, _ in places}) > 1 else ""
    headings = [Number("length"), Column(family)]
    for heading, _, metric in columns:
        # where the terminal is too narrow for all, exact match stays
        headings.append(Column(heading, optional=metric != "exact_match"))
    if not all(row.trained for row in places.values()):
        notes = ["* never seen in training", *notes]
    return Table(headings, rows, title, notes)


def rates_table(
    evaluations: Mapping[str, Evaluation], seeds: Mapping[str, int], *, paired: bool
) -> Table:
    """Return the error rates of evaluations on files of pairs, by the name of their run. Where a
    terminal is too narrow, optional columns are left out.

    seeds: name of a run -> the seed of its training; an ensemble has none.
    paired: True for evaluations of the same words: then the table also has, of each run against the
        first, how many words only one of them has right, the difference in the word error rate, and
        its p-value.

    A note lists the most frequent edits of a single run.

    Raises `Seq2AttnError` for two to be paired that were not measured on the same words.
    """
    first, baseline = next(iter(evaluations.items()))
    # how often the model was cut off says how it fails; papers report WER and SER
    rates = ["wer", "ser"] if paired else list(RATES)
    rows = []
    for name, one in evaluations.items():
        compared: tuple[object, ...] = (None,) * 4  # the first run is not compared with itself
        if paired and one is not baseline:
            try:
                compared = one.paired(baseline)  # a difference above 0: worse than the first run
            except Seq2AttnError as error:
                error.message = f"A = {name}, B = {first}: {error.message}"
                raise
        count = one.rows[0].samples  # words, or with `per="token"` lines
        rows.append([name, seeds.get(name), count, *map(one.get, rates), *compared])
    columns = [Column("run"), Number("seed", form="d", optional=True), Number("n")]
    for rate in rates:
        columns.append(Number(f"{RATES[rate]}, %", key=rate, form=".1%", optional=rate != "wer"))
    columns += [
        Number("only it right"),
        Number("only the first right"),
        Number("difference", form="+.1%"),
        Column("p", form=".2g"),
    ]
    files = ", ".join(sorted({one.data["name"] for one in evaluations.values() if one.data}))
    notes = ["brackets: 95 % intervals; n: words or lines"]
    if len(rows) == 1:
        notes += _edits_note(baseline.answers)
    elif paired:
        notes.append(f"difference: in WER from {first}; p: {TEST}")
    notes += lines_left_out(evaluations.values())
    return Table(columns, rows, f"error rates on {files}", notes)


def _edits_note(answers: Iterable[PairAnswer]) -> list[str]:
    """Return a note of the `MAX_EDITS` most frequent edits in these answers, if they have any."""
    edits = Counter[Edit]()
    for answer in answers:
        for edit in answer.edits:
            edits[edit] += answer.words  # so many words of the file have this answer
    counts = [f"{Edit(*map(sign, edit))} {count:,}" for edit, count in edits.most_common(MAX_EDITS)]
    signs = "a>b: b written for a; a>: left out; >b: added"
    return [f"most frequent edits ({signs}): {', '.join(counts)}"] if counts else []


def paper_table(evaluations: Mapping[str, Evaluation], seeds: Mapping[str, int]) -> Table:
    """Return a table for a paper of the evaluations of several runs, by their names: of words of a
    file the error rates, paired; of strings that a task draws exact match, a row for each length.

    seeds: as for `rates_table`.
    """
    baseline = next(iter(evaluations.values()))
    if baseline.get("wer"):
        return rates_table(evaluations, seeds, paired=True)
    count = f"brackets: 95 % intervals; {baseline.rows[0].samples:,} strings of each length"
    trained = [f"{name} with seed {seed}" for name, seed in seeds.items()]
    return length_table(evaluations, [count, *trained])


def lines_left_out(evaluations: Iterable[Evaluation]) -> list[str]:
    """Return a sentence for each file some of whose malformed lines were left out."""
    counts: dict[str, int] = {}
    for evaluation in evaluations:
        counts |= evaluation.left_out or {}
    return left_out_notes(counts)
