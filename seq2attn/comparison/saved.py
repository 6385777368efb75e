"""Comparisons found again in the runs directory: every trial says in its environment.json which one it belongs to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.grid import CONFIG
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import Trial
from seq2attn.runs.files import read_plain
from seq2attn.runs.run import LARGEST_JSON, Run, newest_first

Asked = tuple[str, int, tuple[int, ...]]  # checkpoint, samples, lengths


def experiment_of(run: Run) -> Mapping[str, Any] | None:
    """Name, group and values of the comparison that `run` is a trial of; None for a run of its own."""
    found = run.environment().get("experiment")
    kinds = {"name": str, "group": str, "values": dict}
    whole = isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in kinds.items())
    return found if whole else None


def experiments(root: Path) -> dict[str, list[Run]]:
    """The comparisons that have trials in `root`: name -> runs, those made first before the others."""
    found: dict[str, list[Run]] = {}
    for run in reversed(newest_first(root)):
        experiment = experiment_of(run)
        if experiment is not None:
            found.setdefault(experiment["name"], []).append(run)
    return found


def saved_plan(name: str, runs: Sequence[Run]) -> Plan:
    """The plan of the comparison `name` as its `runs` have it; what they were asked last is what it asks.

    The group made first is the baseline. Raises `Seq2AttnError` where a run's config cannot be read.
    """
    checkpoint, samples, lengths = _asked(runs)
    trials = []
    for run in runs:
        experiment, config = experiment_of(run), run.config()
        assert experiment is not None, "these are trials"
        trials.append(
            Trial(
                name=run.name,
                experiment=name,
                group=experiment["group"],
                values=experiment["values"],
                seed=config.seed,
                base=str(experiment["values"].get(CONFIG, "")),
                config=config,
                lengths=lengths or config.evaluation_lengths,
                samples=samples or config.evaluation.samples,
                checkpoint=checkpoint,
            )
        )
    return Plan(Experiment(name, source=name, bases={}, checkpoint=checkpoint), tuple(trials))


def _asked(runs: Sequence[Run]) -> Asked:
    """What most of the trials measured; of several such questions the one asked last."""
    counts: Counter[Asked] = Counter()
    last: dict[Asked, float] = {}
    for run in runs:
        for asked, time in _questions(run).items():
            counts[asked] += 1
            last[asked] = max(time, last.get(asked, 0.0))
    return max(counts, key=lambda asked: (counts[asked], last[asked]), default=("best", 0, ()))


def _questions(run: Run) -> dict[Asked, float]:
    """What `compare` measured of a run, and when; what `eval` did is another matter."""
    found: dict[Asked, float] = {}
    for path in run.evaluations.glob("*.json"):
        try:
            record = json.loads(read_plain(path, LARGEST_JSON))
            asked = (str(record["checkpoint"]), int(record["samples"]), tuple(sorted(map(int, record["lengths"]))))
            if "parameters" in record:
                found[asked] = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return found
