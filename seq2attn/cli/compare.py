"""`seq2attn compare`"""

from __future__ import annotations

import csv
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, on_terminal, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options

if TYPE_CHECKING:
    from seq2attn.comparison.plan import Plan
    from seq2attn.comparison.results import Comparison


def compare(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT", help="An experiment file; or give --config and --vary.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", metavar="FILE", help="A base config. May be repeated.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B,...", help="A key and its values, or seed=1-10. May be repeated."),
    ] = None,
    overrides: options.Overrides = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Compare with the group that has this value. May be repeated."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="exact_match (default), character_accuracy, teacher_forced, alignment, entropy; of pairs wer or ser.",
        ),
    ] = None,
    lengths: options.Lengths = None,
    families: options.Families = None,
    samples: options.Samples = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="best|last",
            help="Which weights to measure: best (default, by validation) or last.",
            autocompletion=lambda: ["best", "last"],
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Runs are called NAME-... Default: the experiment's or config's."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", metavar="N", min=1, help="Trials in parallel. Default: one per core."),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where trials run: processes (default), processes=N, or dask:tcp://HOST:8786.",
            autocompletion=lambda: ["processes", "dask:tcp://"],
        ),
    ] = None,
    max_trials: Annotated[int, typer.Option(metavar="N", min=1, help="Refuse larger grids.")] = 1000,
    as_json: options.AsJson = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write every trial at every length, as CSV.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FOLDER", help="Also draw figures into it.")] = None,
    device: options.Device = "auto",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a grid of configs over several seeds; compare them.

    Every combination of the values of --vary is a trial, and each trial is an ordinary run, so that `eval`, `predict` and
    `runs` work on it. Ctrl-C saves. The same command continues and trains nothing twice, even after kill -9.
    More seeds later: the same command with seed=1-20.

    Runs on pairs of strings are measured on their dev file, by word and symbol error rates. Trials with the same seed see
    the same batches, and all are measured on the same strings: differences are taken seed by seed ("paired").

    The table shows, for each group and length: mean and standard deviation over seeds, the worst and the best seed, the
    95 % confidence interval of the mean (Student's), and the mean paired difference from the baseline with its interval.
    docs/comparing.md explains these. docs/clusters.md: --executor, for trials on other machines.

    Examples:

      seq2attn compare configs/experiments/chapter.yaml

      seq2attn compare -c configs/scaled.yaml --vary model.attention.score=dot,scaled,none --vary seed=1-5
    """
    from seq2attn.comparison.experiment import compose_experiment
    from seq2attn.comparison.plan import make_plan

    _check_outputs(csv_file, plot)
    plugins = options.load_plugins(plugin)
    chosen = compose_experiment(
        experiment,
        config,
        vary or (),
        overrides or (),
        name=name,
        baseline=baseline or (),
        metric=metric,
        lengths=lengths,
        families=families,
        samples=samples,
        checkpoint=checkpoint,
    )
    plan = make_plan(chosen, runs_dir, max_trials)
    comparison = _run(plan, device, plugins, workers, executor)
    failed = comparison.failed
    if as_json:
        write_json(comparison.to_json())
    else:
        for table in comparison.tables() if on_terminal() else [Table.of_records(comparison.records())]:
            table.show()
    _write_outputs(comparison, csv_file, plot)
    if comparison.groups:
        suffix = f"{options.runs_dir_option(runs_dir)}{plugin_options(plugins)}"
        note(f"As one page: seq2attn report {comparison.name}{suffix}")
    if failed:
        count = f"{len(failed):,} of {len(plan.trials):,} trials failed"
        reasons = "\n".join(f"  {run}: {reason}" for run, reason in failed.items())
        raise Seq2AttnError(f"{count}\n{reasons}", hint="The same command retries them.", exit_code=1)


def _check_outputs(csv_file: Path | None, plot: Path | None) -> None:
    """Check the output paths now, not after hours of training."""
    if csv_file is not None and (csv_file.is_dir() or not csv_file.parent.is_dir()):
        reason = "it is a directory" if csv_file.is_dir() else f"there is no directory {csv_file.parent}"
        raise Seq2AttnError(f"--csv {csv_file}: {reason}")
    if plot is not None:
        if plot.is_file():
            raise Seq2AttnError(f"--plot {plot}: not a folder")
        plot.mkdir(parents=True, exist_ok=True)


def _run(plan: Plan, device: str, plugins: list[str], workers: int | None, executor: str | None) -> Comparison:
    """Run the trials that are not done. Exits if a signal stops them."""
    from seq2attn.comparison.run import run_comparison
    from seq2attn.display.progress import make_display

    with make_display() as display:
        outcome = run_comparison(
            plan, device=device, plugins=plugins, workers=workers, executor=executor, display=display
        )
    if outcome.busy:
        note(f"left to the processes that train them: {', '.join(outcome.busy)}")
        note("The same command shows them once they are done.")
    done = sum(len(group.trials) for group in outcome.groups)
    if outcome.stopped_by is not None and done < len(plan.trials):
        name = signal.Signals(outcome.stopped_by).name
        note(f"stopped by {name}: {done:,} of {len(plan.trials):,} trials are done; running ones are saved.")
        note(f"Continue with the same command: seq2attn {shlex.join(sys.argv[1:])}")
        raise typer.Exit(128 + outcome.stopped_by)
    return outcome


def _write_outputs(comparison: Comparison, csv_file: Path | None, plot: Path | None) -> None:
    if csv_file is not None:
        rows = comparison.trial_records()
        with csv_file.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
        note(f"table: {csv_file}")
    if plot is not None and comparison.groups:
        from seq2attn.comparison.figures import save_figures

        for path in save_figures(comparison, plot):
            note(f"figure: {path}")
