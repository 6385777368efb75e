"""The subject of a report: finds the runs or the comparison that were named, and collects their content."""

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
from seq2attn.pages.report import collect
from seq2attn.pages.report_comparison import collect_experiment
from seq2attn.runs.run import Run, find_run, newest_first

MAX_RUNS = 40
MAX_TRIALS = 400


def find_subject(names: Sequence[str], root: Path) -> list[Run] | Plan:
    """The named runs (by default the newest), or the comparison with this name or experiment file."""
    files = [name for name in names if name.lower().endswith((".yaml", ".yml"))]
    others = [name for name in names if name not in files and not (root / Path(name).name).is_dir()]
    if not files and not others:
        if len(names) > MAX_RUNS:
            raise Seq2AttnError(f"{len(names)} runs are too many for one page; at most {MAX_RUNS} are allowed")
        return [find_run(root, name) for name in names] or [find_run(root, None)]
    known = experiments(root)
    for name in others:
        if name not in known:
            raise _unknown(name, list(known)[::-1], root)
    if len(names) > 1:
        comparison = shown((files + others)[0])
        raise Seq2AttnError(f"{comparison} is a comparison, which needs its own page", hint="Name nothing else.")
    if others:
        return saved_plan(others[0], known[others[0]])
    experiment = read_experiment(Path(files[0]))
    try:
        return make_plan(experiment, root)
    except ConfigError as error:
        hint = f"For the trials in {root} as they were run: seq2attn report {experiment.name}"
        raise Seq2AttnError(error.message, hint=hint if experiment.name in known else None) from None


def report_of_runs(runs: Sequence[Run]) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of runs."""
    title = ", ".join(run.name for run in runs[:4])
    return f"{title} and {len(runs) - 4} more" if len(runs) > 4 else title, collect(runs)


def report_of_comparison(plan: Plan, root: Path) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of a comparison, by every metric."""
    experiment = plan.experiment
    if len(plan.trials) > MAX_TRIALS:
        raise Seq2AttnError(f"{len(plan.trials):,} trials are too many for one page; at most {MAX_TRIALS} are allowed")
    done = read_trials(plan)
    if not any(done.values()):
        hint = "Run its `seq2attn compare` command; it continues where it stopped."
        raise Seq2AttnError(f"no trial of {experiment.name!r} in {root} is trained and measured", hint=hint)
    comparisons = {}
    for metric in METRICS:
        published = experiment.published if metric == plan.metric else ()
        one = replace(plan, experiment=replace(experiment, metric=metric, published=published))
        comparisons[metric] = compare_groups(one, done)
    measured = {trial.run for trials in done.values() for trial in trials}
    missing = [trial.name for trial in plan.trials if trial.name not in measured]
    return experiment.name, collect_experiment(comparisons, plan.metric, root, missing)


def _unknown(name: str, comparisons: list[str], root: Path) -> Seq2AttnError:
    runs = [run.name for run in newest_first(root)]
    guess = did_you_mean(name, [*comparisons, *runs])
    present = {"comparisons": comparisons, "runs": runs}
    known = "; ".join(f"{kind}: {first_of(found)}" for kind, found in present.items() if found) or "there is none yet"
    return Seq2AttnError(
        f"{shown(name)} is neither a run nor a comparison in {root}; {guess}{known}",
        hint="`seq2attn runs` lists the runs. A comparison may also be named by its YAML file.",
    )
