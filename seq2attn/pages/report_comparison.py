"""The content of a report of a comparison, as plain values: groups take the place of runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.comparison.exporting import to_json
from seq2attn.comparison.results import Comparison, GroupResult
from seq2attn.config import flat_values
from seq2attn.inference.results import worst_place
from seq2attn.pages.report import LOGGED, attention, curves, flat, number, thinned
from seq2attn.parts import RANDOM
from seq2attn.plotting.style import looks
from seq2attn.runs.records import read_attention, read_metrics
from seq2attn.runs.run import Run

Points = list[list[float | None]]


def collect_experiment(
    comparisons: Mapping[str, Comparison],
    metric: str,
    root: Path,
    missing: Sequence[str],
) -> dict[str, Any]:
    """The content of a report of a comparison: JSON values without NaN.

    comparisons: the same trials by each metric; `metric` is shown first. missing: the trials that were not measured.
    """
    main = comparisons[metric]
    tables = {name: to_json(comparison) for name, comparison in comparisons.items()}
    drawn = looks([group.score for group in main.groups])
    groups = []
    for place, (group, look) in enumerate(zip(main.groups, drawn, strict=True)):
        measured = {name: _rows(table["groups"][place], name) for name, table in tables.items()}
        trials = sum(len(other.trials) for other in main.groups)
        groups.append({**_group(group, root, trials), "colour": look.colour, "dash": look.dash, "measures": measured})
    measured_by = {name: one for name, one in comparisons.items() if any(group.lengths for group in one.groups)}
    labels = {name: comparison.metric_label for name, comparison in measured_by.items()}
    return {
        "experiment": {"name": main.name, "metric": metric, "measures": labels, "missing": list(missing)},
        "runs": groups,
    }


def _group(group: GroupResult, root: Path, trials: int) -> dict[str, Any]:
    trials_by_seed = sorted(group.trials, key=lambda trial: trial.seed)
    runs = [Run(root / trial.run) for trial in trials_by_seed]
    environments = [run.environment().shown() for run in runs]
    return {
        "name": group.label,
        "baseline": group.baseline,
        "about": {
            "trials": len(group.trials),
            "planned": group.planned,
            "parameters": group.parameters,
            "loss": None if group.loss is None else group.loss.mean,  # not rounded twice: the page rounds it
            "published_loss": group.published_loss,
            "tokens_per_second": number(group.tokens_per_second),
            "word_by_word": None if group.word_by_word is None else group.word_by_word.to_json(),
        },
        "config": merged([flat(flat_values(run.config())) for run in runs]),
        "curves": bands([curves(read_metrics(run), thin=False) for run in runs]),
        "trials": [
            {"seed": trial.seed, "run": trial.run, "attention": attention(read_attention(run), trials)}
            for trial, run in zip(trials_by_seed, runs, strict=True)
        ],
        "parameters": dict(group.trials[0].parameters),
        "environment": merged(list(map(flat, environments))),
    }


def _rows(group: Mapping[str, Any], metric: str) -> list[dict[str, Any]]:
    """The rows of a group of `to_json`, each with its family of strings and key, and whether it is the worst family's."""
    families = {RANDOM: group["lengths"], **group.get("families", {})}
    rows = {(family, key): row for family, lengths in families.items() for key, row in lengths.items()}
    least = {(family, row["length"]): row["least"] for (family, _), row in rows.items() if row["length"] is not None}
    worst = None if metric == "entropy" else worst_place(least)
    return [
        {**row, "family": family, "key": key, "worst_family": (family, row["length"]) == worst}
        for (family, key), row in rows.items()
    ]


def merged(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One record for several: equal values are kept, different ones are joined with commas."""
    keys = dict.fromkeys(key for record in records for key in record)
    values = {key: list(dict.fromkeys(record.get(key) for record in records)) for key in keys}
    return {key: each[0] if len(each) == 1 else ", ".join(map(str, each)) for key, each in values.items()}


def bands(curves_of_runs: Sequence[Mapping[str, Points]]) -> dict[str, Points]:
    """The curves of several runs as bands: name -> points (step, middle, lowest, highest).

    The middle is the median for values logged during training, which are noisy, and the mean for evaluations.
    """
    banded: dict[str, Points] = {}
    for name in dict.fromkeys(name for curve in curves_of_runs for name in curve):
        at: dict[float, list[float]] = {}
        for curve in curves_of_runs:
            for step, value in curve.get(name, ()):
                if step is not None and value is not None:
                    at.setdefault(step, []).append(value)
        middle = statistics.median if name in LOGGED else statistics.fmean
        points: Points = [
            [step, number(middle(values)), min(values), max(values)] for step, values in sorted(at.items())
        ]
        banded[name] = thinned(points)
    return banded
