"""What an evaluation measured: rows of numbers and, of pairs of strings, the answers. Imports no
torch.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from seq2attn.display.table import Column, Table, text_of
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.edits import Edit
from seq2attn.inference.statistics import Estimate, share
from seq2attn.parts import FAMILIES, RANDOM

FamilyLength = tuple[str, int]  # a family of strings and their length
SHARES = (
    "exact_match",
    "character_accuracy",
    "correct_prefix",
    "teacher_forced",
    "alignment",
    "wer",
)  # of the samples
METRICS = {**dict.fromkeys(SHARES, 1.0), "entropy": 100.0, "ser": 1e6, "loss": 1e6}
"""name -> the largest possible value; the smallest is 0"""
HEADINGS = {
    "exact_match": "exact match",
    "teacher_forced": "teacher-forced",
    "alignment": "alignment",
    "entropy": "entropy",
    "character_accuracy": "characters",
}
RATES = {"wer": "word error rate", "ser": "symbol error rate"}
MOST_CONFUSIONS = 12  # shown to people


@dataclass(frozen=True)
class Row:
    """One metric of the strings of a family and length, or of all words of a file, with a 95 %
    interval over strings.

    exact_match: the whole string and its `<eos>` are right; character_accuracy: share of the
    target's characters that are right at their position; correct_prefix: share that precede the
    first wrong one ("fine" in Grefenstette et al. 2015, whose "coarse" is exact_match); all under
    greedy decoding or a beam. teacher_forced: share of characters that are right with the right
    previous ones as input. alignment: share of characters whose largest weight lies on the ideal
    source position. entropy: of the attention weights, mean over characters, nats. Of pairs,
    without a length: wer, word error rate, the share of words whose answer is not exactly right;
    ser, symbol error rate, all edits / all symbols of the right answers; loss, under teacher
    forcing, nats per symbol.
    """

    family: str  # of the strings
    length: int | None  # characters of each source; None: words of any length
    metric: str
    value: float
    low: float | None  # ends of the interval; None for a metric that has none
    high: float | None
    samples: int  # strings or words measured
    trained: bool  # whether sources of this length occur in training

    def __post_init__(self) -> None:
        if self.family not in FAMILIES.names() or self.metric not in METRICS:
            raise ValueError(f"unknown family {self.family!r} or metric {self.metric!r}")
        if self.samples < 1 or (self.length is not None and self.length < 1):
            raise ValueError(
                f"{self.samples} samples of length {self.length} are not a measurement"
            )
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        if not 0 <= low <= self.value <= high <= METRICS[self.metric]:
            raise ValueError(
                f"{self.metric}: {self.value} in [{low}, {high}], not from 0 to {METRICS[self.metric]:g}"
            )


def rows_of(
    measured: Mapping[str, Estimate | float],
    samples: int,
    *,
    length: int | None,
    trained: bool,
    family: str = RANDOM,
) -> Iterator[Row]:
    """A row for each metric; none for a number that is not possible, such as the entropy of a model
    that has diverged.
    """
    for metric, number in measured.items():
        found = (
            share(min(1.0, number), samples)
            if metric in SHARES and isinstance(number, float)
            else number
        )
        value, low, high = astuple(found) if isinstance(found, Estimate) else (found, None, None)
        if math.isfinite(value) and value <= METRICS[metric]:
            yield Row(family, length, metric, value, low, high, samples, trained)


@dataclass(frozen=True)
class PairAnswer:
    """The model's answer to one source, beside the right one."""

    source: str
    right: str  # of several right answers, the one closest to the model's
    answer: str
    source_length: int  # symbols, features counted
    right_length: int
    edits: tuple[
        Edit, ...
    ]  # what turns the right answer into the model's: the errors of a cheapest alignment
    finished: bool  # False if the model wrote no `<eos>`: the answer is then wrong

    @property
    def is_right(self) -> bool:
        """Whether the answer is exactly right."""
        return not self.edits and self.finished


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured of one model, on strings that a task draws or on the pairs of a file."""

    rows: tuple[Row, ...]  # by family, length and metric
    answers: tuple[PairAnswer, ...] = ()
    """of pairs: one per different source, in the order of the pairs; of strings that a task draws:
    those that are wrong"""
    checkpoint: str = ""  # best, last or step-N, whichever was measured
    step: int | None = None  # after which the checkpoint was written
    seed: int = 0  # of the strings
    created: str | None = None  # when it was measured, ISO 8601
    trained_steps: int | None = (
        None  # the run's last step at that time; only `compare` records this and the parameters
    )
    parameters: dict[str, int] | None = None  # by part, and their total
    data: dict[str, Any] | None = None  # of pairs: name, bytes, pairs and sha256 of their file

    def __post_init__(self) -> None:
        if not self.rows or len(self._by_place) < len(self.rows):
            raise ValueError("it has no rows, or two of the same metric, family and length")
        counts = (
            self.seed,
            self.step or 0,
            self.trained_steps or 0,
            *(self.parameters or {"total": 0}).values(),
        )
        if min(counts) < 0 or (self.parameters is not None and "total" not in self.parameters):
            raise ValueError("a count is below 0, or the parameters lack their total")
        if self.created is not None:
            datetime.datetime.fromisoformat(self.created)

    @cached_property
    def _by_place(self) -> dict[tuple[str, int | None, str], Row]:
        return {(row.metric, row.length, row.family): row for row in self.rows}

    def get(self, metric: str, length: int | None = None, family: str = RANDOM) -> Row | None:
        """The row of a metric at a length, or of all words (length None); None if it was not
        measured.
        """
        return self._by_place.get((metric, length, family))

    def by_length(self, metric: str) -> list[Row]:
        """The rows of a metric that have a length."""
        return [row for row in self.rows if row.metric == metric and row.length is not None]

    @property
    def places(self) -> list[FamilyLength]:
        """The families and lengths that were measured, in order."""
        return list(
            dict.fromkeys((row.family, row.length) for row in self.rows if row.length is not None)
        )

    @property
    def lengths(self) -> list[int]:
        """The lengths that were measured, ascending."""
        return sorted({length for _, length in self.places})

    @property
    def families(self) -> list[str]:
        """The families of strings that were measured, in order."""
        return list(dict.fromkeys(family for family, _ in self.places))

    def mean(self, metric: str) -> float | None:
        """The mean over the trained lengths, or over all if none is trained; None if it was not
        measured.
        """
        values = [row.value for row in self._trained(metric)]
        return fmean(values) if values else None

    def lowest(self) -> Row:
        """The row of the trained length with the lowest exact match, the first on a tie."""
        return min(self._trained("exact_match"), key=lambda row: row.value)

    def _trained(self, metric: str) -> list[Row]:
        rows = self.by_length(metric)
        return [row for row in rows if row.trained] or rows

    def summary(self) -> dict[str, float]:
        """What status.json records."""
        if self.get("wer"):
            names = {"wer": "wer", "ser": "ser", "dev_loss": "loss"}
            return {
                name: row.value
                for name, metric in names.items()
                if (row := self.get(metric)) is not None
            }
        means = {
            "exact_match_mean": self.mean("exact_match"),
            "attention_entropy": self.mean("entropy"),
        }
        known = {name: value for name, value in means.items() if value is not None}
        return {"exact_match_worst": self.lowest().value, **known}

    def describe(self) -> str:
        """The summary as a few words."""
        wer, ser, loss = (self.get(metric) for metric in ("wer", "ser", "loss"))
        if wer and ser:
            rates = f"WER {100 * wer.value:.1f} %, SER {100 * ser.value:.1f} %"
            return f"{rates}, loss {loss.value:.3f} on the dev set" if loss else rates
        worst = self.lowest()
        if worst.value == 1:
            return f"exact match 1.000 at every {'trained ' if worst.trained else ''}length"
        mean = self.mean("exact_match")
        return (
            f"exact match {mean:.3f} on average; worst: {worst.value:.3f} at length {worst.length}"
        )

    def errors(self) -> list[PairAnswer]:
        """The wrong answers, for reading: few edits first, and the same edits together, frequent
        ones first.

        Raises `Seq2AttnError` if there are some that were not kept.
        """
        if not self.answers and any(row.value < 1 for row in self.by_length("exact_match")):
            raise Seq2AttnError(
                "the wrong answers were not kept", hint="Keep them: evaluate(..., errors=True)"
            )
        wrong = [answer for answer in self.answers if not answer.is_right]
        counts = Counter(answer.edits for answer in wrong)
        return sorted(
            wrong,
            key=lambda answer: (
                len(answer.edits),
                -counts[answer.edits],
                answer.edits,
                answer.source,
            ),
        )

    def errors_table(self) -> Table:
        """The wrong answers: source, right answer, answer, number of edits, and the edits as `a>b`
        (written b), `a>` (left out) or `>b` (added).
        """
        columns = [
            Column("source"),
            Column("right"),
            Column("answer"),
            Column("edits", right=True),
            Column("what"),
        ]
        rows: list[list[Any]] = []
        for answer in self.errors():
            what = " ".join([*map(str, answer.edits), *([] if answer.finished else ["(cut off)"])])
            source = answer.source.replace("\t", " ")  # before its features
            rows.append([source, answer.right, answer.answer, len(answer.edits), what])
        return Table(columns, rows)

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain values, such as for pandas."""
        return [asdict(row) for row in self.rows]

    def to_json(self, run: str) -> dict[str, Any]:
        """Plain values: what `read_record` reads; nothing for what is unknown. run: its name."""
        return {
            "run": run,
            **{name: value for name, value in asdict(self).items() if value not in (None, ())},
        }

    def tables(self, title: str = "") -> list[Table]:
        """For people: of pairs the error rates, then accuracy by length, or exact match by family
        and length.
        """
        exact_match = self.by_length("exact_match")
        notes = [] if all(row.trained for row in exact_match) else ["* never seen in training"]
        if set(self.families) - {RANDOM}:
            return [self._families(notes)]
        metrics = {
            metric: heading for metric, heading in HEADINGS.items() if self.by_length(metric)
        }
        columns = [
            Column(heading, optional=metric != "exact_match") for metric, heading in metrics.items()
        ]
        rows = [
            [_length(row), *(self.get(metric, row.length) for metric in metrics)]
            for row in exact_match
        ]
        by_length = Table([Column("length", right=True), *columns], rows, notes=notes)
        if not self.get("wer"):
            return [by_length]
        counts = Counter(edit for answer in self.answers for edit in answer.edits).most_common(
            MOST_CONFUSIONS
        )
        edits = ", ".join(f"{edit} {count:,}" for edit, count in counts)
        about = (
            [f"most frequent edits (a>b: b written for a; a>: left out; >b: added): {edits}"]
            if edits
            else []
        )
        title = f"{title} on {self.data['name']}" if self.data and title else title or "pairs"
        rates = [[name, self.get(metric)] for metric, name in RATES.items()]
        heading = f"{title}: {len(self.answers):,} words"
        return [Table([Column("rate"), Column("%", form=".1%")], rates, heading, about), by_length]

    def _families(self, notes: Sequence[str]) -> Table:
        """Exact match: a row for each family, a column for each length, and which family is the
        worst.
        """
        exact_match = {(row.family, row.length or 0): row for row in self.by_length("exact_match")}
        worst = worst_place({place: row.value for place, row in exact_match.items()})
        rows = []
        for family in self.families:
            found = [exact_match.get((family, length)) for length in self.lengths]
            name = f"{family} (worst)" if worst and worst[0] == family else family
            rows.append([name, *(row and row.value for row in found)])
        headings = {row.length: _length(row) for row in exact_match.values()}
        columns = [
            Column("exact match"),
            *(Column(headings[length], right=True) for length in self.lengths),
        ]
        about = (
            [f"worst: {worst[0]} at length {worst[1]}, {text_of(exact_match[worst])}"]
            if worst
            else []
        )
        return Table(
            columns, rows, notes=[*about, *notes, "--json has every measure with its intervals"]
        )

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def _length(row: Row) -> str:
    return f"{row.length}{'' if row.trained else '*'}"


def worst_place(values: Mapping[FamilyLength, float]) -> FamilyLength | None:
    """Family and length of the worst family's lowest value, the first on a tie; None if no family
    is worse than another.

    The worst family has the lowest value, and on a tie the lowest mean.
    """
    families: dict[str, list[float]] = {}
    for (family, _), value in values.items():
        families.setdefault(family, []).append(value)
    ranks = {family: (min(values_of), fmean(values_of)) for family, values_of in families.items()}
    if len(set(ranks.values())) < 2:
        return None
    worst = min(ranks, key=ranks.__getitem__)
    return min((place for place in values if place[0] == worst), key=values.__getitem__)
