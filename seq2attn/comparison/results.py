"""The results of an experiment, as tables for people and as flat records for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from seq2attn.comparison.experiment import ERROR_RATES, METRICS
from seq2attn.comparison.groups import Group, read_groups
from seq2attn.comparison.plan import Plan
from seq2attn.display.table import Column, Table
from seq2attn.inference.results import worst_place
from seq2attn.parts import RANDOM

NEVER_SEEN = "* never seen in training"
OVER_SEEDS = "overall: mean over the lengths; means over seeds with 95 % intervals (Student's); differences seed by seed"
ALL = (
    Column("rank", right=True),
    Column("group"),
    Column("trials", right=True),
    Column("overall", right=True),
    Column("behind the best", right=True, key="behind", form="+.3f"),
    Column("parameters", right=True, optional=True),
    Column("loss", right=True, form=".4f", optional=True),
    Column("published loss", right=True, form=".4f", optional=True),
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """An experiment's results, ready for tables and figures."""

    name: str
    metric: str
    groups: tuple[Group, ...]  # those with at least one trial done
    failed: Mapping[str, str] = field(default_factory=dict)  # the trials that failed: run -> reason
    busy: tuple[str, ...] = ()  # the trials that another process trains, which are left to it
    stopped_by: int | None = None  # the number of the signal that stopped it
    planned: int = 0  # trials

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())

    @property
    def has_families(self) -> bool:
        """Whether other strings than random ones were measured."""
        return any(row.family != RANDOM for group in self.groups for row in group.rows)

    # ---- for people ----

    def tables(self) -> list[Table]:
        """A table for each group, and one of all groups with their ranking."""
        return [*map(self._table_of_group, self.groups), self._table_of_all()]

    def _table_of_group(self, group: Group) -> Table:
        worst, best = ("least", "most") if self.metric == "entropy" else ("worst", "best")
        columns = [
            Column("family" if self.has_families else "", key="family"),
            Column("rate" if self.metric in ERROR_RATES else "length", right=True, key="place"),
            Column("mean", right=True),
            Column("sd", right=True, optional=True),
            Column(worst, right=True, key="worst"),
            Column(f"{worst} seed", right=True, optional=True, key="worst_seed", form="d"),
            Column(best, right=True, optional=True, key="best"),
            Column("published", right=True, optional=True),
            Column("difference", right=True, form="+.3f"),
        ]
        rows = [
            {**vars(row), "place": f"{row.length or row.metric}{'' if row.trained else '*'}"}
            for row in group.rows
        ]
        against = "the baseline" if group.baseline is None else f"against {group.baseline}"
        least = None if self.metric == "entropy" else worst_place(group.least)
        notes = (
            []
            if least is None
            else [f"worst family: {least[0]}, {group.least[least]:.3f} at length {least[1]}"]
        )
        return Table.of_records(
            rows, columns, f"{group.label}: {METRICS[self.metric]}, {against}", notes
        )

    def _table_of_all(self) -> Table:
        groups = sorted(self.groups, key=lambda group: group.ranked.rank or 0)
        rows = [
            {
                "group": group.label,
                "trials": f"{len(group.trials)} of {group.planned}",
                **_about(group),
            }
            for group in groups
        ]
        seen = all(row.trained for group in groups for row in group.rows)
        notes = [*self._verdict(), OVER_SEEDS, *([] if seen else [NEVER_SEEN])]
        return Table.of_records(rows, ALL, f"{self.name}: {METRICS[self.metric]}", notes)

    def _verdict(self) -> Iterator[str]:
        """Which group is the best, and whether these seeds show it."""
        ranked = [group for group in self.groups if group.ranked.rank is not None]
        best = " and ".join(group.label for group in ranked if group.ranked.rank == 1)
        near = [
            group.label for group in ranked if group.ranked.may_be_best and group.ranked.rank != 1
        ]
        if any(len(group.overall) > 1 for group in ranked):
            unsure = (
                f" These seeds do not show that it is better than {', '.join(near)}."
                if near
                else ""
            )
            yield f"Best: {best}.{unsure}"
        elif ranked:
            yield f"Best: {best}. With one seed each, the order may be chance; more seeds would show it."

    # ---- for programs ----

    def records(self) -> list[dict[str, Any]]:
        """A flat record for each group, family of strings and length: statistics over seeds."""
        return self.table().records()

    def table(self) -> Table:
        """The same as one table."""
        return Table.of_records(
            [
                {
                    "group": group.label,
                    **group.values,
                    **{name: cell for name, cell in vars(row).items() if name != "by_seed"},
                    "baseline": group.baseline,
                    **_about(group),
                }
                for group in self.groups
                for row in group.rows
            ]
        )

    def trial_records(self) -> list[dict[str, Any]]:
        """A flat record for each trial, family of strings, length and metric."""
        return [
            {
                "run": trial.run,
                "group": group.label,
                **group.values,
                "seed": trial.seed,
                **asdict(row),
                "parameters": trial.parameters,
                "last_loss": trial.loss,
            }
            for group in self.groups
            for trial in group.trials
            for row in trial.evaluation.rows
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "experiment": self.name,
            "metric": self.metric,
            "groups": self.records(),
            "trials": self.trial_records(),
            "failed": dict(self.failed),
            "busy": list(self.busy),
        }


def gather(plan: Plan) -> Comparison:
    """The results of the trials that are done."""
    return Comparison(plan.name, plan.metric, read_groups(plan), planned=len(plan.trials))


def _about(group: Group) -> dict[str, Any]:
    """The numbers of a group of no length in particular."""
    return {
        "rank": group.ranked.rank,
        "overall": group.ranked.overall,
        "behind": group.ranked.behind,
        "parameters": group.trials[0].parameters,
        "loss": group.loss,
        "published_loss": group.published_loss,
    }
