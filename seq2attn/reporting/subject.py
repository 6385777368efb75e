"""What a report is about: runs, or a comparison; found by what was named, and collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import METRICS, read_experiment
from seq2attn.comparison.plan import Plan, make_plan
from seq2attn.comparison.results import compare_groups, read_trials
from seq2attn.comparison.saved import experiments, saved_plan
from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, first_of, shown
from seq2attn.reporting.collect import collect
from seq2attn.reporting.experiment import collect_experiment
from seq2attn.runs.run import Run, find_run, newest_first

MOST_RUNS = 40
MOST_TRIALS = 400


def find_subject(names: Sequence[str], root: Path) -> list[Run] | Plan:
    """The runs that are named, the newest where none is; or the comparison, by its name or its experiment file."""
    files = [name for name in names if name.lower().endswith((".yaml", ".yml"))]
    others = [name for name in names if name not in files and not (root / Path(name).name).is_dir()]
    if not files and not others:
        if len(names) > MOST_RUNS:
            raise Seq2AttnError(f"{len(names)} runs are more than a page can show; at most {MOST_RUNS}")
        return [find_run(root, name) for name in names] or [find_run(root, None)]
    known = experiments(root)
    for name in others:
        if name not in known:
            raise _unknown(name, list(known)[::-1], root)
    if len(names) > 1:
        alone = (files + others)[0]
        raise Seq2AttnError(f"{shown(alone)} is a comparison, which has a page of its own", hint="Name it alone.")
    if others:
        return saved_plan(others[0], known[others[0]])
    experiment = read_experiment(Path(files[0]))
    try:
        return make_plan(experiment, root)
    except ConfigError as error:
        hint = f"As they are in {root}: seq2attn report {experiment.name}"
        raise Seq2AttnError(error.message, hint=hint if experiment.name in known else None) from None


def report_of_runs(runs: Sequence[Run]) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of runs."""
    title = ", ".join(run.name for run in runs[:4])
    return f"{title} and {len(runs) - 4} more" if len(runs) > 4 else title, collect(runs)


def report_of_comparison(plan: Plan, root: Path) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of a comparison: by every metric, its own first."""
    experiment = plan.experiment
    if len(plan.trials) > MOST_TRIALS:
        raise Seq2AttnError(f"{len(plan.trials):,} trials are more than a page can show; at most {MOST_TRIALS}")
    done = read_trials(plan, root)
    if not any(done.values()):
        hint = "Run the command that compares them; it goes on where it was."
        raise Seq2AttnError(f"no trial of {experiment.name!r} in {root} is trained and measured", hint=hint)
    comparisons = {}
    for metric in METRICS:
        published = experiment.published if metric == experiment.metric else ()
        one = replace(plan, experiment=replace(experiment, metric=metric, published=published))
        comparisons[metric] = compare_groups(one, done)
    measured = {trial.run for trials in done.values() for trial in trials}
    missing = [trial.name for trial in plan.trials if trial.name not in measured]
    return experiment.name, collect_experiment(comparisons, experiment.metric, root, missing)


def _unknown(name: str, comparisons: list[str], root: Path) -> Seq2AttnError:
    runs = [run.name for run in newest_first(root)]
    guess = did_you_mean(name, [*comparisons, *runs])
    known = [
        f"{kind}: {first_of(present)}" for kind, present in (("comparisons", comparisons), ("runs", runs)) if present
    ]
    message = (
        f"{shown(name)} is neither a run nor a comparison in {root}; {guess}{'; '.join(known) or 'there is none yet'}"
    )
    return Seq2AttnError(
        message, hint="`seq2attn runs` lists the runs. A comparison may also be named by its YAML file."
    )
