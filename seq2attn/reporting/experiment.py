"""What a report shows of a comparison: groups where a report of runs has runs, as plain values."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.comparison.results import Comparison, GroupResult, to_json
from seq2attn.config import flat_values
from seq2attn.plotting.style import looks
from seq2attn.reporting.collect import LOGGED, attention, curves, flat, number, thinned
from seq2attn.runs.records import read_attention, read_metrics
from seq2attn.runs.run import Run

Points = list[list[float | None]]
OF_EACH_RUN = ("created", "seed", "experiment")  # keys of environment.json in which all trials differ


def collect_experiment(
    comparisons: Mapping[str, Comparison],
    metric: str,
    root: Path,
    missing: Sequence[str],
) -> dict[str, Any]:
    """Everything that a report of a comparison shows: ready for JSON, no NaN in it.

    `comparisons` are the same trials by each metric, of which `metric` is shown first; `missing` are the trials that were
    not measured.
    """
    main = comparisons[metric]
    tables = {name: to_json(comparison) for name, comparison in comparisons.items()}
    drawn = looks([group.score for group in main.groups])
    groups = []
    for place, (group, look) in enumerate(zip(main.groups, drawn, strict=True)):
        measured = {name: table["groups"][place]["lengths"] for name, table in tables.items()}
        trials = sum(len(other.trials) for other in main.groups)
        groups.append({**_group(group, root, trials), "colour": look.colour, "dash": look.dash, "measures": measured})
    labels = {name: comparison.metric_label for name, comparison in comparisons.items() if _has_values(comparison)}
    return {
        "experiment": {"name": main.name, "metric": metric, "measures": labels, "missing": list(missing)},
        "runs": groups,
    }


def _has_values(comparison: Comparison) -> bool:
    return any(group.lengths for group in comparison.groups)


def _group(group: GroupResult, root: Path, trials: int) -> dict[str, Any]:
    trials_by_seed = sorted(group.trials, key=lambda trial: trial.seed)
    runs = [Run(root / trial.run) for trial in trials_by_seed]
    loss = group.loss
    made_by = [{key: value for key, value in run.environment().items() if key not in OF_EACH_RUN} for run in runs]
    return {
        "name": group.label,
        "baseline": group.baseline,
        "about": {
            "trials": len(group.trials),
            "planned": group.planned,
            "parameters": group.parameters,
            "loss": None if loss is None else number(loss.mean),
            "published_loss": group.published_loss,
            "tokens_per_second": number(group.tokens_per_second),
        },
        "config": several([flat(flat_values(run.config())) for run in runs]),
        "curves": bands([curves(read_metrics(run), thin=False) for run in runs]),
        "trials": [
            {"seed": trial.seed, "run": trial.run, "attention": attention(read_attention(run), trials)}
            for trial, run in zip(trials_by_seed, runs, strict=True)
        ],
        "parameters": dict(group.trials[0].parameters),
        "environment": several(list(map(flat, made_by))),
    }


def several(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One record for all: a value that is the same in all as it is, others side by side."""
    keys = dict.fromkeys(key for record in records for key in record)
    values = {key: list(dict.fromkeys(record.get(key) for record in records)) for key in keys}
    return {key: each[0] if len(each) == 1 else ", ".join(map(str, each)) for key, each in values.items()}


def bands(curves_of_runs: Sequence[Mapping[str, Points]]) -> dict[str, Points]:
    """Curves of several runs as one band each: name -> points (step, middle, lowest, highest).

    The middle is the median of what is logged at each step, which is noisy, and the mean of what evaluations measure.
    """
    made: dict[str, Points] = {}
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
        made[name] = thinned(points)
    return made
