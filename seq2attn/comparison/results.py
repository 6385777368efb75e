"""What an experiment's trials measured, over seeds: summarised by group and ranked, as tables for
people and as flat records for programs.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import Trial, find_evaluation
from seq2attn.display.table import Column, Number, Table, Tabular
from seq2attn.errors import Seq2AttnError
from seq2attn.results.evaluation import Evaluation, lines_left_out
from seq2attn.results.metrics import METRICS, RATES, Place, worst_note
from seq2attn.results.statistics import Ranked, mean_difference, mean_over_seeds, rank
from seq2attn.runs.records import Metrics
from seq2attn.runs.run import read_metrics

NOTE = (
    "overall: mean over the lengths; means over seeds with 95 % intervals (Student's); "
    "differences seed by seed"
)
RANKING = (
    Number("rank"),
    Column("group"),
    Number("trials"),
    Number("overall"),
    Number("behind the best", key="behind", form="+.3f"),
    Number("parameters", optional=True),
)


class TrialResult(NamedTuple):
    """What one run measured and logged."""

    run: str
    seed: int
    parameters: int | None
    """the number of all; None if it is unknown"""
    evaluation: Evaluation
    metrics: Metrics


Record = dict[str, Any]
"""plain values by the names of their columns"""


class Group(NamedTuple):
    """The trials that differ only in their seed."""

    label: str
    values: Mapping[str, Any]  # what varies except the seed: config key -> value
    score: str  # its score function, which decides its colour
    baseline: str | None  # label of the group to compare with; None for the baseline itself
    planned: int  # number of trials, some of which may not be done
    trials: Sequence[TrialResult]
    about: Record
    """its label, and what tells it from groups here and in other comparisons: config key -> value,
    None for what only others have"""
    rows: list[Record]
    """all that tables show of each row of `_summaries`"""
    ranked: Ranked

    @property
    def main(self) -> list[Record]:
        """The rows of the first family: random strings, if they were measured."""
        return [row for row in self.rows if row["family"] == self.rows[0]["family"]]


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """An experiment's results, ready for tables and figures."""

    name: str
    metric: str
    groups: Sequence[Group]  #: those with at least one trial done
    failed: Mapping[str, str] = field(default_factory=dict)  #: run -> why its trial failed
    busy: tuple[str, ...] = ()  #: the trials that another process is training
    stopped_by: int | None = None  #: the number of the signal that stopped it
    planned: int = 0  #: how many trials the experiment has

    @property
    def rows(self) -> list[Record]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]

    # ---- for people ----

    def tables(self) -> list[Table]:
        """Return a table for each group, and one of all groups with their ranking."""
        return [*map(self._group_table, self.groups), self.ranking()]

    def _group_table(self, group: Group) -> Table:
        """Return the table of one group: a row for each family of strings and length, or for each
        error rate of a file. Where a terminal is too narrow, its optional columns are left out.
        """
        metric = METRICS[self.metric]
        columns = [
            *self._place_columns(),
            Number("mean"),
            Number("sd", optional=True),
            Number("worst"),
            Number("worst seed", optional=True, form="d"),
            Number("best", optional=True),
            Number("difference", form="+.3f"),
        ]
        notes = []
        if metric.lower_is_better is not None:  # of entropy, no family is the worst
            worst = {(row["family"], row["length"]): row["worst"] for row in group.rows}
            notes = worst_note(worst)
        # the difference, if the group has one, is that from its baseline
        against = f"against {group.baseline}" if group.baseline else "the baseline"
        title = f"{group.label}: {metric.heading}, {against}"
        return Table.of_records(group.rows, columns, title, notes)

    def _place_columns(self) -> list[Column]:
        """Return the columns that say what a row of a group was measured on."""
        families = {row["family"] for row in self.rows}
        what = "rate" if METRICS[self.metric].of_file else "length"
        # without a heading, people do not see the column of the only family
        family = Column("family" if len(families) > 1 else "", key="family")
        return [family, Number(what, key="length_or_rate")]

    def ranking(self) -> Table:
        """Return the table of all groups, the best first. Its notes say which is the best, how the
        numbers are computed, what a star beside a length means, and what the numbers lack: failed
        trials, those that another process trains, and malformed lines of files.
        """
        rows = []
        # groups without a rank come last: those that lack values, or all if nothing is ranked
        for group in sorted(self.groups, key=lambda group: group.ranked.rank or math.inf):
            row = {
                "group": group.label,
                "trials": f"{len(group.trials)} of {group.planned}",
                "parameters": group.trials[0].parameters,
                **vars(group.ranked),
            }
            rows.append(row)
        notes = [self._verdict(), NOTE]
        if self.failed:
            # how many failed, then a line for each
            headline, first, *_ = self.failure().message.splitlines()
            notes.append(f"{headline}, the first of them {first.strip()}")
        if self.busy:
            names = ", ".join(self.busy)
            notes.append(f"trained by other processes, and shown once they are done: {names}")
        if not all(row["trained"] for row in self.rows):
            notes.append("* never seen in training")
        # the first trial of each group: the others read the same files
        notes += lines_left_out(group.trials[0].evaluation for group in self.groups)
        title = f"{self.name}: {METRICS[self.metric].heading}"
        return Table.of_records(rows, RANKING, title, notes)

    def paper_table(self) -> Table:
        """Return a table for a paper: each group's mean over seeds at each length, or of each error
        rate, and its difference from the baseline, seed by seed.
        """
        metric = METRICS[self.metric]
        # shares and error rates in percent; otherwise it is entropy, in nats
        form = ".1%" if metric.largest == 1 or metric.of_file else ".3f"
        columns = [
            Column("group"),
            *self._place_columns(),
            Number("seeds", form="d"),
            Number("n", key="samples"),
            Number("mean, %" if form == ".1%" else "mean", key="mean", form=form),
            Number("difference", form=f"+{form}"),
            Column("p", key="p_value", form=".2g"),
        ]
        # how often the model was cut off says how it fails; papers report WER and SER
        rows = [row for row in self.rows if row["metric"] != "cut_off"]
        text = "means over seeds with 95 % intervals (Student's); n: words or strings"
        notes = [f"{metric.heading}: {text}"]
        if baselines := sorted({group.baseline for group in self.groups if group.baseline}):
            names = ", ".join(baselines)
            notes.append(f"difference: from {names}, seed by seed; p: of its paired t-test")
        # the first trial of each group: the others read the same files
        notes += lines_left_out(group.trials[0].evaluation for group in self.groups)
        return Table.of_records(rows, columns, self.name, notes)

    def _verdict(self) -> str:
        """Return sentences that say which group is the best, and whether these seeds show it."""
        if len(self.groups) < 2:
            return "Nothing is ranked: fewer than two groups are done."
        if METRICS[self.metric].lower_is_better is None:
            return "These numbers have no best: neither more nor less is better."
        best, near = [], []
        for group in self.groups:
            if group.ranked.rank == 1:
                best.append(group.label)
            elif group.ranked.rank and group.ranked.may_be_best:
                near.append(group.label)
        if not best:  # as with the metric `alignment` of a task that has no ideal alignment
            return "Nothing is ranked: no group has a value at every length."
        verdict = f"Best: {' and '.join(best)}."
        if max(len(group.trials) for group in self.groups) == 1:
            verdict += " With one seed each, the order may be chance; more seeds would show it."
        elif near:
            verdict += f" These seeds do not show that it is better than {', '.join(near)}."
        return verdict

    def failure(self) -> Seq2AttnError:
        """Return an error that lists the trials that failed."""
        lines = [f"{len(self.failed):,} of {self.planned:,} trials failed"]
        lines += [f"  {trial}: {reason}" for trial, reason in self.failed.items()]
        hint = "The same command or call retries them."
        return Seq2AttnError("\n".join(lines), hint=hint, exit_code=1)

    # ---- for programs ----

    def records(self) -> list[Record]:
        """Return the rows of `table` as flat records."""
        return self.table().records()

    def table(self) -> Table:
        """Return one table for programs: a row for each group, family of strings and length, or
        error rate of a file, over seeds.
        """
        rows = list(map(dict, self.rows))
        for row in rows:
            del row["label"], row["length_or_rate"]  # for people
        return Table.of_records(rows)

    def trial_records(self) -> list[Record]:
        """Return a flat record for each trial, family of strings, length and metric: a row of the
        trial's evaluation, with what tells its group from others.
        """
        records = []
        for group in self.groups:
            for trial in group.trials:
                about = {
                    "run": trial.run,
                    **group.about,
                    "seed": trial.seed,
                    "parameters": trial.parameters,
                }
                records += [{**about, **vars(row)} for row in trial.evaluation.rows]
        return records

    def to_json(self) -> Record:
        """Return plain values for JSON: all but what says how far this call came, as `planned` and
        `stopped_by` do.
        """
        return {
            "experiment": self.name,
            "metric": self.metric,
            "groups": self.records(),
            "trials": self.trial_records(),
            "failed": self.failed,
            "busy": self.busy,
        }


# ---- from the runs' files ----


def gather(plan: Plan) -> Comparison:
    """Return the results of the trials that are done, by group; several groups are ranked, if
    either more or less is better.
    """
    results: dict[str, list[TrialResult]] = defaultdict(list)  # by the label of the group
    planned: dict[str, list[Trial]] = defaultdict(list)
    for trial in plan.trials:
        planned[trial.group].append(trial)
        if saved := find_evaluation(trial):
            parameters = (saved.parameters or {}).get("total")
            result = TrialResult(
                trial.name, trial.config.seed, parameters, saved, read_metrics(trial.run)
            )
            results[trial.group].append(result)
    metric = METRICS[plan.metric]
    ranks: dict[str, Ranked] = {}
    if len(results) > 1 and metric.lower_is_better is not None:  # None: neither is better
        overall = {label: _overall(plan.metric, trials) for label, trials in results.items()}
        ranks = rank(overall, metric.largest, lower_is_better=metric.lower_is_better)
    # what varies in any group -> None, for the groups that lack it
    lacking = dict.fromkeys(key for trial in plan.trials for key in trial.values)
    groups = []
    for label, trials in results.items():
        first = planned[label][0]
        about = {"group": label, **plan.fixed, **lacking, **first.values}
        ranked = ranks.get(label, Ranked())  # without a rank if it lacks values, or none is ranked
        named = plan.baselines[label]
        baseline = named if named != label else None  # no group is compared with itself
        of_group = {"baseline": baseline, **vars(ranked), "parameters": trials[0].parameters}
        summaries = _summaries(plan.metric, trials, results.get(baseline or "", ()))
        group = Group(
            label=label,
            values=first.values,  # those of all its trials
            score=first.config.score_name,
            baseline=baseline,
            planned=len(planned[label]),
            trials=trials,
            about=about,
            rows=[{**about, **row, **of_group} for row in summaries],
            ranked=ranked,
        )
        groups.append(group)
    return Comparison(plan.name, plan.metric, groups, planned=len(plan.trials))


def _summaries(
    metric_name: str, trials: Sequence[TrialResult], baseline: Sequence[TrialResult]
) -> Iterator[Record]:
    """Yield a group's row over its seeds for each family and length; if the metric is an error rate
    of a file, one row for each of these rates instead, that of `metric_name` first.

    A row has what is measured (`label`: the length, or the name of the error rate; for people, in
    `length_or_rate`, with a star if training has not that length), how many `samples` (strings or
    words) and `seeds`, the mean with its interval, the worst and best seed (the first on a tie; of
    entropy, where neither is better, those with the lowest and the highest), and the difference
    from the baseline's values with the same seeds, None for the baseline itself.

    trials: those of the group. baseline: those of the group to compare with; none for the baseline
    itself.
    """
    names = [metric_name]
    if metric_name in RATES:
        names = list(dict.fromkeys([metric_name, *RATES]))  # each once
    # alike in all trials of a group, which have one config but for the seed
    measured = {row.place: row for row in trials[0].evaluation.rows}
    for name, place in itertools.product(names, measured):
        metric = METRICS[name]
        family, length = place  # no length: all words of the dev file
        # what no seed has a value of has no row
        if values := _by_seed(name, place, trials):
            # the interval is cut to what is possible: a metric has values from 0 to `largest`
            mean = mean_over_seeds(values.values(), 0.0, metric.largest)
            others = _by_seed(name, place, baseline)
            worst_seed = min(values, key=values.__getitem__)
            best_seed = max(values, key=values.__getitem__)
            if metric.lower_is_better:
                worst_seed, best_seed = best_seed, worst_seed
            difference = mean_difference(values, others, metric.largest)
            label = length or RATES[name]
            trained = measured[place].trained
            yield {
                "label": label,
                "length_or_rate": f"{label}{'' if trained else '*'}",
                "family": family,
                "length": length,
                "metric": name,
                "samples": measured[place].samples,
                "trained": trained,
                "seeds": mean.count,
                "mean": mean,
                "sd": mean.deviation,
                "worst": values[worst_seed],
                "worst_seed": worst_seed,
                "best": values[best_seed],
                "best_seed": best_seed,
                "difference": difference,
                "effect_size": difference and difference.effect_size,
                "p_value": difference and difference.p_value,
            }


def _overall(metric: str, trials: Sequence[TrialResult]) -> dict[int, float]:
    """Return the mean of a metric over all families and lengths, or, of a file, its one value, by
    seed. A seed without a value is left out.
    """
    means = {}
    for trial in trials:
        values = [row.value for row in trial.evaluation.rows if row.metric == metric]
        if values:
            means[trial.seed] = fmean(values)
    return means


def _by_seed(metric: str, place: Place, trials: Sequence[TrialResult]) -> dict[int, float]:
    """Return what trials measured of a metric at a family and length, by seed."""
    family, length = place
    rows = {trial.seed: trial.evaluation.get(metric, length, family) for trial in trials}
    return {seed: row.value for seed, row in rows.items() if row}
