"""Results of an experiment by group and length, over seeds: plain records, read from the runs' files."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seq2attn.comparison.experiment import ERROR_RATES, METRICS, Published
from seq2attn.comparison.plan import Plan, name_values
from seq2attn.comparison.ranking import Ranked, rank
from seq2attn.comparison.trial import Trial, find_evaluation
from seq2attn.inference.paired import PairedDifference, paired_difference
from seq2attn.inference.results import Evaluation, Place
from seq2attn.inference.statistics import Spread, spread
from seq2attn.parts import RANDOM
from seq2attn.runs.logs import read_metrics

Curve = tuple[tuple[int, float], ...]  # (step, value), step by step


@dataclass(frozen=True)
class TrialResult:
    """What one run measured."""

    run: str
    seed: int
    evaluation: Evaluation
    places: Sequence[Place]
    """the families of strings and lengths that the comparison is about"""
    parameters: Mapping[str, int]
    """by part, and their total"""
    losses: Curve
    """training loss"""
    entropies: Curve
    """mean attention entropy over the trained lengths, at each evaluation of training"""
    tokens_per_second: float | None
    """target tokens per second, the median over training"""

    def value(self, metric: str, place: Place | None) -> float | None:
        """A metric of a family at a length, an error rate on all words (place None); None if this run does not have it."""
        family, length = place or (RANDOM, None)
        row = self.evaluation.get(metric, length, family)
        return None if row is None else row.value


@dataclass(frozen=True)
class LengthSummary:
    """One group at one length of a family of strings, or by an error rate on all words of a file, over its seeds."""

    metric: str
    family: str
    length: int | None
    """None: all words of the dev file"""
    trained: bool
    values: Mapping[int, float]
    """the metric by seed"""
    spread: Spread
    difference: Spread | None
    """of the metric from the baseline's with the same seed; None for the baseline itself"""
    published: float | None

    @property
    def key(self) -> str:
        """The length, or the name of the error rate."""
        return self.metric if self.length is None else str(self.length)

    @property
    def worst_seed(self) -> int:
        """The seed with the lowest value, or the highest error rate; the first on a tie."""
        sign = -1 if self.metric in ERROR_RATES else 1
        return min(self.values, key=lambda seed: (sign * self.values[seed], seed))

    @property
    def best_seed(self) -> int:
        """The seed with the highest value, or the lowest error rate; the first on a tie."""
        sign = 1 if self.metric in ERROR_RATES else -1
        return min(self.values, key=lambda seed: (sign * self.values[seed], seed))


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
    """by the comparison's metric; by an error rate, one row for each rate, the comparison's first"""
    published_loss: float | None
    word_by_word: PairedDifference | None = None
    """of runs on pairs by an error rate: from the baseline on the same words, over the seeds that both have"""

    @property
    def parameters(self) -> int:
        return self.trials[0].parameters["total"]

    @property
    def overall(self) -> dict[int, float]:
        """The metric's mean over the lengths, or the error rate, by seed."""
        rows = [row for row in self.lengths if row.metric == self.lengths[0].metric]
        seeds = [trial.seed for trial in self.trials if all(trial.seed in row.values for row in rows)]
        return {seed: statistics.fmean(row.values[seed] for row in rows) for seed in seeds if rows}

    @property
    def main(self) -> tuple[LengthSummary, ...]:
        """The rows of random strings, or of the first family if those were not measured."""
        families = [row.family for row in self.lengths]
        main = RANDOM if RANDOM in families else next(iter(families), RANDOM)
        return tuple(row for row in self.lengths if row.family == main)

    @property
    def least(self) -> dict[Place, float]:
        """The metric of the worst seed, by family and length."""
        return {(row.family, row.length): row.spread.least for row in self.lengths if row.length is not None}

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
    busy: tuple[str, ...] = ()
    """the trials that another process trains, which are left to it"""
    stopped_by: int | None = None
    """the number of the signal that stopped it"""

    def __repr__(self) -> str:
        trials = sum(len(group.trials) for group in self.groups)
        best = f"; best: {self.ranking[0].group}" if self.ranking else ""
        failed = f"; {len(self.failed)} trials failed" if self.failed else ""
        return f"Comparison({self.name!r}: {len(self.groups)} groups, {trials} trials{best}{failed})"

    def _repr_html_(self) -> str:
        from seq2attn.display.table import Column, Table

        rows = sorted((row for group in self.groups for row in group.lengths), key=lambda row: row.length or 0)
        places = list(dict.fromkeys((row.family, row.key) for row in rows))
        body = []
        for group in self.groups:
            found = {(row.family, row.key): row.spread for row in group.lengths}
            deviations = {one: "" if s.deviation is None else f" ± {s.deviation:.3f}" for one, s in found.items()}
            means = [f"{found[one].mean:.3f}{deviations[one]}" if one in found else "" for one in places]
            body.append([group.label, f"{len(group.trials)} of {group.planned}", *means])
        titles = [key if family == RANDOM else f"{family} {key}" for family, key in places]
        columns = [Column(name) for name in (f"{self.metric_label} at", "trials", *titles)]
        return Table(columns, body, notes=["Mean ± standard deviation over seeds."]).html()

    @property
    def metric_label(self) -> str:
        """The metric as tables and figures call it."""
        return METRICS[self.metric]

    @property
    def has_families(self) -> bool:
        """Whether other strings than random ones were measured."""
        return any(row.family != RANDOM for group in self.groups for row in group.lengths)

    @property
    def ranking(self) -> tuple[Ranked, ...]:
        """The groups, the best first; empty for a single group and for entropy, of which neither more nor less is better."""
        if len(self.groups) < 2 or self.metric == "entropy":
            return ()
        overall = {group.label: group.overall for group in self.groups}
        return rank(overall, lowest_first=self.metric in ERROR_RATES, most=_most(self.metric))


def gather(plan: Plan) -> Comparison:
    """The results of the trials that are done."""
    return compare_groups(plan, read_trials(plan))


def read_trials(plan: Plan) -> dict[str, list[TrialResult]]:
    """The results of the trials that are done, by group."""
    return {
        label: [result for trial in trials if (result := read_trial(trial)) is not None]
        for label, trials in plan.groups.items()
    }


def compare_groups(plan: Plan, done: Mapping[str, Sequence[TrialResult]]) -> Comparison:
    """The groups of `plan` by its metric, from the trials that are done."""
    metric = plan.metric
    groups = []
    for label, trials in plan.groups.items():
        if not done[label]:
            continue
        baseline = plan.baseline_of(label)
        others = [] if baseline == label else done[baseline]
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
                lengths=_summaries(metric, done[label], others, figures),
                published_loss=next((item.loss for item in figures if item.loss is not None), None),
                word_by_word=_word_by_word(others, done[label]) if metric in ERROR_RATES else None,
            )
        )
    return Comparison(plan.experiment.name, metric, tuple(groups))


def read_trial(trial: Trial) -> TrialResult | None:
    """What a trial measured; None if it is not done."""
    saved = find_evaluation(trial)
    if saved is None:
        return None
    assert saved.parameters is not None, "find_evaluation asks for them"
    metrics = read_metrics(trial.run)
    speeds = [speed for _, speed in metrics.curve("tokens_per_second")]
    entropies = [(step, results.mean("entropy")) for step, results in metrics.evaluations]
    return TrialResult(
        run=trial.name,
        seed=trial.seed,
        evaluation=saved,
        places=saved.places if trial.on_files else trial.places,
        parameters=saved.parameters,
        losses=tuple(metrics.curve("loss")),
        entropies=tuple((step, entropy) for step, entropy in entropies if entropy is not None),
        tokens_per_second=statistics.median(speeds) if speeds else None,
    )


def _summaries(
    metric: str, trials: Sequence[TrialResult], baseline: Sequence[TrialResult], figures: Sequence[Published]
) -> tuple[LengthSummary, ...]:
    trained = {(row.family, row.length) for row in trials[0].evaluation.rows if row.trained}
    places: list[tuple[str, Place | None]] = [(metric, place) for place in trials[0].places]
    if metric in ERROR_RATES:
        places = [(rate, None) for rate in sorted(ERROR_RATES, key=lambda rate: rate != metric)]
    summaries = []
    for name, place in places:
        family, length = place or (RANDOM, None)
        values = _by_seed(name, place, trials)
        if not values:
            continue
        others = _by_seed(name, place, baseline)
        published = [item.values[length] for item in figures if length in item.values and family == RANDOM]
        differences = [value - others[seed] for seed, value in values.items() if seed in others]
        most = _most(name)
        summaries.append(
            LengthSummary(
                metric=name,
                family=family,
                length=length,
                trained=(family, length) in trained,
                values=values,
                spread=spread(list(values.values()), 0.0, most),
                difference=spread(differences, -most, most) if differences else None,
                published=next(iter(published), None),
            )
        )
    return tuple(summaries)


def _most(metric: str) -> float:
    """The largest possible value: most metrics are shares."""
    return math.inf if metric in ("entropy", "ser") else 1.0


def _by_seed(metric: str, place: Place | None, trials: Sequence[TrialResult]) -> dict[int, float]:
    """The values of the trials that have one."""
    values = {trial.seed: trial.value(metric, place) for trial in trials}
    return {seed: value for seed, value in values.items() if value is not None}


def _word_by_word(baseline: Sequence[TrialResult], trials: Sequence[TrialResult]) -> PairedDifference | None:
    """The paired difference over the seeds that both have; None if there are none, or if they read other words."""
    by_seed = [{trial.seed: trial.evaluation for trial in side} for side in (baseline, trials)]
    seeds = [seed for seed in by_seed[0] if seed in by_seed[1]]
    try:
        return paired_difference(*([side[seed] for seed in seeds] for side in by_seed)) if seeds else None
    except ValueError:
        return None
