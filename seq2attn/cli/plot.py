"""`seq2attn plot ...`: figures of a run from its saved records. No model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.options import Command, group, option
from seq2attn.display.console import say
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, runs_dir_option
from seq2attn.text import quoted

plot = group("plot", help="Draw a run's accuracy or attention through training.")


@plot.command(cls=Command)
def accuracy(
    file: Annotated[Path, option("FILE", "The figure: .png, .svg or .pdf.", "--plot")],
    names: options.RunArguments = None,
    by_length: Annotated[
        bool,
        typer.Option(
            "--by-length",
            help="Draw the last evaluation of one run by string length, with intervals.",
        ),
    ] = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Draw the exact match of one or several runs through training.

    A line is the mean over the trained lengths; the shading below it reaches down to the worst
    length.

    Examples:

      seq2attn plot accuracy scaled-001 dot-001 --plot accuracy.svg

      seq2attn plot accuracy scaled-001 --by-length --plot lengths.png
    """
    from seq2attn.plotting.curves import accuracy_curves_figure, accuracy_figure
    from seq2attn.runs.logs import latest_by_length, read_metrics

    runs = options.find_runs(runs_dir, names)
    if not by_length:
        curves = {run.name: read_metrics(run).evaluations for run in runs}
        for name, evaluations in curves.items():
            if not evaluations:
                raise Seq2AttnError(f"run {name!r} has no evaluation yet")
        scores = [str(run.status().score) for run in runs]
        options.save_figure(accuracy_curves_figure(curves, scores), file)
        return
    if len(runs) > 1:
        raise Seq2AttnError("--by-length draws one run")
    (run,) = runs
    latest = latest_by_length(run)
    if latest is None:
        hint = f"Make one: seq2attn eval {run.name}{runs_dir_option(runs_dir)}"
        raise Seq2AttnError(f"run {run.name!r} has no evaluation yet", hint=hint)
    when, evaluation = latest
    options.save_figure(accuracy_figure(evaluation, f"{run.name}: {when}"), file)


@plot.command(cls=Command)
def attention(
    file: Annotated[
        Path, option("FILE", "The figure: .png, .svg or .pdf, or an animated .gif.", "--plot")
    ],
    name: options.RunArgument = None,
    strings: Annotated[
        options.Texts,
        option("TEXT", "Draw only this recorded string. May be repeated.", "--string"),
    ] = None,
    ideal: options.Ideal = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Draw attention through training on the run's sample strings: maps, or an animated GIF.

    Examples:

      seq2attn plot attention scaled-001 --string hello --ideal --plot strip.svg
    """
    from seq2attn.plotting.attention import evolution_figure, save_animation
    from seq2attn.runs.logs import read_attention

    (run,) = options.find_runs(runs_dir, name and [name])
    snapshots = read_attention(run)
    if not snapshots:
        raise Seq2AttnError(
            f"run {run.name!r} (score {run.status().score}) has no recorded attention",
            hint="Only a score other than none has attention, recorded training.snapshots times.",
        )
    recorded = [map.source for map in snapshots[0][1]]
    for text in strings or ():
        if text not in recorded:
            raise Seq2AttnError(
                f"run {run.name!r} has no recorded attention for {quoted(text)}; "
                f"recorded: {', '.join(recorded)}",
                hint=f"For any string: seq2attn predict STRING --run {run.name}"
                f"{runs_dir_option(runs_dir)} --plot FILE",
            )
    chosen = [recorded.index(text) for text in strings or recorded]
    snapshots = [(step, [maps[index] for index in chosen]) for step, maps in snapshots]
    if file.suffix.lower() == ".gif":
        save_animation(snapshots, file, ideal=ideal)
        say(f"figure: {file}")
    else:
        options.save_figure(evolution_figure(snapshots, ideal=ideal), file)
