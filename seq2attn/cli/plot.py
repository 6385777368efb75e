"""`seq2attn plot ...`: figures of a run from its saved records. No model is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.cli.commands import Command, group
from seq2attn.cli.options import option
from seq2attn.display.console import say
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, Run, runs_dir_option
from seq2attn.text import quoted

if TYPE_CHECKING:
    from seq2attn.runs.records import Metrics

plot = group("plot", help="Draw a run's loss, accuracy or attention through training.")


@plot.command(cls=Command)
def loss(
    file: options.Figure,
    runs: options.RunArguments = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Training loss of one or several runs, in one panel.

    Examples:

      seq2attn plot loss scaled-001 dot-001 --plot loss.svg
    """
    from seq2attn.plotting.curves import curves_figure

    chosen = options.find_runs(runs_dir, runs)
    curves, scores = _curves(
        chosen, lambda metrics: metrics.curve("loss"), "has no loss in metrics.jsonl yet"
    )
    options.save_figure(
        curves_figure(curves, scores, "training loss, nats per token", log=True), file
    )


@plot.command(cls=Command)
def accuracy(
    file: options.Figure,
    runs: options.RunArguments = None,
    by_length: Annotated[
        bool,
        typer.Option(
            "--by-length", help="One run's last evaluation by string length, with intervals."
        ),
    ] = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Exact match through training of one or several runs: the mean over the trained lengths,
    shaded to the worst.

    Examples:

      seq2attn plot accuracy scaled-001 dot-001 --plot accuracy.svg

      seq2attn plot accuracy scaled-001 --by-length --plot lengths.png
    """
    from seq2attn.plotting.curves import accuracy_curves_figure, accuracy_figure
    from seq2attn.runs.logs import latest_by_length

    chosen = options.find_runs(runs_dir, runs)
    if not by_length:
        curves, scores = _curves(
            chosen, lambda metrics: metrics.evaluations, "has no evaluation yet"
        )
        options.save_figure(accuracy_curves_figure(curves, scores), file)
        return
    if len(chosen) > 1:
        raise Seq2AttnError("--by-length draws one run")
    (run,) = chosen
    latest = latest_by_length(run)
    if latest is None:
        hint = f"Make one: seq2attn eval {run.name}{runs_dir_option(runs_dir)}"
        raise Seq2AttnError(f"run {run.name!r} has no evaluation yet", hint=hint)
    options.save_figure(accuracy_figure(latest[1], f"{run.name}: {latest[0]}"), file)


@plot.command(cls=Command)
def attention(
    file: options.Animation,
    run: options.RunArgument = None,
    strings: Annotated[
        list[str] | None, option("TEXT", "Only this recorded string. May be repeated.", "--string")
    ] = None,
    ideal: Annotated[bool, typer.Option("--ideal", help="Outline the ideal alignment.")] = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Attention through training on the run's sample strings, as a strip of maps or an animated
    GIF.

    Examples:

      seq2attn plot attention scaled-001 --string hello --ideal --plot strip.svg
    """
    from seq2attn.plotting.attention import evolution_figure, save_animation
    from seq2attn.runs.logs import read_attention

    (chosen,) = options.find_runs(runs_dir, [run] if run else None)
    snapshots = read_attention(chosen)
    if not snapshots:
        why = (
            "it has no attention (score 'none')"
            if chosen.status().score == "none"
            else "see training.snapshots"
        )
        raise Seq2AttnError(f"run {chosen.name!r} has no recorded attention: {why}")
    where, recorded = runs_dir_option(runs_dir), [one.source for one in snapshots[0][1]]
    for text in set(strings or ()) - set(recorded):
        raise Seq2AttnError(
            f"run {chosen.name!r} has no recorded attention for {quoted(text)}; recorded: {', '.join(recorded)}",
            hint=f"For any string: seq2attn predict --run {chosen.name}{where} --plot FILE -- {shlex.quote(text)}",
        )
    places = [recorded.index(text) for text in strings or recorded]
    snapshots = [(step, [maps[place] for place in places]) for step, maps in snapshots]
    if file.suffix.lower() == ".gif":
        save_animation(snapshots, file, ideal=ideal)
        say(f"figure: {file}")
    else:
        options.save_figure(evolution_figure(snapshots, ideal=ideal), file)


def _curves(
    runs: Sequence[Run], read: Callable[[Metrics], list[Any]], without: str
) -> tuple[dict[str, list[Any]], list[str]]:
    """The points of each run, by name, and the runs' scores."""
    from seq2attn.runs.logs import read_metrics

    curves = {run.name: read(read_metrics(run)) for run in runs}
    for name, points in curves.items():
        if not points:
            raise Seq2AttnError(f"run {name!r} {without}")
    return curves, [str(run.status().score) for run in runs]
