"""What an evaluation measured, with its tables. Imports no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import NonNegativeInt, PositiveInt

from seq2attn.display.signs import sign
from seq2attn.display.table import Column, Number, Table, Tabular, text_of
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import RANDOM
from seq2attn.results.edits import Edit
from seq2attn.results.metrics import METRICS, Metric
from seq2attn.results.rows import FamilyLength, PairAnswer, Row, worst_place
from seq2attn.results.statistics import Estimate, effective_count, paired_difference, sign_flips
from seq2attn.text import left_out_notes, quoted

MAX_EDITS = 12  # different ones that a note lists


class Paired(NamedTuple):
    """Two evaluations of the same words, A and B, against each other."""

    only_a: int
    """words that only A has right"""
    only_b: int
    p: float
    """the two-sided p-value of `sign_flips` over sources"""
    difference: Estimate
    """how much higher A's error rate is, with its 95 % interval"""


@dataclass(frozen=True, repr=False)
class Evaluation(Tabular):
    """What was measured of one model, on strings that a task draws or on the pairs of a file."""

    rows: tuple[Row, ...]
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

    def __post_init__(self) -> None:
        if not self.rows or len(self._by_key) < len(self.rows):
            raise ValueError("it has no rows, or two of the same metric, family and length")
        if self.parameters is not None and "total" not in self.parameters:
            raise ValueError("the parameters lack their total")

    @cached_property
    def _by_key(self) -> dict[tuple[str, int | None, str | None], Row]:
        return {(row.metric, row.length, row.family): row for row in self.rows}

    def get(
        self, metric: str, length: int | None = None, family: str | None = RANDOM
    ) -> Row | None:
        """Return the row of a metric at a length, or of all words (length None); None if it was not
        measured. family: of strings that a task draws.
        """
        of_words = self.rows[0].family is None
        return self._by_key.get((metric, length, None if of_words else family))

    def completed(self, other: Evaluation) -> Evaluation:
        """Return this evaluation with the rows that only the other has: first those of all words,
        which have no length, then by length.
        """
        rows = {**other._by_key, **self._by_key}.values()
        return replace(self, rows=tuple(sorted(rows, key=lambda row: row.length or 0)))

    def by_length(self, metric: str) -> list[Row]:
        """Return the rows of a metric that have a length."""
        return [row for row in self.rows if row.metric == metric and row.length is not None]

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that were measured, in the order of `METRICS`."""
        measured = {row.metric for row in self.rows}
        return [metric for metric in METRICS.values() if metric.name in measured]

    @property
    def places(self) -> list[FamilyLength]:
        """The families and lengths that were measured, in order."""
        places = [(row.family, row.length) for row in self.rows if row.length is not None]
        return list(dict.fromkeys(places))

    @property
    def lengths(self) -> list[int]:
        """The lengths that were measured, ascending."""
        return sorted({length for _, length in self.places})

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

    def worst_family(self) -> Row | None:
        """Return the row of `worst_place` by exact match."""
        rows = self.by_length("exact_match")
        # (0 never occurs: these rows have a length)
        worst = worst_place({(row.family, row.length or 0): row.value for row in rows})
        return worst and self.get("exact_match", worst[1], worst[0])

    def summary(self) -> dict[str, float]:
        """Return what status.json records, by name: of a file of pairs the error rates and the
        loss; of strings that a task draws exact match, of the worst trained length and on average
        over these, and the entropy of attention. What was not measured is left out.
        """
        if self.get("wer"):
            summary = {name: self.mean(name) for name in ("wer", "ser")}
            summary["dev_loss"] = self.mean("loss")
        else:
            summary = {"exact_match_worst": self.lowest().value}
            summary["exact_match_mean"] = self.mean("exact_match")
            summary["attention_entropy"] = self.mean("entropy")
        return {name: value for name, value in summary.items() if value is not None}

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

    @property
    def words(self) -> int:
        """How many words of a file of pairs count, with `per="token"` its lines."""
        return sum(answer.words for answer in self.answers)

    @property
    def counted(self) -> str:
        """`words` with their unit, such as `100 words`."""
        per = (self.data or {}).get("per")
        return f"{self.words:,} {'tokens' if per == 'token' else 'words'}"

    def errors(self) -> list[PairAnswer]:
        """Return the wrong answers, for reading: those with few edits first; of equally many, the
        most frequent edits first, and answers with the same edits together.

        Raises `Seq2AttnError` if some answers were wrong, but were not kept.
        """
        if not self.answers and any(row.value < 1 for row in self.by_length("exact_match")):
            raise Seq2AttnError(
                "the wrong answers were not kept", hint="Keep them: evaluate(..., errors=True)"
            )
        wrong = [answer for answer in self.answers if not answer.is_right]
        counts = Counter(answer.edits for answer in wrong)

        def position(answer: PairAnswer) -> tuple[object, ...]:
            return len(answer.edits), -counts[answer.edits], answer.edits, answer.source

        return sorted(wrong, key=position)

    def paired(self, other: Evaluation) -> Paired:
        """Compare the answers of this evaluation, A, with those of another, B, source by source.

        A source may count as several words, which share its answer, so that all words are worth
        fewer independent ones: for the difference and its interval, the counts are scaled down to
        that number.

        Raises `Seq2AttnError` if they were not measured on the same words, with the first
        difference.
        """
        pairs = list(self._pairs(other))
        # for each source, in words: above 0 if only A has it right, below 0 if only B has; both
        # count it as equally many words, or `_pairs` raises
        differences = [a.words * (a.is_right - b.is_right) for a, b in pairs]
        only_a = sum(difference for difference in differences if difference > 0)
        only_b = -sum(difference for difference in differences if difference < 0)
        words = [a.words for a, _ in pairs]
        count = effective_count(words)
        scale = count / sum(words)
        difference = paired_difference(only_a * scale, only_b * scale, count)
        return Paired(only_a, only_b, sign_flips(differences), difference)

    def _pairs(self, other: Evaluation) -> Iterator[tuple[PairAnswer, PairAnswer]]:
        """Yield the answers of this evaluation, A, and of the other, B, to each source. Raises
        `Seq2AttnError` if the two do not have the same sources, with the same right answers, that
        count as equally many words.
        """
        if not (self.get("wer") and other.get("wer")):
            raise Seq2AttnError("only evaluations on a file of pairs can be paired")
        mine = {answer.source: answer for answer in self.answers}
        theirs = {answer.source: answer for answer in other.answers}
        for source in {**mine, **theirs}:
            a, b = mine.get(source), theirs.get(source)
            if a is None or b is None:
                raise _not_paired(f"only {'B' if a is None else 'A'} has {quoted(source)}")
            if a.rights != b.rights:
                right = f"{len(a.rights)} for A and {len(b.rights)} for B"
                if len(a.rights) == len(b.rights):  # then each has an answer that the other lacks
                    only_a, only_b = min(a.rights - b.rights), min(b.rights - a.rights)
                    right = f"{quoted(only_a)} for A and {quoted(only_b)} for B"
                raise _not_paired(f"the right answers to {quoted(source)} are {right}")
            if a.words != b.words:
                raise _not_paired(f"{quoted(source)} counts {a.words} times in A, {b.words} in B")
            yield a, b

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, such as for pandas."""
        return list(map(asdict, self.rows))

    def to_json(self, run: str) -> dict[str, Any]:
        """Return plain values, from which `read_record` makes an `Evaluation`; nothing for what is
        unknown. run: its name.
        """
        known = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return {"run": run, **known}

    def tables(self, title: str = "") -> list[Table]:
        """Return tables for people: exact match by family and length, if there is a family of
        strings beside `random`; otherwise all metrics by length, and before them, for a file of
        pairs, its error rates.

        title: what was measured.
        """
        if set(self.families) - {RANDOM, None}:
            return [_family_table(self, title)]
        if self.get("wer"):
            return [_rate_table(self, title), _length_table(self)]
        return [_length_table(self, title)]


def _not_paired(difference: str) -> Seq2AttnError:
    return Seq2AttnError(
        f"A and B were measured on different words, which cannot be paired: {difference}",
        hint="Measure both on the same file, read in the same way.",
    )


# ---- tables for people ----


def _length_table(evaluation: Evaluation, title: str = "") -> Table:
    """Return a table with a row for each length, and a column for each metric that has a heading
    and is measured by length.
    """
    exact_match = evaluation.by_length("exact_match")
    columns = [Number("length")]
    metrics = []
    for metric in evaluation.metrics:
        if metric.heading and not metric.of_file:  # a metric of a whole file is one number
            # where the terminal is too narrow for all, exact match stays
            columns.append(Column(metric.heading, optional=metric.name != "exact_match"))
            metrics.append(metric.name)
    rows = []
    for row in exact_match:
        cells = [evaluation.get(metric, row.length) for metric in metrics]
        rows.append([length_label(row), *cells])
    return Table(columns, rows, title, untrained_note(exact_match))


def _family_table(evaluation: Evaluation, title: str) -> Table:
    """Return a table of exact match: a row for each family of strings, a column for each length;
    `(worst)` marks the family of `worst_place`.
    """
    exact_match = evaluation.by_length("exact_match")
    headings = {row.length: length_label(row) for row in exact_match}  # alike in every family
    columns = [Column("exact match")]
    for length in evaluation.lengths:
        columns.append(Number(headings[length]))
    worst = evaluation.worst_family()
    rows = []
    for family in evaluation.families:
        is_worst = worst is not None and family == worst.family
        cells: list[object] = [f"{family} (worst)" if is_worst else family]
        for length in evaluation.lengths:
            row = evaluation.get("exact_match", length, family)
            cells.append(row and row.value)  # None: this family was not measured at this length
        rows.append(cells)
    notes = [*untrained_note(exact_match), "--json has every measure with its intervals"]
    if worst is not None:
        notes.insert(0, f"worst: {worst.family} at length {worst.length}, {text_of(worst)}")
    return Table(columns, rows, title, notes)


def _rate_table(evaluation: Evaluation, title: str) -> Table:
    """Return a table of the error rates of all words of a file; its notes list the `MAX_EDITS`
    most frequent edits.

    title: what was measured, such as the name of a run; may be empty.
    """
    rows = []
    for metric in evaluation.metrics:
        if metric.heading and metric.of_file:
            rows.append((metric.heading, evaluation.get(metric.name)))
    measured = title or "pairs"
    if title and evaluation.data:
        measured = f"{title} on {evaluation.data['name']}"
    edits = Counter[Edit]()
    for answer in evaluation.answers:
        for edit in answer.edits:
            edits[edit] += answer.words  # so many words of the file have this answer
    common = edits.most_common(MAX_EDITS)
    counts = [f"{Edit(*map(sign, edit))} {count:,}" for edit, count in common]
    notes = lines_left_out([evaluation])
    if counts:
        signs = "a>b: b written for a; a>: left out; >b: added"
        notes.append(f"most frequent edits ({signs}): {', '.join(counts)}")
    columns = [Column("rate"), Column("%", form=".1%")]
    return Table(columns, rows, f"{measured}: {evaluation.counted}", notes)


def length_label(row: Row) -> str:
    """Return the length of a row, with an asterisk if it was not trained."""
    return f"{row.length}{'' if row.trained else '*'}"


def untrained_note(rows: Iterable[Row]) -> list[str]:
    """Return what the asterisk of a row means, if a row has one."""
    return [] if all(row.trained for row in rows) else ["* never seen in training"]


def lines_left_out(evaluations: Iterable[Evaluation]) -> list[str]:
    """Return a sentence for each file some of whose malformed lines were left out."""
    counts: dict[str, int] = {}
    for evaluation in evaluations:
        counts |= evaluation.left_out or {}
    return left_out_notes(counts)
