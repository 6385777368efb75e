"""What the trials of each group measured, over seeds: read from the runs' files, summarised and ranked."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq2attn.comparison.experiment import ERROR_RATES, Published
from seq2attn.comparison.plan import Plan, name_values
from seq2attn.comparison.trial import Trial, find_evaluation
from seq2attn.inference.paired import PairedDifference, paired_difference
from seq2attn.inference.results import Evaluation, Place
from seq2attn.inference.statistics import Spread, spread
from seq2attn.parts import RANDOM
from seq2attn.runs.logs import read_metrics

UNPUBLISHED = Published(where={}, values={})
Curve = tuple[tuple[int, float], ...]  # (step, value), step by step


@dataclass(frozen=True)
class TrialResult:
    """What one run measured."""

    run: str
    seed: int
    evaluation: Evaluation
    places: Sequence[Place]  # the families of strings and lengths that the comparison is about
    parameters: Mapping[str, int]  # by part, and their total
    losses: Curve  # training loss
    entropies: Curve  # mean attention entropy over the trained lengths, at each evaluation of training
    tokens_per_second: float | None  # target tokens per second, the median over training


@dataclass(frozen=True)
class LengthSummary:
    """One group at one length of a family of strings, or by an error rate on all words of a file, over its seeds."""

    metric: str
    family: str
    length: int | None  # None: all words of the dev file
    trained: bool
    values: Mapping[int, float]  # the metric by seed
    spread: Spread
    difference: Spread | None  # of the metric from the baseline's with the same seed; None for the baseline itself
    published: float | None

    @property
    def key(self) -> str:
        """The length, or the name of the error rate."""
        return self.metric if self.length is None else str(self.length)

    @property
    def worst_seed(self) -> int:
        """The seed with the lowest value, or the highest error rate; the first on a tie."""
        return min(self.values, key=lambda seed: (self._goodness(seed), seed))

    @property
    def best_seed(self) -> int:
        """The seed with the highest value, or the lowest error rate; the first on a tie."""
        return min(self.values, key=lambda seed: (-self._goodness(seed), seed))

    def _goodness(self, seed: int) -> float:
        return -self.values[seed] if self.metric in ERROR_RATES else self.values[seed]


@dataclass(frozen=True)
class GroupResult:
    """The trials that differ only in their seed."""

    label: str
    values: Mapping[str, Any]  # what varies except the seed: config key -> value
    words: Mapping[str, str]  # the values as labels show them
    score: str  # its score function, which decides its colour
    baseline: str | None  # the label of the group that it is compared with; None for the baseline itself
    planned: int  # number of trials, some of which may not be done
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
class Ranked:
    """A group's place among all, by the metric's mean over the lengths."""

    group: str
    rank: int  # from 1; groups with the same mean share a rank
    spread: Spread  # over seeds
    difference: Spread | None
    """from the best group, seed by seed, so on average not better; None for the best itself, and without a common seed"""
    may_be_best: bool
    """whether these seeds leave open that the group is as good as the best: its difference's interval has 0 in it"""


def rank(
    values: Mapping[str, Mapping[int, float]], *, lowest_first: bool = False, most: float = 1.0
) -> tuple[Ranked, ...]:
    """Groups with their numbers (0 to `most`) by seed -> the groups, the best first: the largest, or the smallest."""
    sign = 1 if lowest_first else -1
    means = {group: spread(list(by_seed.values()), 0.0, most) for group, by_seed in values.items() if by_seed}
    order = sorted(means, key=lambda group: sign * means[group].mean)
    ranked = []
    for group in order:
        place = 1 + sum(sign * other.mean < sign * means[group].mean for other in means.values())
        difference = None if group == order[0] else _difference(values[group], values[order[0]], most)
        end = None if difference is None else difference.low if lowest_first else difference.high
        ranked.append(Ranked(group, place, means[group], difference, place == 1 or end is None or sign * end <= 0))
    return tuple(ranked)


def _difference(values: Mapping[int, float], others: Mapping[int, float], most: float) -> Spread | None:
    """Of values by seed from others with the same seed; None without a common seed."""
    differences = [value - others[seed] for seed, value in values.items() if seed in others]
    return spread(differences, -most, most) if differences else None


def read_groups(plan: Plan) -> tuple[GroupResult, ...]:
    """The groups of `plan` that have a trial done, with their results by its metric."""
    done = {
        label: [result for trial in trials if (result := _read_trial(trial)) is not None]
        for label, trials in plan.groups.items()
    }
    groups = []
    for label, trials in plan.groups.items():
        if not done[label]:
            continue
        first, baseline = trials[0], plan.baseline_of(label)
        others = [] if baseline == label else done[baseline]
        published = plan.published.get(label, UNPUBLISHED)
        groups.append(
            GroupResult(
                label=label,
                values=first.values,
                words=name_values(first.values),
                score=first.config.score_name,
                baseline=None if baseline == label else baseline,
                planned=len(trials),
                trials=tuple(done[label]),
                lengths=tuple(_summaries(plan.metric, done[label], others, published.values)),
                published_loss=published.loss,
                word_by_word=_word_by_word(others, done[label]) if plan.metric in ERROR_RATES else None,
            )
        )
    return tuple(groups)


def _read_trial(trial: Trial) -> TrialResult | None:
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
    metric: str, trials: Sequence[TrialResult], baseline: Sequence[TrialResult], published: Mapping[int, float]
) -> Iterator[LengthSummary]:
    """A row for each family and length, or by an error rate one for each rate, the metric's first."""
    rates = [(rate, RANDOM, None) for rate in sorted(ERROR_RATES, key=lambda rate: rate != metric)]
    for name, family, length in rates if metric in ERROR_RATES else [(metric, *place) for place in trials[0].places]:
        rows, others = (
            {trial.seed: row for trial in side if (row := trial.evaluation.get(name, length, family)) is not None}
            for side in (trials, baseline)
        )
        if rows:
            values = {seed: row.value for seed, row in rows.items()}
            yield LengthSummary(
                metric=name,
                family=family,
                length=length,
                trained=rows[next(iter(rows))].trained,
                values=values,
                spread=spread(list(values.values()), 0.0, most_of(name)),
                difference=_difference(values, {seed: row.value for seed, row in others.items()}, most_of(name)),
                published=published.get(length) if length is not None and family == RANDOM else None,
            )


def most_of(metric: str) -> float:
    """The largest possible value of a metric: most are shares."""
    return math.inf if metric in ("entropy", "ser") else 1.0


def _word_by_word(baseline: Sequence[TrialResult], trials: Sequence[TrialResult]) -> PairedDifference | None:
    """The paired difference over the seeds that both have; None if there are none, or if they read other words."""
    by_seed = [{trial.seed: trial.evaluation for trial in side} for side in (baseline, trials)]
    seeds = [seed for seed in by_seed[0] if seed in by_seed[1]]
    try:
        return paired_difference(*([side[seed] for seed in seeds] for side in by_seed)) if seeds else None
    except ValueError:
        return None
