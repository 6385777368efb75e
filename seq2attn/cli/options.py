"""What several commands share: their options, and the files that they write."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from seq2attn.display.console import printable, say
from seq2attn.errors import Seq2AttnError
from seq2attn.files import reading, write_atomically, writing
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run, is_in_run, is_training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.display.table import Table
    from seq2attn.inference.decoding import BeamSearch
    from seq2attn.inference.trained_model import TrainedModel

LATEX = "% seq2attn "  # a table for a paper begins with its command
Texts = list[str] | None  # of an option that may be repeated
NEWEST = "A run's name. Default: the newest run that is not part of a comparison."


def option(metavar: str, meaning: str, *names: str, **settings: Any) -> Any:
    """Make a `typer.Option` with this help, which calls the value `metavar`."""
    return typer.Option(*names, metavar=metavar, help=meaning, **settings)


def argument(metavar: str, meaning: str) -> Any:
    """Make a `typer.Argument` with this help, which calls the value `metavar`."""
    return typer.Argument(metavar=metavar, help=meaning)


def _load_plugins(plugins: Texts) -> list[str]:
    """Register the parts in the files of --plugin, and return the files' names."""
    if plugins:
        from seq2attn.plugins import load_plugins

        load_plugins(plugins)
    return plugins or []


def _check(parameter: typer.CallbackParam, values: Texts) -> Texts:
    """Check the values of --lengths or --families, and return them as they are: the commands read
    them again. An error names the option.
    """
    from seq2attn.config import schema

    parse = getattr(schema, f"parse_{parameter.name}")  # parse_lengths or parse_families
    try:
        if values is not None:  # the option was given
            parse(values)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"--{parameter.name}: {error.message}") from None
    return values


RunArgument = Annotated[str | None, argument("RUN", NEWEST)]
RunArguments = Annotated[Texts, argument("RUN", f"{NEWEST} May be repeated.")]
RunOptions = Annotated[
    Texts,
    option("RUN", f"{NEWEST} May be repeated.", "--run", "-r"),
]
RunsDir = Annotated[
    Path, option("FOLDER", "The directory of the runs.", envvar="SEQ2ATTN_RUNS", file_okay=False)
]
CheckpointName = Annotated[
    str,
    option(
        "best|last|step-N",
        "best (by validation), last, or step-N if training kept those weights.",
    ),
]
LoadedPlugins = Annotated[
    Texts,
    option("FILE", "A Python file with your own parts. May be repeated.", callback=_load_plugins),
]
"""the files' names; their parts are registered while the command line is parsed"""
Overrides = Annotated[
    Texts,
    option("KEY=VALUE", "Override one key of the config. May be repeated.", "--set", "-s"),
]
Device = Annotated[str, option("NAME", "auto, cpu, cuda or mps.")]
Lengths = Annotated[
    Texts,
    option(
        "N...",
        "String lengths: 3 5 7 10, or 3,5,7, or 3-10. Default: those of the config.",
        callback=_check,
    ),
]
Samples = Annotated[
    int | None, option("N", "Number of strings per length. Default: that of the config.", min=1)
]
Families = Annotated[
    Texts,
    option(
        "NAME...",
        "Kinds of strings: all, or some of those that `seq2attn list families` shows. Default: "
        "those of the config; `random` unless set.",
        callback=_check,
    ),
]
Data = Annotated[
    Path | None, option("FILE", "The file to measure on; only for a run on pairs of strings.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ideal = Annotated[bool, typer.Option("--ideal", help="Outline the ideal alignment in the figure.")]


# ---- what they lead to ----


@dataclass(frozen=True)
class Models:
    """The options of commands that several models may answer, and how they decode."""

    as_ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="Average the probabilities of the runs, as one model."),
    ] = False
    beam: Annotated[
        int | None,
        option(
            "K",
            "Beam search with K hypotheses. Default: greedy, or 5 with --length-penalty.",
            min=1,
            max=1000,
        ),
    ] = None
    length_penalty: Annotated[
        float | None,
        option("A", "Exponent of a beam's length normalisation. Default: 0, none.", min=0, max=10),
    ] = None
    checkpoint: CheckpointName = "best"
    plugin: LoadedPlugins = None
    runs_dir: RunsDir = DEFAULT_ROOT

    def load(self, runs: Sequence[Run], device: str, n_best: int = 0) -> list[TrainedModel]:
        """Load the models of runs, or with `--ensemble` one model of all, set how they decode, and
        say which checkpoint is used if it is not the wanted one or its run is still being trained.

        device: `auto`, `cpu`, `cuda` or `mps`.
        n_best: how many outputs --n-best of `predict` asks for; a beam is at least as wide. 0: it
            was not given.
        """
        from seq2attn.inference.trained_model import load_ensemble

        search = self.search(n_best)
        groups = [runs] if self.as_ensemble else [[run] for run in runs]
        models = []
        for group in groups:
            trained = load_ensemble(group, self.checkpoint, device)
            used = f"using checkpoint {trained.checkpoint} of step {trained.step:,}"
            if trained.checkpoint != self.checkpoint:
                say(f"{trained.run.checkpoint(self.checkpoint)} is missing: {used}")
            elif is_training(trained.run):
                say(f"run {trained.run.name} is still being trained: {used}")
            models.append(trained.searching(search))
        return models

    def search(self, n_best: int = 0) -> BeamSearch | None:
        """Return the beam search that the options ask for, or None for greedy decoding, which has a
        single output.

        n_best: how many outputs of each string --n-best of `predict` asks for; 0: it was not given.
        """
        if not self.beam and not n_best and self.length_penalty is None:
            return None
        from seq2attn.inference.decoding import BeamSearch

        width = max(self.beam or BeamSearch.width, n_best)
        return BeamSearch(width, self.length_penalty or 0.0)


def find_runs(root: Path, names: str | Sequence[str] | None) -> list[Run]:
    """Find the runs of these names, or of one. Without names, find the newest run, and say so."""
    if names:
        each = [names] if isinstance(names, str) else names
        return [find_run(root, name) for name in dict.fromkeys(each)]
    run = find_run(root, None)
    say(f"run: {run.path} (the newest; to use another, name it)")
    return [run]


def stop(signal_number: int, progress: str, command: str) -> NoReturn:
    """Say which signal stopped a command, how far it came and how to continue, and exit."""
    say(f"stopped by {signal.Signals(signal_number).name} after {progress}")
    say(f"Continue with: {command}")
    raise typer.Exit(128 + signal_number)


# ---- the files that a command writes where its user says ----

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a file that seq2attn did not write. A file of a run is never replaced.",
    ),
]
Latex = Annotated[Path | None, option("FILE", "Also write a table for a paper, in LaTeX.")]
FigurePath = Annotated[Path, option("FILE", "The figure: .png, .svg or .pdf.", "--plot")]


@dataclass(frozen=True)
class Shown:
    """The options of how a result is shown: as JSON instead of text, and in a figure."""

    as_json: AsJson = False
    plot: Annotated[Path | None, option("FILE", "Also save a figure: .png, .svg or .pdf.")] = None
    force: Force = False

    def __post_init__(self) -> None:
        if self.plot:
            check_figure(self.plot, self.force)


def check_output(path: Path, kind: str, mark: str | None, force: bool) -> None:
    """Raise `Seq2AttnError` if a command may not write `path`; called before any work.

    An existing file may be replaced if it is empty or contains `mark`; with `force`, whatever it
    contains. A file of a run, a link, a pipe and a device are never replaced.

    kind: what the command writes, such as "report", for messages.
    mark: a text that is in every file that the command writes; None: there is no such text.
    """
    # the nearest folder above that exists; the others are made when the file is written
    folder = next(folder for folder in path.parents if os.path.lexists(folder))
    if not folder.is_dir():
        raise Seq2AttnError(f"{path}: {folder} is not a folder")
    if not os.path.lexists(path):
        return
    hint = "Name another file."
    with reading(path, hint) as file:  # which refuses a link, a pipe and a device
        content = file.read()
    if is_in_run(path):
        raise Seq2AttnError(f"{path} exists and belongs to a run", hint=hint)
    if content and not force and (mark is None or mark.encode() not in content):
        hint = "Name another file, or replace it with --force."
        raise Seq2AttnError(f"{path} exists and is not a {kind}", hint=hint)


def write_output(path: Path, data: bytes) -> None:
    """Write a file that `check_output` allowed, and make its folder."""
    _make_folder(path)
    write_atomically(path, data)


def _make_folder(path: Path) -> None:
    """Make the folder of a file."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


def check_figure(path: Path, force: bool) -> None:
    """Raise `Seq2AttnError` if a command may not write the figure `path`."""
    from seq2attn.plotting.figures import CREATOR, check_format

    check_format(path)
    check_output(path, "figure", CREATOR, force)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure and say where, with a note on characters that no font has."""
    from seq2attn.plotting.figures import save_figure as save

    _make_folder(path)
    note = save(figure, path)
    say(f"figure: {path}")
    if note:
        say(note)


def check_latex(path: Path | None, force: bool) -> None:
    """Raise `Seq2AttnError` if a command may not write the table for a paper."""
    if path:
        check_output(path, "table for a paper", LATEX, force)


def save_latex(table: Table, path: Path) -> None:
    """Write a table for a paper, below the command that made it, and say where."""
    command = f"{LATEX}{printable(shlex.join(sys.argv[1:]))}"
    write_output(path, f"{command}\n{table.latex()}".encode(errors="backslashreplace"))
    say(f"table for a paper: {path}")
