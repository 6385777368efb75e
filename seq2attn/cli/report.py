"""`seq2attn report`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, write_line
from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, first_of, shown
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import DEFAULT_ROOT, find_run, newest_first

if TYPE_CHECKING:
    from seq2attn.comparison.plan import Plan

MOST_RUNS = 40
MOST_TRIALS = 400


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...|EXPERIMENT",
            help="Runs' names, the newest where none is given; or a comparison's name or experiment file.",
        ),
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The page to write.")] = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Put one or several runs, or a comparison, into a single HTML page, and print its path.

    The page opens from disk, without a network: summary, curves to be read off with the pointer, accuracy by length,
    attention through training, configs with their differences marked, parameters and environment.

    Of a comparison it shows groups over their seeds: the table of `compare`, curves with bands, accuracy by length, and
    the attention of each trial. `compare` says its name, and every trial's name begins with it.

    Examples:

      seq2attn report

      seq2attn report scaled-001 dot-001 --to scores.html

      seq2attn report chapter --to chapter.html

      seq2attn report configs/experiments/chapter.yaml
    """
    if to.suffix.lower() not in (".html", ".htm"):
        raise Seq2AttnError(f"{to}: a report's file name ends with .html")
    if not to.parent.is_dir():
        raise Seq2AttnError(f"{to}: there is no directory {to.parent}")
    options.load_plugins(plugin)
    asked = list(dict.fromkeys(names or ()))
    plan = _comparison(asked, runs_dir)
    title, data = _of_runs(asked, runs_dir) if plan is None else _of_comparison(plan, runs_dir)
    from seq2attn.reporting.page import render

    write_atomically(to, render(data, f"seq2attn: {title}").encode())
    write_line(str(to))


def _of_runs(names: list[str], root: Path) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of runs."""
    if len(names) > MOST_RUNS:
        raise Seq2AttnError(f"{len(names)} runs are more than a page can show; at most {MOST_RUNS}")
    found = [find_run(root, name) for name in names] or [find_run(root, None)]
    if not names:
        options.note_newest(found[0], "seq2attn report RUN")
    from seq2attn.reporting.collect import collect

    title = ", ".join(run.name for run in found[:4])
    return f"{title} and {len(found) - 4} more" if len(found) > 4 else title, collect(found)


def _of_comparison(plan: Plan, root: Path) -> tuple[str, dict[str, Any]]:
    """Title and data of a report of a comparison: by every metric, its own first."""
    from dataclasses import replace

    from seq2attn.comparison.experiment import METRICS
    from seq2attn.comparison.results import read_trials, summarise, to_json
    from seq2attn.reporting.experiment import collect_experiment

    experiment = plan.experiment
    if len(plan.trials) > MOST_TRIALS:
        raise Seq2AttnError(f"{len(plan.trials):,} trials are more than a page can show; at most {MOST_TRIALS}")
    done = read_trials(plan, root)
    comparisons = {}
    for metric in METRICS:
        published = experiment.published if metric == experiment.metric else ()
        one = replace(plan, experiment=replace(experiment, metric=metric, published=published))
        comparisons[metric] = summarise(one, done)
    main = comparisons[experiment.metric]
    measured = {trial.run for group in main.groups for trial in group.trials}
    missing = [trial.name for trial in plan.trials if trial.name not in measured]
    if not measured:
        hint = "Run the command that compares them; it goes on where it was."
        raise Seq2AttnError(f"no trial of {experiment.name!r} in {root} is trained and measured", hint=hint)
    if missing:
        note(f"{len(missing):,} of {len(plan.trials):,} trials are not measured yet, and left out")
    tables = {metric: to_json(comparison) for metric, comparison in comparisons.items()}
    return experiment.name, collect_experiment(comparisons, tables, experiment.metric, root, missing)


# ---- what the words name ----


def _comparison(names: list[str], root: Path) -> Plan | None:
    """The comparison that is asked for; None where runs are."""
    files = [name for name in names if name.lower().endswith((".yaml", ".yml"))]
    others = [name for name in names if name not in files and not (root / Path(name).name).is_dir()]
    if not files and not others:
        return None
    from seq2attn.comparison.saved import experiments, saved_plan

    known = experiments(root) if others else {}
    for name in others:
        if name not in known:
            raise _unknown(name, list(known)[::-1], root)
    if len(names) > 1:
        alone = (files + others)[0]
        raise Seq2AttnError(f"{shown(alone)} is a comparison, which has a page of its own", hint="Name it alone.")
    return _planned(Path(files[0]), root) if files else saved_plan(others[0], known[others[0]])


def _planned(file: Path, root: Path) -> Plan:
    """The comparison of an experiment file, if its trials are those in `root`."""
    from seq2attn.comparison.experiment import read_experiment
    from seq2attn.comparison.plan import make_plan
    from seq2attn.comparison.saved import experiments

    experiment = read_experiment(file)
    try:
        return make_plan(experiment, root)
    except ConfigError as error:
        hint = f"As they are in {root}: seq2attn report {experiment.name}"
        raise Seq2AttnError(error.message, hint=hint if experiment.name in experiments(root) else None) from None


def _unknown(name: str, comparisons: list[str], root: Path) -> Seq2AttnError:
    runs = [run.name for run in newest_first(root)]
    guess = did_you_mean(name, [*comparisons, *runs])
    there = [f"{kind}: {first_of(found)}" for kind, found in (("comparisons", comparisons), ("runs", runs)) if found]
    message = (
        f"{shown(name)} is neither a run nor a comparison in {root}; {guess}{'; '.join(there) or 'there is none yet'}"
    )
    return Seq2AttnError(
        message, hint="`seq2attn runs` lists the runs. A comparison may also be named by its YAML file."
    )
