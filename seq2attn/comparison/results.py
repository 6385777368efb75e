"""The results of an experiment, as tables for people and as flat records for programs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seq2attn.comparison.groups import Group, read_groups
from seq2attn.comparison.plan import Plan
from seq2attn.display.table import Column, Number, Table, Tabular
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import RANDOM
from seq2attn.results.evaluation import lines_left_out
from seq2attn.results.metrics import METRICS
from seq2attn.results.rows import worst_place

NOTE = (
    "overall: mean over the lengths; means over seeds with 95 % intervals (Student's); "
    "differences seed by seed"
)
ALL = (
    Number("rank"),
    Column("group"),
    Number("trials"),
    Number("overall"),
    Number("behind the best", key="behind", form="+.3f"),
    Number("parameters", optional=True),
)


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """An experiment's results, ready for tables and figures."""

    name: str
    metric: str
    groups: tuple[Group, ...]  #: those with at least one trial done
    failed: Mapping[str, str] = field(default_factory=dict)  #: run -> why its trial failed
    busy: tuple[str, ...] = ()  #: the trials that another process is training
    stopped_by: int | None = None  #: the number of the signal that stopped it
    planned: int = 0  #: how many trials the experiment has
    fixed: Mapping[str, Any] = field(default_factory=dict)
    #: what the experiment set in every trial: config key -> value

    @property
    def has_only_trained_lengths(self) -> bool:
        """True if all the lengths that were measured occur in training."""
        return all(row.trained for group in self.groups for row in group.rows)

    # ---- for people ----

    def tables(self) -> list[Table]:
        """Return a table for each group, and one of all groups with their ranking."""
        return [*map(self._group_table, self.groups), self.ranking()]

    def _group_table(self, group: Group) -> Table:
        """Return the table of one group: a row for each length, or for each error rate."""
        metric = METRICS[self.metric]
        families = {row.family for row in group.rows}
        columns = [
            # if all strings are random (or words of a file: None), it has no heading, without which
            # people do not see it
            Column("" if families <= {RANDOM, None} else "family", key="family"),
            Number("rate" if metric.of_file else "length", key="length_or_rate"),
            Number("mean"),
            Number("sd", optional=True),
            Number("worst"),
            Number("worst seed", optional=True, form="d"),
            Number("best", optional=True),
            Number("difference", form="+.3f"),
        ]
        rows = []
        worst = {}  # (family, length) -> the value of the worst seed, as a note shows it
        for row in group.rows:
            label = f"{row.length_or_rate}{'' if row.trained else '*'}"
            rows.append({**vars(row), "length_or_rate": label})
            if row.length:  # an error rate has none
                worst[row.family, row.length] = row.worst
        notes = []
        place = worst_place(worst)  # None if no family is worse than another, as with one alone
        # of a metric such as entropy, neither lower nor higher is better: no family is the worst
        if place and metric.lower_is_better is not None:
            family, length = place
            notes.append(f"worst family: {family}, {worst[place]:.3f} at length {length}")
        against = f"against {group.baseline}" if group.baseline else "the baseline"
        title = f"{group.label}: {metric.heading}, {against}"
        return Table.of_records(rows, columns, title, notes)

    def ranking(self) -> Table:
        """Return the table of all groups, the best first. Its notes say which is the best, how the
        numbers are computed, what a star beside a length means, and what the numbers lack: failed
        and busy trials, lines left out.
        """
        rows = []
        # groups without a rank, which lack values, come last
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
        if not self.has_only_trained_lengths:
            notes.append("* never seen in training")
        notes += self._left_out()
        title = f"{self.name}: {METRICS[self.metric].heading}"
        return Table.of_records(rows, ALL, title, notes)

    def paper_table(self) -> Table:
        """Return a table for a paper: each group's mean over seeds at each length, or of each error
        rate, and its difference from the baseline, seed by seed.
        """
        metric = METRICS[self.metric]
        form = ".1%" if metric.is_share or metric.of_file else ".3f"  # .3f: entropy, in nats
        columns = [
            Column("group"),
            Number("rate" if metric.of_file else "length", key="length_or_rate"),
            Number("seeds", form="d"),
            Number("n"),
            Number("mean, %" if form == ".1%" else "mean", key="mean", form=form),
            Number("difference", form=f"+{form}"),
            Column("p", form=".2g"),
        ]
        rows = []
        for group in self.groups:
            for row in group.rows:
                if row.metric == "cut_off":
                    continue  # says how the model fails; papers report WER and SER
                about = {
                    "group": group.label,
                    "length_or_rate": str(row.length_or_rate),
                    "n": group.trials[0].evaluation.rows[0].samples,  # the same in every row
                    "p": row.difference and row.difference.p_value,
                }
                rows.append({**vars(row), **about})
        text = "means over seeds with 95 % intervals (Student's); n: words or strings"
        notes = [f"{metric.heading}: {text}"]
        baselines = dict.fromkeys(group.baseline for group in self.groups if group.baseline)
        if baselines:
            names = ", ".join(map(str, baselines))
            notes.append(f"difference: from {names}, seed by seed; p: of its paired t-test")
        notes += self._left_out()
        return Table.of_records(rows, columns, self.name, notes)

    def _left_out(self) -> list[str]:
        """Return sentences on malformed lines of the dev files, which all trials of a group read
        alike.
        """
        return lines_left_out(group.trials[0].evaluation for group in self.groups)

    def _verdict(self) -> str:
        """Return sentences that say which group is the best, and whether these seeds show it."""
        if len(self.groups) < 2:
            return "Nothing is ranked: fewer than two groups are done."
        best, near = [], []
        for group in self.groups:
            if group.ranked.rank == 1:
                best.append(group.label)
            elif group.ranked.not_worse_than_best:
                near.append(group.label)
        if not best:
            return "These numbers have no best: neither more nor less is better."
        verdict = f"Best: {' and '.join(best)}."
        if max(len(group.overall) for group in self.groups) == 1:
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

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of `table` as flat records."""
        return self.table().records()

    def table(self) -> Table:
        """Return one table for programs: a row for each group, family of strings and length, or
        error rate of a file, over seeds.
        """
        rows = []
        for group in self.groups:
            for row in group.rows:
                difference = row.difference
                record = {
                    **self._about(group),
                    **vars(row),
                    "effect_size": difference and difference.effect_size,
                    "p_value": difference and difference.p_value,
                    "baseline": group.baseline,
                    **vars(group.ranked),
                    "parameters": group.trials[0].parameters,
                }
                del record["by_seed"]  # not a flat value; `trial_records` has these numbers
                del record["not_worse_than_best"]  # follows from `behind`
                rows.append(record)
        return Table.of_records(rows)

    def trial_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each trial, family of strings, length and metric: a row of the
        trial's evaluation, with what tells its group from others.
        """
        records = []
        for group in self.groups:
            for trial in group.trials:
                about = {
                    "run": trial.run,
                    **self._about(group),
                    "seed": trial.seed,
                    "parameters": trial.parameters,
                }
                records += [{**about, **vars(row)} for row in trial.evaluation.rows]
        return records

    def _about(self, group: Group) -> dict[str, Any]:
        """Return what tells a group from others, in this comparison and beyond; None for what only
        other groups have.
        """
        about = {"group": group.label, **self.fixed}
        for other in self.groups:
            about |= dict.fromkeys(other.values)
        return {**about, **group.values}

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON: what was set and measured of each group and trial, and
        which trials failed or are busy. Left out: how far this call came, `planned` and
        `stopped_by`.
        """
        return {
            "experiment": self.name,
            "metric": self.metric,
            "groups": self.records(),
            "trials": self.trial_records(),
            "failed": dict(self.failed),
            "busy": list(self.busy),
        }


def gather(plan: Plan) -> Comparison:
    """Return the results of the trials that are done."""
    groups = read_groups(plan)
    return Comparison(plan.name, plan.metric, groups, planned=len(plan.trials), fixed=plan.fixed)
