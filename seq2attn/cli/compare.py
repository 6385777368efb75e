"""`seq2attn compare`"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2attn.cli.options import (
    AsJson,
    Device,
    Families,
    Lengths,
    LoadedPlugins,
    Overrides,
    RunsDir,
    Samples,
    Texts,
    argument,
    option,
    stop,
)
from seq2attn.cli.outputs import (
    Force,
    Latex,
    check_figure,
    check_latex,
    save_figure,
    save_latex,
)
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.results.metrics import METRICS
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options, runs_dir_option

if TYPE_CHECKING:
    from seq2attn.comparison.results import Comparison

METRIC_NAMES = ", ".join(metric.name for metric in METRICS.values() if metric.heading)


@dataclass(frozen=True)
class Grid:
    """The options that say what is compared: arguments of `compose_experiment`."""

    configs: Annotated[
        list[Path] | None, option("FILE", "A base config. May be repeated.", "--config", "-c")
    ] = None
    vary: Annotated[
        Texts,
        option(
            "KEY=A,B,...",
            "A key and its values, or seed=1-10, or KEY=log:1e-4..1e-2:8. May be repeated.",
        ),
    ] = None
    overrides: Overrides = None
    baseline: Annotated[
        Texts,
        option("KEY=VALUE", "Compare with the group that has this value. May be repeated."),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "NAME",
            f"One of {METRIC_NAMES}. Default: exact_match, or wer for runs on pairs.",
        ),
    ] = None
    lengths: Lengths = None
    families: Families = None
    samples: Samples = None
    checkpoint: Annotated[
        str | None,
        option("best|last", "Which weights to measure. Default: best, by validation."),
    ] = None
    name: Annotated[
        str | None,
        option(
            "NAME",
            "The comparison's name; its runs are called NAME-VALUES-seed_N. Default: the name of "
            "the experiment file, or compare-CONFIG.",
        ),
    ] = None


ExperimentFile = Annotated[
    Path | None, argument("EXPERIMENT", "An experiment file; or give --config and --vary.")
]
Workers = Annotated[
    int | None,
    option("N", "Number of parallel trials. Default: one per core.", "--workers", "-w", min=1),
]
Plot = Annotated[
    Path | None,
    option(
        "FOLDER|FILE",
        "Also save figures in this folder, or beginning with this file's name: x.svg for "
        "x-loss.svg and so on, or .pdf.",
    ),
]
Executor = Annotated[
    str | None,
    option(
        "WHERE",
        "A Dask cluster, such as dask:tcp://HOST:8786. Default: processes on this machine.",
    ),
]


def compare(
    experiment: ExperimentFile = None,
    *,
    grid: Grid,
    workers: Workers = None,
    executor: Executor = None,
    as_json: AsJson = False,
    plot: Plot = None,
    force: Force = False,
    latex: Latex = None,
    device: Device = "auto",
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a grid of configs with several seeds, and compare them.

    Every combination of the values of --vary is a trial, and each trial is an ordinary run, so that
    `eval`, `predict` and `runs` work on it. Ctrl-C saves what is running. The same command
    continues and trains nothing twice, even after kill -9. To add seeds later, give it more of
    them, such as seed=1-20.

    For each group and length, the table shows mean and standard deviation over seeds, the worst and
    the best seed, the 95 % confidence interval of the mean (Student's t), and the mean difference
    from the baseline, seed by seed, with its interval. Runs on pairs of strings are compared by
    word and symbol error rates on their dev file. docs/comparing.md explains these.

    Examples:

      seq2attn compare configs/experiments/chapter.yaml

      seq2attn compare -c configs/scaled.yaml --vary seed=1-5

      seq2attn compare -c scaled --vary model.cell=gru,lstm --vary seed=1-5
    """
    from seq2attn.comparison import run
    from seq2attn.comparison.experiment import compose_experiment

    plugins = plugin or []
    composed = compose_experiment(experiment, **vars(grid))
    # files that may not be written are refused before any training
    check_latex(latex, force)
    files = _figure_files(composed.name, plot, force) if plot else {}
    comparison = run.compare(
        composed, runs_dir, device=device, plugins=plugins, workers=workers, executor=executor
    )
    _check_stopped(comparison)
    if as_json:
        write_json(comparison.to_json())
    else:
        # on a terminal a table for each group and one of all groups; in a pipe one of flat rows
        for table in comparison.tables() if on_terminal() else [comparison.table()]:
            table.show()
    if latex and comparison.groups:  # there are none if no trial is done
        save_latex(comparison.paper_table(), latex)
    if plot:
        from seq2attn.comparison.figures import figures_of

        for name, figure in figures_of(comparison).items():
            save_figure(figure, files[name])
    if comparison.groups:
        suffix = f"{runs_dir_option(runs_dir)}{plugin_options(plugins)}"
        say(f"As one page: seq2attn report {comparison.name}{suffix}")
    if comparison.failed:  # after the results of the trials that are done
        raise comparison.failure()


def _figure_files(comparison: str, plot: Path, force: bool) -> dict[str, Path]:
    """Return the file of each figure, by the figure's name. Raises `Seq2AttnError` for a file that
    may not be written.

    plot: the folder or file that --plot names.
    """
    from seq2attn.comparison.figures import figure_files
    from seq2attn.plotting.figures import check_format

    if plot.is_file():
        check_format(plot)  # `figure_files` would take a file of another format for a folder
    files = figure_files(comparison, plot)
    for path in files.values():
        check_figure(path, force)
    return files


def _check_stopped(comparison: Comparison) -> None:
    """Exit if a signal stopped the comparison before its end."""
    done = sum(len(group.trials) for group in comparison.groups)
    if comparison.stopped_by is not None and done < comparison.planned:
        progress = f"{done:,} of {comparison.planned:,} trials; running ones are saved."
        stop(comparison.stopped_by, progress, f"seq2attn {shlex.join(sys.argv[1:])}")
