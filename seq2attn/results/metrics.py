"""The metrics of an evaluation, and rows of numbers that were measured. A new metric is declared
here, computed in `inference/evaluation.py`, and shown by tables, comparisons and messages without
further changes. Imports no torch.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal

from pydantic import PositiveInt

from seq2attn.parts import FAMILIES, RANDOM
from seq2attn.results.statistics import Estimate, effective_count, share


@dataclass(frozen=True)
class Metric:
    """A number, at least 0, that says how well a model does, or what its attention is like."""

    name: str
    heading: str
    """in tables and figures; empty: they leave it out"""
    largest: float = 1.0
    """the largest possible value; a record with a larger one is damaged. 1: a share, the mean of a
    number from 0 to 1 for each sample, so that it has an interval"""
    lower_is_better: bool | None = False
    """None: neither lower nor higher is better"""
    of_file: bool = False
    """True if it is one number for all pairs of a file; False: one for each length of strings"""


_error = partial(Metric, lower_is_better=True, of_file=True)
_ALL = (
    Metric(
        # the whole string is right when the model reads its own output
        "exact_match",
        "exact match",
    ),
    Metric(
        # share of the characters that are right when the model is given the right previous
        # ones, as papers usually report
        "teacher_forced",
        "teacher-forced",
    ),
    Metric(
        # share of the characters whose largest weight lies on the ideal source position
        "alignment",
        "alignment",
    ),
    Metric(
        # of the attention weights, in nats, mean over the characters
        "entropy",
        "entropy",
        largest=100.0,
        lower_is_better=None,
    ),
    Metric(
        # share of the target's characters that are right at their position
        "character_accuracy",
        "characters",
    ),
    Metric(  # the "fine" of Grefenstette et al. 2015, whose "coarse" is the exact match
        # share of the target's characters that precede the first wrong one
        "correct_prefix",
        "before the first error",
    ),
    _error(
        # share of the words whose answer is not exactly right
        "wer",
        "word error rate",
    ),
    _error(
        # edits of all answers / symbols of all right answers
        "ser",
        "symbol error rate",
        largest=1e6,
    ),
    _error(
        # share of the words whose answer reached the longest output allowed, without `<eos>`
        "cut_off",
        "cut off",
    ),
    _error(
        # under teacher forcing, nats per symbol
        "loss",
        "",
        largest=1e6,
    ),
)
METRICS = {metric.name: metric for metric in _ALL}
RATES = {
    name: name.upper().replace("_", " ")
    for name, metric in METRICS.items()
    if metric.of_file and metric.heading
}
"""the rates of a file that tables show -> what they call them, such as WER"""

Place = tuple[str | None, int | None]
"""a family of strings (None: the words of a file) and their length (None: words of any length)"""


@dataclass(frozen=True)
class Row:
    """One metric of the strings of a family and length, or of all words of a file, with a 95 %
    interval over strings.
    """

    family: Literal[tuple(FAMILIES.names())] | None  # type: ignore[valid-type]
    """of the strings; None for the words of a file"""
    length: PositiveInt | None
    """characters of each source; None: words of any length"""
    metric: Literal[tuple(METRICS)]  # type: ignore[valid-type]
    value: float
    low: float | None
    """the ends of the interval; None for a metric that has none"""
    high: float | None
    samples: PositiveInt
    """strings or words measured"""
    trained: bool
    """True if sources of this length occur in training"""

    @property
    def place(self) -> Place:
        """The family and the length."""
        return self.family, self.length

    def __post_init__(self) -> None:
        """Raise ValueError unless 0 <= low <= value <= high <= the metric's largest value."""
        largest = METRICS[self.metric].largest
        # (without an interval, 0 and the largest value stand for its ends)
        low = self.low or 0.0
        high = largest if self.high is None else self.high
        if not 0 <= low <= self.value <= high <= largest:
            raise ValueError(
                f"{self.metric}: {self.value} in [{low}, {high}], not from 0 to {largest:g}"
            )


def rows_of(
    measured: Mapping[str, Estimate | float],
    counts: Sequence[int],
    *,
    length: int | None,
    trained: bool,
    family: str | None = RANDOM,
) -> list[Row]:
    """Return a row for each metric, but none for an impossible number, such as the entropy of a
    model that has diverged.

    measured: name of a metric -> its value, or an `Estimate` if its interval is known already.
    counts: as how many samples each source counts, which share its answer: a string as one, a
        source of a file perhaps as several words.
    length, trained, family: as `Row` has them.
    """
    independent = effective_count(counts)
    rows = []
    for name, number in measured.items():
        metric = METRICS[name]
        if not isinstance(number, Estimate):
            number = share(number, independent) if metric.largest == 1 else Estimate(number)
        # false for nan, and below 0, as an entropy may be if weights are negative
        if 0 <= number.value <= metric.largest:
            rows.append(Row(family, length, name, *number, sum(counts), trained))
    return rows


def worst_note(values: Mapping[Place, float]) -> list[str]:
    """Return a note on the worst family's lowest value, the first on a tie; none if no family is
    worse than another.

    values: such as exact match. The worst family has the lowest of all; if several have it, it is
    the one with the lowest mean over lengths.
    """
    families: dict[str | None, list[float]] = defaultdict(list)
    for (family, _), value in values.items():
        families[family].append(value)
    ranks = {family: (min(numbers), fmean(numbers)) for family, numbers in families.items()}
    if len(set(ranks.values())) < 2:
        return []
    family, length = min(values, key=lambda place: (ranks[place[0]], values[place]))
    return [f"worst family: {family}, {values[family, length]:.3f} at length {length}"]
