"""What a report shows of a run, as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from seq2attn.config import Config, flat_values
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import SHARES, LengthResult
from seq2attn.model.build import build_model
from seq2attn.model.parameters import parameter_ledger
from seq2attn.plotting.style import looks
from seq2attn.runs.lock import state_of
from seq2attn.runs.records import Metrics, newest_evaluation, read_attention, read_metrics
from seq2attn.runs.run import Run

POINTS = 400  # of one curve at most
CELLS = 200_000  # of one run's heat maps at most
ALL_CELLS = 2_000_000  # of all runs' heat maps, about: some 12 MB of page
LOGGED = ("loss", "accuracy", "gradient_norm", "learning_rate", "tokens_per_second")


def collect(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything a report shows: ready for JSON, no NaN in it."""
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
    speeds = [line["tokens_per_second"] for line in metrics.steps if "tokens_per_second" in line]
    ledger = parameter_ledger(build_model(config))
    return {
        "name": run.name,
        "summary": {
            "score": config.score_name,
            "task": config.task.name,
            "seed": config.seed,
            "state": state_of(run, status),
            "steps": f"{status.get('step', 0):,} of {config.training.steps:,}",
            "exact match, worst": number(status.get("exact_match_worst")),
            "mean": number(status.get("exact_match_mean")),
            "entropy": number(status.get("attention_entropy")),
            "parameters": ledger["total"],
            "tokens/s": number(median(speeds)) if speeds else None,
            "made": str(environment.get("created") or "").replace("T", " ")[:16] or None,
        },
        "config": flat(flat_values(config)),
        "curves": curves(metrics),
        "lengths": _lengths(run, metrics),
        "attention": attention(read_attention(run), runs),
        "parameters": ledger,
        "environment": flat({key: value for key, value in environment.items() if key not in ("created", "seed")}),
    }


def curves(metrics: Metrics, *, thin: bool = True) -> dict[str, list[list[float | None]]]:
    """Name -> points (step, value)."""
    found: dict[str, list[list[float | None]]] = {}
    for name in LOGGED:
        points = [[line["step"], number(line[name])] for line in metrics.steps if name in line]
        found[name] = thinned(points) if thin else points
    for step, results in metrics.evaluations:
        trained = [result for result in results if result.trained] or results
        if not trained:
            continue
        exact = [result.exact_match.value for result in trained]
        values = {
            "exact_match_mean": math.fsum(exact) / len(exact),
            "exact_match_worst": min(exact),
            "teacher_forced": math.fsum(result.teacher_forced.value for result in trained) / len(trained),
        }
        alignments = [result.alignment.value for result in trained if result.alignment is not None]
        entropies = [result.entropy for result in trained if result.entropy is not None]
        if alignments:
            values["alignment"] = math.fsum(alignments) / len(alignments)
        if entropies:
            values["entropy"] = math.fsum(entropies) / len(entropies)
        for name, value in values.items():
            found.setdefault(name, []).append([step, number(value)])
    return {name: points for name, points in found.items() if points}


def thinned(points: list[list[float | None]]) -> list[list[float | None]]:
    """Every so many-th point, so that at most `POINTS` remain, and the last."""
    size = math.ceil(len(points) / POINTS) or 1
    kept = points[::size]
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"task": {"name": "copy"}}` -> `{"task.name": "copy"}`; what is no plain value, as text."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            found[prefix + key] = " ".join(map(str, value))
        else:
            found[prefix + key] = "{}" if value == {} else value
    return found


def _lengths(run: Run, metrics: Metrics) -> dict[str, Any] | None:
    """Accuracy by length: the last `eval`, or else the last evaluation of training."""
    saved = newest_evaluation(run)
    if saved is not None:
        return {"source": f"eval, {saved[0]}", "rows": list(map(_length, saved[1]))}
    if not metrics.evaluations:
        return None
    step, results = metrics.evaluations[-1]
    return {"source": f"training, after step {step:,}", "rows": list(map(_length, results))}


def _length(result: LengthResult) -> dict[str, Any]:
    row: dict[str, Any] = {"length": result.length, "trained": result.trained, "samples": result.samples}
    for name in SHARES:
        estimate = getattr(result, name)
        row[name] = None if estimate is None else [number(n) for n in (estimate.value, estimate.low, estimate.high)]
    row["entropy"] = None if result.entropy is None else [number(result.entropy)] * 3
    return row


def attention(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], runs: int) -> list[dict[str, Any]]:
    """The maps through training of one of so many `runs`, thinned out evenly where they would make the page heavy; the last
    one stays.
    """
    if not snapshots:
        return []
    cells = max(sum(len(one.weights) * len(one.source_symbols) for one in maps) for _, maps in snapshots)
    most = max(1, min(CELLS, ALL_CELLS // runs) // max(1, cells))
    size = math.ceil(len(snapshots) / most)
    kept = list(snapshots[::-1][::size])[::-1]
    return [{"step": step, "maps": [one.to_json(digits=3) for one in maps]} for step, maps in kept]


def number(value: Any) -> float | None:
    """A finite number, to six digits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")
