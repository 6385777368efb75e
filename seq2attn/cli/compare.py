"""`seq2attn compare`"""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2attn.cli import options
from seq2attn.cli.options import argument, option
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options, runs_dir_option

if TYPE_CHECKING:
    from seq2attn.comparison.results import Comparison


def compare(
    experiment: Annotated[
        Path | None, argument("EXPERIMENT", "An experiment file; or give --config and --vary.")
    ] = None,
    config: Annotated[
        list[Path] | None, option("FILE", "A base config. May be repeated.", "--config", "-c")
    ] = None,
    vary: Annotated[
        list[str] | None,
        option(
            "KEY=A,B,...",
            "A key and its values, or seed=1-10, or KEY=log:1e-4..1e-2:8. May be repeated.",
        ),
    ] = None,
    overrides: options.Overrides = None,
    baseline: Annotated[
        list[str] | None,
        option("KEY=VALUE", "Compare with the group that has this value. May be repeated."),
    ] = None,
    metric: Annotated[
        str | None,
        option(
            "NAME",
            "exact_match (default), character_accuracy, correct_prefix, teacher_forced, alignment, entropy, wer, ser.",
        ),
    ] = None,
    lengths: options.Lengths = None,
    families: options.Families = None,
    samples: options.Samples = None,
    checkpoint: Annotated[
        Literal["best", "last"] | None,
        typer.Option(help="Which weights to measure: best (default, by validation) or last."),
    ] = None,
    name: Annotated[
        str | None,
        option(
            "NAME",
            "Runs are called NAME-VALUES-seed_N. Default: the experiment file's name, or compare-CONFIG.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        option("N", "Trials in parallel. Default: one per core.", "--workers", "-w", min=1),
    ] = None,
    executor: Annotated[
        str | None,
        option(
            "WHERE", "A Dask cluster, dask:tcp://HOST:8786. Default: processes of this machine."
        ),
    ] = None,
    as_json: options.AsJson = False,
    plot: Annotated[
        Path | None, option("FOLDER", "Also draw figures into it.", file_okay=False)
    ] = None,
    device: options.Device = "auto",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a grid of configs over several seeds; compare them.

    Every combination of the values of --vary is a trial, and each trial is an ordinary run, so that
    `eval`, `predict` and `runs` work on it. Ctrl-C saves. The same command continues and trains
    nothing twice, even after kill -9. More seeds later: the same command with seed=1-20.

    The table shows, for each group and length: mean and standard deviation over seeds, the worst
    and the best seed, the 95 % confidence interval of the mean (Student's), and the mean difference
    from the baseline, seed by seed, with its interval; runs on pairs of strings by word and symbol
    error rates on their dev file. docs/comparing.md explains these.

    Examples:

      seq2attn compare configs/experiments/chapter.yaml

      seq2attn compare -c configs/scaled.yaml --vary model.attention.score=dot,none --vary seed=1-5
    """
    from seq2attn.comparison import run
    from seq2attn.comparison.experiment import compose_experiment

    plugins = plugin or []
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
    comparison = run.compare(
        chosen, runs_dir, device=device, plugins=plugins, workers=workers, executor=executor
    )
    _note_unfinished(comparison)
    if as_json:
        write_json(comparison.to_json())
    else:
        for table in comparison.tables() if on_terminal() else [comparison.table()]:
            table.show()
    if plot is not None:
        from seq2attn.comparison.figures import save_figures

        plot.mkdir(parents=True, exist_ok=True)
        for path in save_figures(comparison, plot):
            say(f"figure: {path}")
    if comparison.groups:
        suffix = f"{runs_dir_option(runs_dir)}{plugin_options(plugins)}"
        say(f"As one page: seq2attn report {comparison.name}{suffix}")
    if comparison.failed:
        count = f"{len(comparison.failed):,} of {comparison.planned:,} trials failed"
        reasons = "\n".join(f"  {run}: {reason}" for run, reason in comparison.failed.items())
        raise Seq2AttnError(
            f"{count}\n{reasons}", hint="The same command retries them.", exit_code=1
        )


def _note_unfinished(comparison: Comparison) -> None:
    """Name the trials that others train. Exits if a signal stopped the comparison."""
    if comparison.busy:
        say(f"left to the processes that train them: {', '.join(comparison.busy)}")
        say("The same command shows them once they are done.")
    done = sum(len(group.trials) for group in comparison.groups)
    if comparison.stopped_by is not None and done < comparison.planned:
        name = signal.Signals(comparison.stopped_by).name
        say(
            f"stopped by {name}: {done:,} of {comparison.planned:,} trials are done; running ones are saved."
        )
        say(f"Continue with the same command: seq2attn {shlex.join(sys.argv[1:])}")
        raise typer.Exit(128 + comparison.stopped_by)
