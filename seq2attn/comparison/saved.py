"""Comparisons recovered from the runs directory: each trial's environment.json names the one that it belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.grid import CONFIG
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import Trial
from seq2attn.runs.evaluations import readable_evaluations
from seq2attn.runs.run import Run, newest_first

Settings = tuple[str, int, tuple[int, ...]]  # checkpoint, samples, lengths


def experiment_of(run: Run) -> Mapping[str, Any] | None:
    """Name, group and values of the comparison that `run` is a trial of; None for a run of its own."""
    recorded = run.environment().get("experiment")
    kinds = {"name": str, "group": str, "values": dict}
    whole = isinstance(recorded, dict) and all(isinstance(recorded.get(key), kind) for key, kind in kinds.items())
    return recorded if whole else None


def experiments(root: Path) -> dict[str, list[Run]]:
    """The comparisons that have trials in `root`: name -> runs, those made first before the others."""
    by_name: dict[str, list[Run]] = {}
    for run in reversed(newest_first(root)):
        experiment = experiment_of(run)
        if experiment is not None:
            by_name.setdefault(experiment["name"], []).append(run)
    return by_name


def saved_plan(name: str, runs: Sequence[Run]) -> Plan:
    """The plan of the comparison `name` as its `runs` record it, with the settings that it was measured with last.

    The group made first is the baseline. Raises `Seq2AttnError` where a run's config cannot be read.
    """
    checkpoint, samples, lengths = _measured(runs)
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


def _measured(runs: Sequence[Run]) -> Settings:
    """What `compare` measured of most of the runs, `eval` left aside; of several such settings the last used."""
    counts: Counter[Settings] = Counter()
    last: dict[Settings, float] = {}
    for run in runs:
        of_run = set()
        for path, saved in readable_evaluations(run):
            if saved.parameters is not None:
                settings = (saved.checkpoint, saved.samples, tuple(saved.lengths))
                of_run.add(settings)
                last[settings] = max(path.stat().st_mtime, last.get(settings, 0.0))
        counts.update(of_run)
    return max(counts, key=lambda settings: (counts[settings], last[settings]), default=("best", 0, ()))
