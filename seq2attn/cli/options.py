"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from seq2attn.display.console import say
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import FAMILIES
from seq2attn.runs.run import DEFAULT_ROOT, Run, all_runs, find_run, is_training

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from seq2attn.inference.decoding import BeamSearch
    from seq2attn.inference.trained_model import TrainedModel

Parsed = TypeVar("Parsed")


def _check_figure(path: Path | None) -> Path | None:
    if path is not None:
        from seq2attn.plotting.style import check_format

        check_format(path)
    return path


def _check_animation(path: Path) -> Path:
    _check_figure(path.with_suffix(".png") if path.suffix.lower() == ".gif" else path)
    return path


def _load_plugins(ctx: typer.Context, plugins: list[str] | None) -> list[str]:
    """Register the parts in each file."""
    if plugins and not ctx.resilient_parsing:  # resilient: while the shell completes a line
        from seq2attn.plugins import load_plugins

        load_plugins(plugins)
    return plugins or []


def runs(ctx: typer.Context) -> list[str]:
    """The names of runs that the shell offers when Tab is pressed."""
    root = Path(ctx.params.get("runs_dir") or os.environ.get("SEQ2ATTN_RUNS") or DEFAULT_ROOT)
    return sorted(run.name for run in all_runs(root))


def option(metavar: str, meaning: str, *names: str, **settings: Any) -> Any:
    """`typer.Option` of this help, which calls the value `metavar`."""
    return typer.Option(*names, metavar=metavar, help=meaning, **settings)


def argument(metavar: str, meaning: str, **settings: Any) -> Any:
    """`typer.Argument` of this help, which calls the value `metavar`."""
    return typer.Argument(metavar=metavar, help=meaning, **settings)


NEWEST = "A run's name. Default: the newest that is not a trial of a comparison."
_RUN: Any = {"metavar": "RUN", "autocompletion": runs}
_FIGURE: Any = {"metavar": "FILE", "callback": _check_figure}

RunArgument = Annotated[str | None, typer.Argument(help=NEWEST, **_RUN)]
RunArguments = Annotated[
    list[str] | None, typer.Argument(help=f"{NEWEST} May be repeated.", **_RUN)
]
RunOptions = Annotated[
    list[str] | None, typer.Option("--run", "-r", help=f"{NEWEST} Several: an ensemble.", **_RUN)
]
RunsDir = Annotated[
    Path, option("FOLDER", "The directory of the runs.", envvar="SEQ2ATTN_RUNS", file_okay=False)
]
CheckpointName = Annotated[
    str,
    option(
        "best|last|step-N",
        "best (by validation), last, or step-N where training kept the weights.",
        autocompletion=lambda: ["best", "last"],
    ),
]
Plugins = Annotated[
    list[str] | None,
    option(
        "FILE", "A Python file with parts of your own. May be repeated.", callback=_load_plugins
    ),
]
"""the files' names; their parts are registered when the command line is read"""
Overrides = Annotated[
    list[str] | None,
    option("KEY=VALUE", "Override one key of the config. May be repeated.", "--set", "-s"),
]
Device = Annotated[
    str,
    option(
        "NAME", "auto, cpu, cuda or mps.", autocompletion=lambda: ["auto", "cpu", "cuda", "mps"]
    ),
]
Lengths = Annotated[
    list[str] | None, option("N...", "Lengths: 3 5 7 10, or 3,5,7, or 3-10. Default: the config's.")
]
Samples = Annotated[int | None, option("N", "Strings per length. Default: the config's.", min=1)]
Families = Annotated[
    list[str] | None,
    option(
        "NAME...",
        "Kinds of strings: all, or some of `seq2attn list families`. Default: the config's (random, unless it says more).",
        autocompletion=FAMILIES.names,
    ),
]
Beam = Annotated[
    int | None, option("K", "Beam search over K outputs. Default: greedy.", min=1, max=1000)
]
LengthPenalty = Annotated[
    float | None,
    option("A", "Exponent of the beam's length normalisation. Default: 0, none.", min=0, max=10),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[
    Path | None, typer.Option(help="Also save a figure: .png, .svg or .pdf.", **_FIGURE)
]
Figure = Annotated[Path, typer.Option("--plot", help="The figure: .png, .svg or .pdf.", **_FIGURE)]
Animation = Annotated[
    Path,
    option("FILE", ".png, .svg or .pdf; .gif: an animation.", "--plot", callback=_check_animation),
]


def parsed(name: str, parse: Callable[..., Parsed], *values: Any) -> Parsed:
    """What `parse` makes of the values of an option such as `--lengths`. Errors name the option."""
    try:
        return parse(*values)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"{name}: {error.message}") from None


def beam_search(
    beam: int | None, length_penalty: float | None, n_best: int | None = None
) -> BeamSearch | None:
    """The search that these options ask for; None for greedy decoding. `--n-best` alone implies a
    beam.
    """
    if beam is None and n_best is None:
        if length_penalty is not None:
            raise Seq2AttnError(
                "--length-penalty ranks the outputs of a beam", hint="Add --beam, such as --beam 5."
            )
        return None
    if beam is not None and n_best is not None and n_best > beam:
        raise Seq2AttnError(
            f"--n-best {n_best} asks for more outputs than --beam {beam} keeps",
            hint="Widen the beam.",
        )
    from seq2attn.inference.decoding import BeamSearch

    default = BeamSearch()
    return BeamSearch(
        beam or max(default.width, n_best or 1), length_penalty or default.length_penalty
    )


def find_runs(root: Path, names: Sequence[str] | None, how: str = "its name") -> list[Run]:
    """The runs of these names; without any, the newest, and a note of that and `how` to choose
    another.
    """
    if names:
        return [find_run(root, name) for name in dict.fromkeys(names)]
    run = find_run(root, None)
    experiment = run.environment().experiment
    trial = "" if experiment is None else f", a trial of {experiment[:80]}"
    say(f"run: {run.path} (the newest{trial}; choose another with {how})")
    return [run]


def note_checkpoint(run: Run, wanted: str, trained: TrainedModel) -> None:
    """Note that the run is still being trained, or that the `wanted` checkpoint does not exist, and
    which one is used.
    """
    used = f"this is checkpoint {trained.checkpoint}, of step {trained.step:,}"
    if trained.checkpoint != wanted:
        say(f"{run.checkpoint(wanted)} is missing: {used}")
    elif is_training(run):
        say(f"run {run.name} is still being trained: {used}")


def save_figure(figure: MatplotlibFigure, path: Path) -> None:
    """Write a figure and note where."""
    from seq2attn.plotting.style import save_figure as save

    save(figure, path)
    say(f"figure: {path}")
