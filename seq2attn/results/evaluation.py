"""What an evaluation measured: rows of numbers and, of pairs of strings, the answers. Imports no
torch.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import NonNegativeInt, PositiveInt

from seq2attn.errors import Seq2AttnError
from seq2attn.parts import FAMILIES, RANDOM
from seq2attn.results.edits import Edit
from seq2attn.results.metrics import METRICS, Metric
from seq2attn.results.statistics import Estimate, mcnemar, share

if TYPE_CHECKING:
    from seq2attn.display.table import Table

FamilyLength = tuple[str | None, int]
"""a family of strings (None: the words of a file) and their length"""


@dataclass(frozen=True)
class Row:
    """One metric of the strings of a family and length, or of all words of a file, with a 95 %
    interval over strings.
    """

    family: str | None
    """of the strings; None for the words of a file"""
    length: PositiveInt | None
    """characters of each source; None: words of any length"""
    metric: str
    """one of `METRICS`"""
    value: float
    low: float | None
    """the ends of the interval; None for a metric that has none"""
    high: float | None
    samples: PositiveInt
    """strings or words measured"""
    trained: bool
    """True if sources of this length occur in training"""

    def __post_init__(self) -> None:
        if self.family not in (None, *FAMILIES.names()) or self.metric not in METRICS:
            raise ValueError(f"unknown family {self.family!r} or metric {self.metric!r}")
        largest = METRICS[self.metric].largest
        low = self.low or 0.0
        high = largest if self.high is None else self.high
        if not 0 <= low <= self.value <= high <= largest:
            raise ValueError(
                f"{self.metric}: {self.value} in [{low}, {high}], not from 0 to {largest:g}"
            )


def rows_of(
    measured: Mapping[str, Estimate | float],
    samples: int,
    *,
    length: int | None,
    trained: bool,
    family: str | None = RANDOM,
) -> list[Row]:
    """Return a row for each metric; none for a number that is not possible, such as the entropy of
    a model that has diverged.
    """
    rows = []
    for name, number in measured.items():
        metric = METRICS[name]
        if not isinstance(number, Estimate):
            number = share(number, samples) if metric.is_share else Estimate(number)
        if number.value <= metric.largest:  # neither infinite nor nan
            rows.append(Row(family, length, name, *number, samples, trained))
    return rows


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

    @property
    def is_right(self) -> bool:
        """True if the answer is exactly right."""
        return not self.edits and self.finished


@dataclass(frozen=True, repr=False)
class Evaluation:
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
        """Return this evaluation with the rows that only the other has, by length."""
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
        worst = worst_place({(row.family, row.length or 0): row.value for row in rows})
        return worst and self.get("exact_match", worst[1], worst[0])

    def summary(self) -> dict[str, float]:
        """Return what status.json records."""
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
            return f"{rates}, loss {values.get('dev_loss', math.nan):.3f} on the dev set"
        worst = self.lowest()
        if worst.value == 1:
            return f"exact match 1.000 at every {'trained ' if worst.trained else ''}length"
        mean = f"exact match {values['exact_match_mean']:.3f} on average"
        return f"{mean}; worst: {worst.value:.3f} at length {worst.length}"

    def errors(self) -> list[PairAnswer]:
        """Return the wrong answers, for reading: few edits first, and the same edits together,
        frequent ones first.

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

    def paired(self, other: Evaluation) -> tuple[int, int, float]:
        """Count the words that only this evaluation has right, and those that only `other` of the
        same file has; and return the p-value of McNemar's exact test of the two numbers.
        """
        both = zip(self.answers, other.answers, strict=True)
        right = Counter((mine.is_right, theirs.is_right) for mine, theirs in both)
        only_mine, only_theirs = right[True, False], right[False, True]
        return only_mine, only_theirs, mcnemar(only_mine, only_theirs)

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
        """Return tables for people: of pairs the error rates, then accuracy by length; or exact
        match by family and length.
        """
        from seq2attn.results.tables import evaluation_tables

        return evaluation_tables(self, title)

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def worst_place(values: Mapping[FamilyLength, float]) -> FamilyLength | None:
    """Return family and length of the worst family's lowest value, the first on a tie; None if no
    family is worse than another.

    The worst family has the lowest value, and on a tie the lowest mean.
    """
    families: dict[str | None, list[float]] = defaultdict(list)
    for (family, _), value in values.items():
        families[family].append(value)
    ranks = {family: (min(numbers), fmean(numbers)) for family, numbers in families.items()}
    if len(set(ranks.values())) < 2:
        return None
    return min(values, key=lambda place: (ranks[place[0]], values[place]))
