"""The content of a report of runs, as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from seq2attn.build import build_model
from seq2attn.config import Config, flat_values
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import SHARES
from seq2attn.model.parameters import parameter_ledger
from seq2attn.pages.report_errors import errors
from seq2attn.plotting.style import looks
from seq2attn.runs.evaluations import latest_by_length
from seq2attn.runs.loading import load_task
from seq2attn.runs.lock import state_of
from seq2attn.runs.records import Metrics, read_attention, read_metrics
from seq2attn.runs.run import Run

MAX_POINTS = 400  # of one curve
MAX_WEIGHTS_OF_RUN = 200_000  # attention weights of one run
MAX_WEIGHTS_OF_PAGE = 2_000_000  # of all runs, about 12 MB of page
LOGGED = ("loss", "accuracy", "gradient_norm", "learning_rate", "tokens_per_second")


def collect(runs: Sequence[Run]) -> dict[str, Any]:
    """The content of a report of runs: JSON values without NaN."""
    configs = [run.config() for run in runs]
    drawn = looks([config.score_name for config in configs])
    return {
        "runs": [
            {**_run(run, config, len(runs)), "colour": look.colour, "dash": look.dash}
            for run, config, look in zip(runs, configs, drawn, strict=True)
        ],
    }


def _run(run: Run, config: Config, runs: int) -> dict[str, Any]:
    metrics = read_metrics(run)
    status = run.status()
    environment = run.environment()
    total = config.training.steps or status.steps or 0  # where it is counted in epochs, the status knows
    speeds = [speed for _, speed in metrics.curve("tokens_per_second")]
    ledger = parameter_ledger(build_model(config, load_task(run, config)))
    return {
        "name": run.name,
        "summary": {
            "score": config.score_name,
            "task": config.task.name,
            "seed": config.seed,
            "state": state_of(run, status),
            "steps": f"{status.step or 0:,} of {total:,}",
            "WER": number(status.wer),
            "SER": number(status.ser),
            "exact match, worst": number(status.exact_match_worst),
            "mean": number(status.exact_match_mean),
            "entropy": number(status.attention_entropy),
            "parameters": ledger["total"],
            "tokens/s": number(median(speeds)) if speeds else None,
            "made": (environment.created or "").replace("T", " ")[:16] or None,
        },
        "config": flat(flat_values(config)),
        "curves": curves(metrics),
        "lengths": _lengths(run),
        "errors": errors(run, config),
        "attention": attention(read_attention(run), runs),
        "parameters": ledger,
        "environment": flat(environment.shown()),
    }


def curves(metrics: Metrics, *, thin: bool = True) -> dict[str, list[list[float | None]]]:
    """Name -> points (step, value)."""
    points_of: dict[str, list[list[float | None]]] = {}
    for name in LOGGED:
        points = [[line.step, number(line.number(name))] for line in metrics.steps if getattr(line, name) is not None]
        points_of[name] = thinned(points) if thin else points
    for step, results in metrics.evaluations:
        values = {"exact_match_mean": results.mean("exact_match"), "exact_match_worst": results.lowest().value}
        values |= {metric: results.mean(metric) for metric in ("teacher_forced", "alignment", "entropy")}
        values |= {rate: row.value for rate in ("wer", "ser") if (row := results.get(rate)) is not None}
        for name, value in values.items():
            if value is not None:
                points_of.setdefault(name, []).append([step, number(value)])
    return {name: points for name, points in points_of.items() if points}


def thinned(points: list[list[float | None]]) -> list[list[float | None]]:
    """Every n-th point, so that at most `MAX_POINTS` remain, and the last."""
    size = math.ceil(len(points) / MAX_POINTS) or 1
    kept = points[::size]
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"task": {"name": "copy"}}` -> `{"task.name": "copy"}`; a list as text."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            leaves |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            leaves[prefix + key] = " ".join(map(str, value))
        else:
            leaves[prefix + key] = "{}" if value == {} else value
    return leaves


def _lengths(run: Run) -> dict[str, Any] | None:
    """Accuracy by length from the last `eval`, or else from the last evaluation of training."""
    latest = latest_by_length(run)
    if latest is None:
        return None
    source, results = latest
    worst, rows = results.worst(), []
    for family, length in results.places:
        exact = results.get("exact_match", length, family)
        row: dict[str, Any] = {"family": family, "length": length, "worst": exact is not None and exact is worst}
        for metric in (*SHARES, "entropy"):
            found = results.get(metric, length, family)
            ends = found and [found.value if end is None else end for end in (found.value, found.low, found.high)]
            row[metric] = ends and [number(end) for end in ends]
            if found is not None:
                row |= {"trained": found.trained, "samples": found.samples}
        rows.append(row)
    return {"source": source, "rows": rows}


def attention(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], runs: int) -> list[dict[str, Any]]:
    """The maps of one of `runs` through training: the last, and evenly spaced others if not all fit into the page."""
    if not snapshots:
        return []
    weights = max(sum(len(one.weights) * len(one.source_symbols) for one in maps) for _, maps in snapshots)
    most = max(1, min(MAX_WEIGHTS_OF_RUN, MAX_WEIGHTS_OF_PAGE // runs) // max(1, weights))
    spacing = math.ceil(len(snapshots) / most)
    kept = snapshots[::-spacing][::-1]
    return [{"step": step, "maps": [one.to_json(digits=3) for one in maps]} for step, maps in kept]


def number(value: Any) -> float | None:
    """A finite number, to the nine digits of a float32; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{value:.9g}")
