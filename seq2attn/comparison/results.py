"""Results of an experiment by group and length, over seeds: plain records, read from the runs' files."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import METRICS, Published
from seq2attn.comparison.plan import Plan, name_values
from seq2attn.comparison.ranking import Ranked, rank
from seq2attn.comparison.trial import Trial, find_evaluation
from seq2attn.inference.intervals import Estimate, Spread, spread
from seq2attn.inference.results import LengthResult, summarise
from seq2attn.runs.records import read_metrics
from seq2attn.runs.run import Run

Curve = tuple[tuple[int, float], ...]  # (step, value), step by step


@dataclass(frozen=True)
class TrialResult:
    """What one run measured."""

    run: str
    seed: int
    lengths: Mapping[int, LengthResult]
    """the evaluation by length"""
    parameters: Mapping[str, int]
    """by part, and their total"""
    losses: Curve
    """training loss"""
    entropies: Curve
    """mean attention entropy over the trained lengths, at each evaluation of training"""
    tokens_per_second: float | None
    """target tokens per second, the median over training"""

    def value(self, metric: str, length: int) -> float | None:
        """A metric at a length; None if this model does not have it, such as attention entropy."""
        value: Estimate | float | None = getattr(self.lengths[length], metric)
        return value.value if isinstance(value, Estimate) else value


@dataclass(frozen=True)
class LengthSummary:
    """One group at one length, over its seeds."""

    length: int
    trained: bool
    values: Mapping[int, float]
    """the metric by seed"""
    spread: Spread
    difference: Spread | None
    """of the metric from the baseline's with the same seed; None for the baseline itself"""
    published: float | None

    @property
    def worst_seed(self) -> int:
        """The seed with the lowest value, the first on a tie."""
        return min(self.values, key=lambda seed: (self.values[seed], seed))

    @property
    def best_seed(self) -> int:
        """The seed with the highest value, the first on a tie."""
        return min(self.values, key=lambda seed: (-self.values[seed], seed))


@dataclass(frozen=True)
class GroupResult:
    """The trials that differ only in their seed."""

    label: str
    values: Mapping[str, Any]
    """what varies except the seed: config key -> value"""
    words: Mapping[str, str]
    """the values as labels show them"""
    score: str
    """its score function, which decides its colour"""
    baseline: str | None
    """the label of the group that it is compared with; None for the baseline itself"""
    planned: int
    """number of trials, some of which may not be done"""
    trials: tuple[TrialResult, ...]
    lengths: tuple[LengthSummary, ...]
    published_loss: float | None

    @property
    def parameters(self) -> int:
        return self.trials[0].parameters["total"]

    @property
    def overall(self) -> dict[int, float]:
        """The metric's mean over the lengths, by seed."""
        seeds = [trial.seed for trial in self.trials if all(trial.seed in row.values for row in self.lengths)]
        return {seed: statistics.fmean(row.values[seed] for row in self.lengths) for seed in seeds if self.lengths}

    @property
    def loss(self) -> Spread | None:
        """The last recorded training loss, over seeds."""
        losses = [trial.losses[-1][1] for trial in self.trials if trial.losses]
        return spread(losses) if losses else None

    @property
    def tokens_per_second(self) -> float | None:
        """The median over its trials."""
        speeds = [trial.tokens_per_second for trial in self.trials if trial.tokens_per_second is not None]
        return statistics.median(speeds) if speeds else None


@dataclass(frozen=True)
class Comparison:
    """An experiment's results, ready for tables and figures."""

    name: str
    metric: str
    groups: tuple[GroupResult, ...]
    """those with at least one trial done"""
    failed: Mapping[str, str] = field(default_factory=dict)
    """the trials that failed: run -> reason"""

    def __repr__(self) -> str:
        trials = sum(len(group.trials) for group in self.groups)
        best = f"; best: {self.ranking[0].group}" if self.ranking else ""
        failed = f"; {len(self.failed)} trials failed" if self.failed else ""
        return f"Comparison({self.name!r}: {len(self.groups)} groups, {trials} trials{best}{failed})"

    def _repr_html_(self) -> str:
        from seq2attn.plotting.html import html_table

        lengths = sorted({row.length for group in self.groups for row in group.lengths})
        rows = []
        for group in self.groups:
            found = {row.length: row.spread for row in group.lengths}
            deviations = {one: "" if s.deviation is None else f" ± {s.deviation:.3f}" for one, s in found.items()}
            means = [f"{found[one].mean:.3f}{deviations[one]}" if one in found else "" for one in lengths]
            rows.append([group.label, f"{len(group.trials)} of {group.planned}", *means])
        table = html_table([f"{self.metric_label} at length", "trials", *map(str, lengths)], rows)
        return f"{table}<p>Mean ± standard deviation over seeds.</p>"

    @property
    def metric_label(self) -> str:
        """The metric as tables and figures call it."""
        return METRICS[self.metric]

    @property
    def ranking(self) -> tuple[Ranked, ...]:
        """The groups, the best first; empty for a single group and for entropy, of which neither more nor less is better."""
        if len(self.groups) < 2 or self.metric == "entropy":
            return ()
        return rank({group.label: group.overall for group in self.groups})


def gather(plan: Plan, root: Path) -> Comparison:
    """The results of the trials that are done."""
    return compare_groups(plan, read_trials(plan, root))


def read_trials(plan: Plan, root: Path) -> dict[str, list[TrialResult]]:
    """The results of the trials that are done, by group."""
    return {
        label: [result for trial in trials if (result := read_trial(trial, root)) is not None]
        for label, trials in plan.groups.items()
    }


def compare_groups(plan: Plan, done: Mapping[str, Sequence[TrialResult]]) -> Comparison:
    """The groups of `plan` by its metric, from the trials that are done."""
    metric = plan.experiment.metric
    groups = []
    for label, trials in plan.groups.items():
        if not done[label]:
            continue
        baseline = plan.baseline_of(label)
        figures = [
            item
            for item in plan.experiment.published
            if all(trials[0].matches(key, value) for key, value in item.where.items())
        ]
        groups.append(
            GroupResult(
                label=label,
                values=trials[0].values,
                words=name_values(trials[0].values),
                score=trials[0].config.score_name,
                baseline=None if baseline == label else baseline,
                planned=len(trials),
                trials=tuple(done[label]),
                lengths=_summaries(metric, done[label], done[baseline] if baseline != label else [], figures),
                published_loss=next((item.loss for item in figures if item.loss is not None), None),
            )
        )
    return Comparison(plan.experiment.name, metric, tuple(groups))


def read_trial(trial: Trial, root: Path) -> TrialResult | None:
    """What a trial measured; None if it is not done."""
    saved = find_evaluation(trial, root)
    if saved is None:
        return None
    assert saved.parameters is not None, "find_evaluation asks for them"
    metrics = read_metrics(Run(root / trial.name))
    speeds = [speed for _, speed in metrics.curve("tokens_per_second")]
    summaries = [(step, summarise(results)) for step, results in metrics.evaluations]
    return TrialResult(
        run=trial.name,
        seed=trial.seed,
        lengths={length: saved.lengths[length] for length in trial.lengths},
        parameters=saved.parameters,
        losses=tuple(metrics.curve("loss")),
        entropies=tuple((step, summary.entropy) for step, summary in summaries if summary.entropy is not None),
        tokens_per_second=statistics.median(speeds) if speeds else None,
    )


def _summaries(
    metric: str, trials: Sequence[TrialResult], baseline: Sequence[TrialResult], figures: Sequence[Published]
) -> tuple[LengthSummary, ...]:
    summaries = []
    for length, result in trials[0].lengths.items():
        values = _by_seed(metric, length, trials)
        if not values:
            continue
        others = _by_seed(metric, length, baseline)
        differences = [value - others[seed] for seed, value in values.items() if seed in others]
        most = math.inf if metric == "entropy" else 1.0  # the others are shares
        summaries.append(
            LengthSummary(
                length=length,
                trained=result.trained,
                values=values,
                spread=spread(list(values.values()), 0.0, most),
                difference=spread(differences, -most, most) if differences else None,
                published=next((item.values[length] for item in figures if length in item.values), None),
            )
        )
    return tuple(summaries)


def _by_seed(metric: str, length: int, trials: Sequence[TrialResult]) -> dict[int, float]:
    """The values of the trials that have one."""
    values = {trial.seed: trial.value(metric, length) for trial in trials if length in trial.lengths}
    return {seed: value for seed, value in values.items() if value is not None}


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        "experiment": comparison.name,
        "metric": comparison.metric,
        "groups": [_group_json(group) for group in comparison.groups],
        "ranking": [asdict(ranked) for ranked in comparison.ranking],
        "trials": [
            {
                "run": trial.run,
                "group": group.label,
                "seed": trial.seed,
                "parameters": dict(trial.parameters),
                "tokens_per_second": trial.tokens_per_second,
                "lengths": {str(length): result.to_json() for length, result in trial.lengths.items()},
            }
            for group in comparison.groups
            for trial in group.trials
        ],
        "failed": dict(comparison.failed),
    }


def _group_json(group: GroupResult) -> dict[str, Any]:
    return {
        "group": group.label,
        "values": dict(group.values),
        "baseline": group.baseline,
        "trials": len(group.trials),
        "planned": group.planned,
        "parameters": group.parameters,
        "loss": asdict(group.loss) if group.loss else None,
        "published_loss": group.published_loss,
        "tokens_per_second": group.tokens_per_second,
        "lengths": {
            str(row.length): {
                "trained": row.trained,
                **asdict(row.spread),
                "worst_seed": row.worst_seed,
                "best_seed": row.best_seed,
                "difference": asdict(row.difference) if row.difference else None,
                "published": row.published,
            }
            for row in group.lengths
        },
    }


def csv_rows(comparison: Comparison) -> Iterator[list[Any]]:
    """A header, then one row per trial and length, with every metric."""
    keys = list(comparison.groups[0].values) if comparison.groups else []
    header = ["run", "group", *keys, "seed", "length", "trained", *METRICS, "rank"]
    ranks = {ranked.group: ranked.rank for ranked in comparison.ranking}
    yield [*header, "parameters", "last_loss", "tokens_per_second"]
    for group in comparison.groups:
        for trial in group.trials:
            for length, result in trial.lengths.items():
                metrics = [trial.value(metric, length) for metric in METRICS]
                start = [trial.run, group.label, *(cell(group.values[key]) for key in keys), trial.seed, length]
                end = [trial.parameters["total"], trial.losses[-1][1] if trial.losses else "", trial.tokens_per_second]
                measured = ["" if value is None else value for value in metrics]
                yield [*start, cell(result.trained), *measured, ranks.get(group.label, ""), *end]


def cell(value: Any) -> str:
    """A config value in a table: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
