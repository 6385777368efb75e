"""What the trials of each group measured, over seeds: read from the runs' files, summarised and
ranked.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import find_evaluation
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import METRICS, Metric
from seq2attn.results.statistics import SeedMean, mean_over_seeds
from seq2attn.runs.records import Metrics
from seq2attn.runs.run import read_metrics

ValuesBySeed = dict[tuple[str | None, int | None], dict[int, float]]
"""(family, length) -> seed -> value of a metric"""


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


@dataclass(frozen=True)
class Summary:
    """One group over its seeds, at one length of a family of strings, or by an error rate on all
    words of a file.
    """

    family: str | None
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
    difference: SeedMean | None
    """from the baseline's values with the same seeds; None for the baseline itself"""
    by_seed: Mapping[int, float]

    @property
    def length_or_rate(self) -> int | str:
        """The length, or the name of the error rate."""
        return self.length or self.metric.upper().replace("_", " ")


@dataclass(frozen=True)
class Ranked:
    """A group's position among all, by the metric's mean over the lengths."""

    rank: int | None = None
    """from 1, the best; groups with the same mean share a rank. None where groups are not ranked"""
    overall: SeedMean | None = None  # over seeds
    behind: SeedMean | None = None
    """difference from the best group, seed by seed, so on average not better; None for the best
    itself, and without a common seed"""
    not_worse_than_best: bool = False
    """True if these seeds leave open that the group is as good as the best: its difference's
    interval contains 0"""


@dataclass(frozen=True)
class Group:
    """The trials that differ only in their seed."""

    label: str
    values: Mapping[str, Any]  # what varies except the seed: config key -> value
    score: str  # its score function, which decides its colour
    baseline: str | None  # label of the group to compare with; None for the baseline itself
    planned: int  # number of trials, some of which may not be done
    trials: tuple[TrialResult, ...]
    rows: tuple[Summary, ...]
    """by the comparison's metric; by an error rate, one row for each rate, the comparison's first
    """
    ranked: Ranked = Ranked()

    @property
    def overall(self) -> dict[int, float]:
        """Seed -> the mean of the comparison's metric over all families and lengths, or, of a file,
        its one value. Other error rates do not count. A seed that lacks a value is left out.
        """
        rows = [row for row in self.rows if row.metric == self.rows[0].metric]
        means = {}
        for trial in self.trials:
            values = [row.by_seed[trial.seed] for row in rows if trial.seed in row.by_seed]
            if values and len(values) == len(rows):  # a diverged model may lack a value
                means[trial.seed] = statistics.fmean(values)
        return means

    @property
    def main(self) -> list[Summary]:
        """The rows of the first family: random strings, if they were measured."""
        return [row for row in self.rows if row.family == self.rows[0].family]


def read_groups(plan: Plan) -> tuple[Group, ...]:
    """Return the groups of `plan` that have a trial done, with their results by its metric."""
    results: dict[str, list[TrialResult]] = {}
    for trial in plan.trials:
        saved = find_evaluation(trial)
        if saved is not None:
            result = TrialResult(trial.name, trial.config.seed, saved, read_metrics(trial.run))
            results.setdefault(trial.group, []).append(result)
    planned = plan.groups
    baselines = plan.baselines
    groups = []
    for label, trials in results.items():
        first = planned[label][0]  # any would do: the values are those of all
        baseline = None if baselines[label] == label else baselines[label]
        group = Group(
            label=label,
            values=first.values,
            score=first.config.score_name,
            baseline=baseline,
            planned=len(planned[label]),
            trials=tuple(trials),
            # (no group is called "", so that the baseline itself is compared with no trials)
            rows=tuple(_summaries(plan.metric, trials, results.get(baseline or "", []))),
        )
        groups.append(group)
    metric = METRICS[plan.metric]
    if len(groups) > 1 and metric.lower_is_better is not None:  # None: neither is better
        ranks = rank({group.label: group.overall for group in groups}, metric)
        # one that lacks values has no rank: it stays as it is
        groups = [replace(group, ranked=ranks.get(group.label, group.ranked)) for group in groups]
    return tuple(groups)


def _summaries(
    metric_name: str, trials: Sequence[TrialResult], baseline: Sequence[TrialResult]
) -> Iterator[Summary]:
    """Yield a group's row over its seeds for each family and length; if the metric is an error rate
    of a file, one row for each of these rates instead, that of `metric_name` first.

    trials: those of the group. baseline: those of the group to compare with; none for the baseline
    itself.
    """
    names = [metric_name]
    if METRICS[metric_name].of_file:
        shown = [name for name, metric in METRICS.items() if metric.of_file and metric.heading]
        names = list(dict.fromkeys(names + shown))  # each once
    # alike in all trials of a group, which have one config but for the seed
    trained = {(row.family, row.length): row.trained for row in trials[0].evaluation.rows}
    for name in names:
        metric = METRICS[name]
        others = _by_seed(name, baseline)
        for place, values in _by_seed(name, trials).items():  # place: (family, length)
            # the interval is cut to what is possible: a metric has values from 0 to `largest`
            mean = mean_over_seeds(values.values(), 0.0, metric.largest)
            worst_seed = min(values, key=values.__getitem__)
            best_seed = max(values, key=values.__getitem__)
            if metric.lower_is_better:
                worst_seed, best_seed = best_seed, worst_seed
            yield Summary(
                *place,
                metric=name,
                trained=trained[place],
                seeds=mean.count,
                mean=mean,
                sd=mean.deviation,
                worst=values[worst_seed],
                worst_seed=worst_seed,
                best=values[best_seed],
                best_seed=best_seed,
                difference=_difference(values, others.get(place, {}), metric),
                by_seed=values,
            )


def _by_seed(metric: str, trials: Sequence[TrialResult]) -> ValuesBySeed:
    """Return what trials measured of a metric: for each family and length the value by seed."""
    values: ValuesBySeed = {}
    for trial in trials:
        for row in trial.evaluation.rows:
            if row.metric == metric:
                values.setdefault((row.family, row.length), {})[trial.seed] = row.value
    return values


def rank(values: Mapping[str, Mapping[int, float]], metric: Metric) -> dict[str, Ranked]:
    """Return the ranks of groups by their labels, the best first. A group without values has none.

    values: label -> seed -> the value of the metric, of which either lower or higher is better.
    """
    means = {
        group: mean_over_seeds(by_seed.values(), 0.0, metric.largest)
        for group, by_seed in values.items()
        if by_seed
    }
    order = sorted(means, key=lambda group: means[group].value, reverse=not metric.lower_is_better)
    values_in_order = [means[group].value for group in order]
    ranks = {}
    for group in order:
        of_best = {} if group == order[0] else values[order[0]]  # it is not behind itself
        behind = _difference(values[group], of_best, metric)
        # stays True of the best itself, and without an interval, as one seed shows nothing
        not_worse = True
        if behind and behind.low is not None and behind.high is not None:
            not_worse = behind.low <= 0 if metric.lower_is_better else behind.high >= 0
        ranks[group] = Ranked(
            rank=1 + values_in_order.index(means[group].value),  # the same where means are equal
            overall=means[group],
            behind=behind,
            not_worse_than_best=not_worse,
        )
    return ranks


def _difference(
    values: Mapping[int, float], others: Mapping[int, float], metric: Metric
) -> SeedMean | None:
    """Return the mean difference of values from `others` with the same seed; None without a common
    seed.
    """
    differences = [value - others[seed] for seed, value in values.items() if seed in others]
    return mean_over_seeds(differences, -metric.largest, metric.largest) if differences else None
