"""`seq2attn plot ...`: figures of a run, drawn again from what it saved. No model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note
from seq2attn.cli.usage import Command, Commands
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.inference.maps import AttentionMap
from seq2attn.runs.evaluations import latest_by_length
from seq2attn.runs.records import read_attention, read_metrics
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

plot = typer.Typer(
    name="plot",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Draw a run's loss, accuracy, or attention through training, from what it saved.",
)

Figure = Annotated[Path, typer.Option("--plot", metavar="FILE", help="The figure: .png, .svg or .pdf.")]
FigureOrAnimation = Annotated[
    Path, typer.Option("--plot", metavar="FILE", help="The figure: .png, .svg or .pdf; .gif for an animation.")
]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="RUN...", help="Runs' names; the newest where none is given.")
]


@plot.command(cls=Command)
def loss(file: Figure, runs: Names = None, runs_dir: options.RunsDir = DEFAULT_ROOT) -> None:
    """Training loss of one or several runs, in one panel.

    Examples:

      seq2attn plot loss --plot loss.png

      seq2attn plot loss scaled-001 dot-001 --plot loss.svg
    """
    _check(file)
    found = _find(runs_dir, runs)
    curves = {run.name: [(line["step"], line["loss"]) for line in read_metrics(run).steps] for run in found}
    _refuse_empty(curves, "logged no step yet")
    from seq2attn.plotting.curves import loss_figure

    _save(loss_figure(curves, _scores(found)), file)


@plot.command(cls=Command)
def accuracy(
    file: Figure,
    runs: Names = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="One run's last evaluation by string length, with intervals.")
    ] = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Exact match through training of one or several runs: the mean over the trained lengths, shaded to the worst.

    Examples:

      seq2attn plot accuracy scaled-001 dot-001 --plot accuracy.svg

      seq2attn plot accuracy scaled-001 --by-length --plot lengths.png
    """
    _check(file)
    found = _find(runs_dir, runs)
    if by_length:
        if len(found) > 1:
            raise Seq2AttnError("--by-length draws one run")
        _by_length(found[0], file)
        return
    curves = {run.name: read_metrics(run).evaluations for run in found}
    _refuse_empty(curves, "has no evaluation yet")
    from seq2attn.plotting.curves import accuracy_curves_figure

    _save(accuracy_curves_figure(curves, _scores(found)), file)


@plot.command(cls=Command)
def attention(
    file: FigureOrAnimation,
    run: options.RunArgument = None,
    strings: Annotated[
        list[str] | None, typer.Option("--string", metavar="TEXT", help="Only this watched string. May be repeated.")
    ] = None,
    ideal: Annotated[bool, typer.Option("--ideal", help="Outline the ideal alignment.")] = False,
    columns: Annotated[int, typer.Option(min=1, max=50, help="Steps in a still figure, at most.")] = 5,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Attention through training on the strings that the run watched, as a strip of maps or an animated GIF.

    Examples:

      seq2attn plot attention --plot attention.gif

      seq2attn plot attention scaled-001 --string hello --ideal --plot strip.svg
    """
    _check(file, animation=True)
    (found,) = _find(runs_dir, [run] if run else None)
    snapshots = _watched(found, strings)
    if file.suffix.lower() == ".gif":
        from seq2attn.plotting.animation import save_animation

        save_animation(snapshots, file, ideal=ideal)
        note(f"figure: {file}")
        return
    from seq2attn.plotting.attention import evolution_figure

    _save(evolution_figure(snapshots, ideal=ideal, largest=columns), file)


def _watched(run: Run, strings: list[str] | None) -> list[tuple[int, list[AttentionMap]]]:
    """The attention through training on the strings that were chosen."""
    snapshots = read_attention(run)
    if not snapshots:
        without = run.status().get("score") == "none"
        reason = "it has no attention (score 'none')" if without else "it was not evaluated yet, or by an older version"
        raise Seq2AttnError(f"run {run.name!r} kept no attention: {reason}")
    watched = [one.source for one in snapshots[0][1]]
    for text in strings or []:
        if text not in watched:
            guess = did_you_mean(text, watched)
            hint = f"Any string, as the model is now: seq2attn predict {text} --run {run.name} --plot FILE"
            raise Seq2AttnError(
                f"run {run.name!r} did not watch {shown(text)}; {guess}it watched: {', '.join(watched)}", hint=hint
            )
    places = [watched.index(text) for text in strings or watched]
    return [(step, [maps[place] for place in places]) for step, maps in snapshots]


def _by_length(run: Run, file: Path) -> None:
    latest = latest_by_length(run)
    if latest is None:
        raise Seq2AttnError(f"run {run.name!r} has no evaluation yet", hint=f"Make one: seq2attn eval {run.name}")
    from seq2attn.plotting.accuracy import accuracy_figure

    _save(accuracy_figure(latest[1], f"{run.name}: {latest[0]}"), file)


def _find(runs_dir: Path, names: list[str] | None) -> list[Run]:
    if names:
        return [find_run(runs_dir, name) for name in dict.fromkeys(names)]
    run = find_run(runs_dir, None)
    options.note_newest(run, "give its name")
    return [run]


def _scores(runs: list[Run]) -> list[str]:
    return [str(run.status().get("score")) for run in runs]


def _refuse_empty(curves: dict[str, Any], reason: str) -> None:
    for name, points in curves.items():
        if not points:
            raise Seq2AttnError(f"run {name!r} {reason}")


def _check(file: Path, *, animation: bool = False) -> None:
    from seq2attn.plotting.style import check_format

    if animation and file.suffix.lower() == ".gif":
        check_format(file.with_suffix(".png"))  # for its directory
    else:
        check_format(file)


def _save(figure: Any, file: Path) -> None:
    from seq2attn.plotting.style import save_figure

    save_figure(figure, file)
    note(f"figure: {file}")
