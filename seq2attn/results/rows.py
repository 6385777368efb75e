"""Rows of numbers that were measured, and answers beside the right ones. Imports no torch."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from pydantic import PositiveInt

from seq2attn.parts import FAMILIES, RANDOM
from seq2attn.results.edits import Edit
from seq2attn.results.metrics import METRICS
from seq2attn.results.statistics import Estimate, share

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
        """Raise ValueError for a family or metric that does not exist, and unless 0 <= low <= value
        <= high <= the metric's largest value.
        """
        if self.family not in (None, *FAMILIES.names()) or self.metric not in METRICS:
            raise ValueError(f"unknown family {self.family!r} or metric {self.metric!r}")
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
    samples: int,
    *,
    length: int | None,
    trained: bool,
    family: str | None = RANDOM,
    independent: float | None = None,
) -> list[Row]:
    """Return a row for each metric, but none for an impossible number, such as the entropy of a
    model that has diverged.

    measured: name of a metric -> its value, or an `Estimate` if its interval is known already.
    samples: how many strings or words were measured. independent: how many independent samples
    they are worth, for the intervals of shares; None: all are independent.
    """
    rows = []
    for name, number in measured.items():
        metric = METRICS[name]
        if not isinstance(number, Estimate):
            count = independent or samples
            number = share(number, count) if metric.is_share else Estimate(number)
        # not if it is nan, nor below 0, as an entropy may be where weights are
        if 0 <= number.value <= metric.largest:
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
    others: tuple[str, ...] = ()
    """the other right answers"""
    words: PositiveInt = 1
    """how many it counts as: with `--per token`, as many as its source has lines"""

    @property
    def is_right(self) -> bool:
        """True if the answer is exactly right."""
        return not self.edits and self.finished

    @property
    def rights(self) -> set[str]:
        """All right answers."""
        return {self.right, *self.others}


def worst_place(values: Mapping[FamilyLength, float]) -> FamilyLength | None:
    """Return family and length of the worst family's lowest value, the first on a tie; None if no
    family is worse than another.

    values: such as exact match. The worst family has the lowest of all; if several have it, it is
    the one with the lowest mean over lengths.
    """
    families: dict[str | None, list[float]] = defaultdict(list)
    for (family, _), value in values.items():
        families[family].append(value)
    ranks = {family: (min(numbers), fmean(numbers)) for family, numbers in families.items()}
    if len(set(ranks.values())) < 2:
        return None
    return min(values, key=lambda place: (ranks[place[0]], values[place]))
