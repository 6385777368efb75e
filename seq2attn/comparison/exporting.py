"""A comparison as plain values: for JSON, and as rows of a CSV file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from seq2attn.comparison.experiment import METRICS
from seq2attn.comparison.results import Comparison, GroupResult, LengthSummary
from seq2attn.parts import RANDOM


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
                "rows": trial.evaluation.records(),
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
        **_by_place({(row.family, row.key): _row_json(row) for row in group.lengths}),
        **({} if group.word_by_word is None else {"word_by_word": group.word_by_word.to_json()}),
    }


def _row_json(row: LengthSummary) -> dict[str, Any]:
    return {
        "length": row.length,
        "trained": row.trained,
        **asdict(row.spread),
        "worst": row.values[row.worst_seed],
        "worst_seed": row.worst_seed,
        "best": row.values[row.best_seed],
        "best_seed": row.best_seed,
        "difference": asdict(row.difference) if row.difference else None,
        "published": row.published,
    }


def _by_place(records: Mapping[tuple[str, int | str], Any]) -> dict[str, Any]:
    """`lengths` has the records of random strings, by length; `families` those of the others, where there are any."""
    found: dict[str, dict[str, Any]] = {RANDOM: {}}
    for (family, length), record in records.items():
        found.setdefault(family, {})[str(length)] = record
    lengths = found.pop(RANDOM)
    return {"lengths": lengths, **({"families": found} if found else {})}


def csv_rows(comparison: Comparison) -> Iterator[list[Any]]:
    """A header, then one row per trial and place, with every metric; error rates have a row of length `all`."""
    keys = list(comparison.groups[0].values) if comparison.groups else []
    family = ["family"] if comparison.has_families else []
    header = ["run", "group", *keys, "seed", *family, "length", "trained", *METRICS, "rank"]
    ranks = {ranked.group: ranked.rank for ranked in comparison.ranking}
    yield [*header, "parameters", "last_loss", "tokens_per_second"]
    for group in comparison.groups:
        for trial in group.trials:
            trained = {(row.family, row.length) for row in trial.evaluation.rows if row.trained}
            for place in [None, *trial.places] if trial.evaluation.answers else trial.places:
                metrics = [trial.value(metric, place) for metric in METRICS]
                at = place or (RANDOM, "all")
                start = [trial.run, group.label, *(cell(group.values[key]) for key in keys), trial.seed]
                start += at if family else at[1:]
                end = [trial.parameters["total"], trial.losses[-1][1] if trial.losses else "", trial.tokens_per_second]
                measured = ["" if value is None else value for value in metrics]
                yield [*start, cell(place is None or place in trained), *measured, ranks.get(group.label, ""), *end]


def cell(value: Any) -> str:
    """A config value in a table: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
