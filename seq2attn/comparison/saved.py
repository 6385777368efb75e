"""Comparisons found in the runs directory: each trial's environment.json names the comparison that it belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from seq2attn.comparison.experiment import CONFIG
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import Trial
from seq2attn.runs.logs import evaluations
from seq2attn.runs.run import Run, check_plain, newest_first

Measurement = tuple[str, int, tuple[int, ...], tuple[str, ...]]  # checkpoint, samples, lengths, families


def experiments(root: Path) -> dict[str, list[Run]]:
    """The comparisons that have trials in `root`: name -> runs, oldest first."""
    by_name: dict[str, list[Run]] = {}
    for run in reversed(newest_first(root)):
        experiment = run.experiment()
        if experiment is not None:
            by_name.setdefault(experiment.name, []).append(run)
    return by_name


def saved_plan(name: str, runs: Sequence[Run]) -> Plan:
    """The plan of the comparison `name` as its `runs` record it, with the settings that most of them were measured with.

    The oldest group is the baseline. Raises `Seq2AttnError` if a run's config cannot be read.
    """
    checkpoint, samples, lengths, families = _measured(runs)
    trials = []
    for run in map(check_plain, runs):
        experiment, config = run.experiment(), run.config()
        assert experiment is not None, "these are trials"
        trials.append(
            Trial(
                name=run.name,
                experiment=name,
                group=experiment.group,
                values=experiment.values,
                seed=config.seed,
                base=str(experiment.values.get(CONFIG, "")),
                settings=config.model_dump(mode="json"),
                root=run.path.parent,
                lengths=lengths or config.evaluation_lengths,
                samples=samples or config.evaluation.samples,
                checkpoint=checkpoint,
                families=families or config.evaluation.families,
            )
        )
    return Plan(name, tuple(trials))


def _measured(runs: Sequence[Run]) -> Measurement:
    """The settings with which `compare` (not `eval`) measured most of the runs; on a tie those of the newest run."""
    counts = Counter(
        (saved.checkpoint, saved.samples, tuple(saved.lengths), tuple(saved.families))
        for run in reversed(runs)
        for _, saved in reversed(evaluations(run, skip_damaged=True))
        if saved.parameters is not None
    )
    return max(counts, key=lambda settings: counts[settings], default=("best", 0, (), ()))
