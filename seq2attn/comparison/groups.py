"""What the trials of each group measured, over seeds: read from the runs' files, summarised and
ranked.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seq2attn.comparison.experiment import ERROR_RATES
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import Trial, find_evaluation
from seq2attn.inference.results import METRICS as LARGEST
from seq2attn.inference.results import Evaluation, FamilyLength
from seq2attn.inference.statistics import SeedMean, mean_over_seeds
from seq2attn.parts import RANDOM
from seq2attn.runs.logs import read_metrics
from seq2attn.runs.records import Metrics


@dataclass(frozen=True)
class TrialResult:
    """What one run measured and logged."""

    run: str
    seed: int
    evaluation: Evaluation
    metrics: Metrics

    @property
    def parameters(self) -> int | None:
        """The number of all its parameters."""
        return (self.evaluation.parameters or {}).get("total")

    @property
    def loss(self) -> float | None:
        """The last recorded training loss."""
        losses = self.metrics.curve("loss")
        return losses[-1][1] if losses else None


@dataclass(frozen=True)
class Summary:
    """One group at one length of a family of strings, or by an error rate on all words of a file,
    over its seeds.
    """

    family: str
    length: int | None  # None: all words of the dev file
    metric: str
    trained: bool
    seeds: int
    mean: SeedMean
    sd: float | None
    worst: float
    worst_seed: int  # with the lowest value, or the highest error rate; the first on a tie
    best: float
    best_seed: int
    difference: (
        SeedMean | None
    )  # from the baseline's values with the same seeds; None for the baseline itself
    published: float | None
    by_seed: Mapping[int, float]


@dataclass(frozen=True)
class Ranked:
    """A group's place among all, by the metric's mean over the lengths."""

    rank: int | None = None
    """from 1, the best; groups with the same mean share a rank. None where groups are not ranked"""
    overall: SeedMean | None = None  # over seeds
    behind: SeedMean | None = None
    """difference from the best group, seed by seed, so on average not better; None for the best
    itself, and without a common seed"""
    may_be_best: bool = False
    """whether these seeds leave open that the group is as good as the best: its difference's
    interval has 0 in it"""


@dataclass(frozen=True)
class Group:
    """The trials that differ only in their seed."""

    label: str
    values: Mapping[str, Any]  # what varies except the seed: config key -> value
    score: str  # its score function, which decides its colour
    baseline: (
        str | None
    )  # the label of the group that it is compared with; None for the baseline itself
    planned: int  # number of trials, some of which may not be done
    trials: tuple[TrialResult, ...]
    rows: tuple[Summary, ...]
    """by the comparison's metric; by an error rate, one row for each rate, the comparison's first
    """
    published_loss: float | None
    ranked: Ranked = Ranked()

    @property
    def loss(self) -> float | None:
        """The last recorded training loss, the mean over seeds."""
        losses = [trial.loss for trial in self.trials if trial.loss is not None]
        return statistics.fmean(losses) if losses else None

    @property
    def overall(self) -> dict[int, float]:
        """The metric's mean over the lengths, or the error rate, by seed."""
        rows = [row.by_seed for row in self.rows if row.metric == self.rows[0].metric]
        seeds = [trial.seed for trial in self.trials if all(trial.seed in row for row in rows)]
        return {seed: statistics.fmean(row[seed] for row in rows) for seed in seeds if rows}

    @property
    def main(self) -> list[Summary]:
        """The rows of random strings, or of the first family if those were not measured."""
        families = [row.family for row in self.rows]
        return [
            row
            for row in self.rows
            if row.family == (RANDOM if RANDOM in families else families[0])
        ]

    @property
    def least(self) -> dict[FamilyLength, float]:
        """The metric of the worst seed, by family and length."""
        return {
            (row.family, row.length): row.mean.least for row in self.rows if row.length is not None
        }


def read_groups(plan: Plan) -> tuple[Group, ...]:
    """The groups of `plan` that have a trial done, with their results by its metric."""
    planned, groups = plan.groups, []
    done = {
        label: found
        for label, trials in planned.items()
        if (found := [*filter(None, map(_read, trials))])
    }
    for label, trials in done.items():
        first = planned[label][0]
        baseline = None if first.baseline == label else first.baseline
        groups.append(
            Group(
                label=label,
                values=first.values,
                score=first.config.score_name,
                baseline=baseline,
                planned=len(planned[label]),
                trials=tuple(trials),
                rows=tuple(
                    _summaries(
                        plan.metric, trials, done.get(baseline or "", []), first.published.values
                    )
                ),
                published_loss=first.published.loss,
            )
        )
    if len(groups) < 2 or plan.metric == "entropy":  # of which neither more nor less is better
        return tuple(groups)
    overall = {group.label: group.overall for group in groups}
    ranking = rank(overall, lowest_first=plan.metric in ERROR_RATES, most=LARGEST[plan.metric])
    return tuple(replace(group, ranked=ranking.get(group.label, Ranked())) for group in groups)


def _read(trial: Trial) -> TrialResult | None:
    """What a trial measured; None if it is not done."""
    saved = find_evaluation(trial)
    return (
        None
        if saved is None
        else TrialResult(trial.name, trial.config.seed, saved, read_metrics(trial.run))
    )


def _summaries(
    metric: str,
    trials: Sequence[TrialResult],
    baseline: Sequence[TrialResult],
    published: Mapping[int, float],
) -> Iterator[Summary]:
    """A row for each family and length, or by an error rate one for each rate, the metric's first."""
    wanted: list[tuple[str, int | None, str]] = [
        (metric, length, family) for family, length in trials[0].evaluation.places
    ]
    if metric in ERROR_RATES:
        wanted = [
            (rate, None, RANDOM) for rate in sorted(ERROR_RATES, key=lambda rate: rate != metric)
        ]
    for name, length, family in wanted:
        rows, others = (
            {
                trial.seed: row
                for trial in side
                if (row := trial.evaluation.get(name, length, family))
            }
            for side in (trials, baseline)
        )
        if not rows:
            continue
        values = {seed: row.value for seed, row in rows.items()}
        over, goodness = (
            mean_over_seeds(list(values.values()), 0.0, LARGEST[name]),
            -1 if name in ERROR_RATES else 1,
        )
        worst, best = (
            choose(values, key=lambda seed: goodness * values[seed]) for choose in (min, max)
        )
        yield Summary(
            family=family,
            length=length,
            metric=name,
            trained=next(iter(rows.values())).trained,
            seeds=over.count,
            mean=over,
            sd=over.deviation,
            worst=values[worst],
            worst_seed=worst,
            best=values[best],
            best_seed=best,
            difference=_difference(
                values, {seed: row.value for seed, row in others.items()}, LARGEST[name]
            ),
            published=published.get(length) if length is not None and family == RANDOM else None,
            by_seed=values,
        )


def rank(
    values: Mapping[str, Mapping[int, float]], *, lowest_first: bool = False, most: float = 1.0
) -> dict[str, Ranked]:
    """Groups with their numbers (0 to `most`) by seed -> their ranks, the best first: the largest,
    or the smallest.
    """
    sign = 1 if lowest_first else -1
    means = {
        group: mean_over_seeds(list(by_seed.values()), 0.0, most)
        for group, by_seed in values.items()
        if by_seed
    }
    order = sorted(means, key=lambda group: sign * means[group].value)
    ranks = {}
    for group in order:
        place = 1 + sum(sign * other.value < sign * means[group].value for other in means.values())
        behind = None if group == order[0] else _difference(values[group], values[order[0]], most)
        end = None if behind is None else behind.low if lowest_first else behind.high
        ranks[group] = Ranked(
            place, means[group], behind, place == 1 or end is None or sign * end <= 0
        )
    return ranks


def _difference(
    values: Mapping[int, float], others: Mapping[int, float], most: float
) -> SeedMean | None:
    """Of values by seed from others with the same seed; None without a common seed."""
    differences = [value - others[seed] for seed, value in values.items() if seed in others]
    return mean_over_seeds(differences, -most, most) if differences else None
