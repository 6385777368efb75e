"""The files that a command writes where its user says."""

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli.options import AsJson, option
from seq2attn.display.console import printable, say, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.files import reading, write_atomically, writing
from seq2attn.runs.run import is_in_run

LATEX = "% seq2attn "  # a table for a paper begins with its command

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(table: Table, as_json: bool) -> None:
    """Print a table, as JSON if that is wanted."""
    if as_json:
        write_json(table.records())
    else:
        table.show()


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


def save_figure(figure: "Figure", path: Path) -> None:
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


# ---- options ----

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
