"""The results of an experiment, as tables for people and as flat records for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from seq2attn.comparison.experiment import ERROR_RATES, METRICS
from seq2attn.comparison.groups import GroupResult, Ranked, most_of, rank, read_groups
from seq2attn.comparison.plan import Plan
from seq2attn.display.table import Cell, Column, Table
from seq2attn.inference.results import worst_place
from seq2attn.parts import RANDOM

NEVER_SEEN = "* never seen in training"
OVER_SEEDS = "means over seeds with 95 % intervals (Student's); differences seed by seed"
OVER_WORDS = (
    "intervals over words, for these models; better: words that more seeds of the group get right than of its baseline; "
    "p: McNemar's exact test of these words"
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """An experiment's results, ready for tables and figures."""

    name: str
    metric: str
    groups: tuple[GroupResult, ...]  # those with at least one trial done
    failed: Mapping[str, str] = field(default_factory=dict)  # the trials that failed: run -> reason
    busy: tuple[str, ...] = ()  # the trials that another process trains, which are left to it
    stopped_by: int | None = None  # the number of the signal that stopped it

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())

    def tables(self) -> list[Table]:
        """What people see: a table for each group, one of all groups with their ranking, and of error rates one of words."""
        words = [self._table_of_words()] if any(group.word_by_word for group in self.groups) else []
        return [*map(self._table_of_group, self.groups), self._table_of_all(), *words]

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
        return rank(overall, lowest_first=self.metric in ERROR_RATES, most=most_of(self.metric))

    # ---- for people ----

    def _table_of_group(self, group: GroupResult) -> Table:
        worst, best = ("least", "most") if self.metric == "entropy" else ("worst", "best")
        columns = [
            Column("family"),
            Column("length" if group.main and group.main[0].length is not None else "rate", right=True),
            Column("mean", right=True),
            Column("sd", right=True, optional=True),
            Column(worst, right=True),
            Column(f"{worst} seed", right=True, optional=True, form="d"),
            Column(best, right=True, optional=True),
            Column("published", right=True, optional=True),
            Column("difference", right=True, form="+.3f"),
        ]
        rows: list[list[Cell]] = []
        for row in group.lengths:
            worst_seed, best_seed = row.worst_seed, row.best_seed
            several = row.spread.count > 1
            extremes = [row.values[worst_seed], worst_seed, row.values[best_seed]] if several else [None] * 3
            family, key = row.family if self.has_families else None, f"{row.key}{'' if row.trained else '*'}"
            rows.append([family, key, row.spread, row.spread.deviation, *extremes, row.published, row.difference])
        against = "the baseline" if group.baseline is None else f"against {group.baseline}"
        least = None if self.metric == "entropy" else worst_place(group.least)
        notes = [] if least is None else [f"worst family: {least[0]}, {group.least[least]:.3f} at length {least[1]}"]
        return _without_empty(columns, rows, f"{group.label}: {self.metric_label}, {against}", notes)

    def _table_of_all(self) -> Table:
        columns = [
            Column("rank", right=True),
            Column("group"),
            Column("trials", right=True),
            Column("mean", right=True),
            Column("behind the best", right=True, form="+.3f"),
            Column("parameters", right=True, optional=True),
            Column("loss", right=True, form=".4f", optional=True),
            Column("published loss", right=True, form=".4f", optional=True),
            Column("tokens/s", right=True, form=",.0f", optional=True),
        ]
        ranking = {ranked.group: ranked for ranked in self.ranking}
        rows: list[list[Cell]] = []
        for group in sorted(self.groups, key=lambda group: ranking[group.label].rank if group.label in ranking else 0):
            ranked, loss = ranking.get(group.label), group.loss.mean if group.loss else None
            place, mean, behind = (ranked.rank, ranked.spread, ranked.difference) if ranked else (None, None, None)
            about = [group.parameters, loss, group.published_loss, group.tokens_per_second]
            rows.append([place, group.label, f"{len(group.trials)} of {group.planned}", mean, behind, *about])
        seen = all(row.trained for group in self.groups for row in group.lengths)
        notes = [*_verdict(self.ranking), OVER_SEEDS, *([] if seen else [NEVER_SEEN])]
        over = "" if self.metric in ERROR_RATES else ", mean over the lengths"
        title = f"{self.name}: {self.metric_label}{over}" if self.ranking else self.name
        return _without_empty(columns, rows, title, notes)

    def _table_of_words(self) -> Table:
        columns = [
            Column("group"),
            Column("WER", right=True, form="+.3f"),
            Column("SER", right=True, form="+.3f", optional=True),
            Column("better", right=True),
            Column("worse", right=True),
            Column("p", right=True),
        ]
        by_group = [(group.label, group.word_by_word) for group in self.groups if group.word_by_word is not None]
        rows: list[list[Cell]] = [
            [label, of.wer, of.ser, of.only_other, of.only_one, of.p_value] for label, of in by_group
        ]
        return Table(columns, rows, "word by word, against the baseline", [OVER_WORDS])

    # ---- for programs ----

    def records(self) -> list[dict[str, Any]]:
        """A flat record for each group, family of strings and length: statistics over seeds."""
        ranking = {ranked.group: ranked for ranked in self.ranking}
        found = []
        for group in self.groups:
            ranked, words, loss = ranking.get(group.label), group.word_by_word, group.loss
            for row in group.lengths:
                found.append(
                    {
                        "group": group.label,
                        **{key: _plain(value) for key, value in group.values.items()},
                        "family": row.family,
                        "length": row.length,
                        "metric": row.metric,
                        "trained": row.trained,
                        "seeds": row.spread.count,
                        **_ends("mean", row.spread),
                        "sd": row.spread.deviation,
                        "worst": row.values[row.worst_seed],
                        "worst_seed": row.worst_seed,
                        "best": row.values[row.best_seed],
                        "best_seed": row.best_seed,
                        "baseline": group.baseline,
                        **_ends("difference", row.difference),
                        "published": row.published,
                        "rank": ranked and ranked.rank,
                        **_ends("overall", ranked and ranked.spread),
                        **_ends("over_words", getattr(words, row.metric, None)),
                        "words_better": words and words.only_other,
                        "words_worse": words and words.only_one,
                        "p": words and words.p_value,
                        "loss": loss and loss.mean,
                        "published_loss": group.published_loss,
                        "parameters": group.parameters,
                        "tokens_per_second": group.tokens_per_second,
                    }
                )
        return found

    def trial_records(self) -> list[dict[str, Any]]:
        """A flat record for each trial, family of strings, length and metric."""
        return [
            {
                "run": trial.run,
                "group": group.label,
                **{key: _plain(value) for key, value in group.values.items()},
                "seed": trial.seed,
                **asdict(row),
                "parameters": trial.parameters["total"],
                "last_loss": trial.losses[-1][1] if trial.losses else None,
                "tokens_per_second": trial.tokens_per_second,
            }
            for group in self.groups
            for trial in group.trials
            for row in trial.evaluation.rows
            if row.length is None or (row.family, row.length) in trial.places
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
    return Comparison(plan.name, plan.metric, read_groups(plan))


def _without_empty(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], title: str, notes: Sequence[str]
) -> Table:
    """The table without columns in which all cells are None."""
    kept = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return Table([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], title, notes)


def _verdict(ranking: Sequence[Ranked]) -> list[str]:
    """Which group is the best, and whether these seeds show it."""
    best = " and ".join(ranked.group for ranked in ranking if ranked.rank == 1)
    near = [ranked.group for ranked in ranking if ranked.rank > 1 and ranked.may_be_best]
    if not ranking:
        return []
    if all(ranked.spread.count == 1 for ranked in ranking):
        return [f"Best: {best}. With one seed each, the order may be chance; more seeds would show it."]
    unsure = f" These seeds do not show that it is better than {', '.join(near)}." if near else ""
    return [f"Best: {best}.{unsure}"]


def _ends(name: str, number: Any) -> dict[str, float | None]:
    """A number and the ends of its interval, each by its own name."""
    ends = {name: "value", f"{name}_low": "low", f"{name}_high": "high"}
    return {key: getattr(number, attribute, None) for key, attribute in ends.items()}


def _plain(value: Any) -> Any:
    """A config value in a record: a part with its options as JSON text."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
