"""What people and programs are shown: tables on a terminal, tab-separated lines in a pipe, messages on stderr."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from seq2attn.inference.intervals import Estimate


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  (rich calls this while it handles the BrokenPipeError, and would exit with 1)


class _Messages:
    """sys.stderr, except that writing to a terminal that was closed does nothing."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with _ignoring_closed_terminal():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with _ignoring_closed_terminal():
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def _ignoring_closed_terminal() -> Any:
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError):
        pass


def stdout() -> Console:
    """A console for results."""
    return _Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """A console for everything else."""
    return _Console(file=cast(IO[str], _Messages(sys.stderr)), highlight=False, soft_wrap=True)


def prepare_streams() -> None:
    """Prepare the standard streams for any text: none is closed, and characters outside their encoding are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_closed_streams() -> None:
    """Drop output buffered for a reader that went away; otherwise the interpreter would set its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def on_terminal() -> bool:
    """Whether a person reads the results."""
    return sys.stdout.isatty()


def note(text: str) -> None:
    """Print a message beside the result, on stderr."""
    with contextlib.suppress(OSError):
        stderr().print(printable(text), style="dim", markup=False)


def note_if_slow(device: object) -> None:
    """Note why training is slower than it could be, if it is."""
    from seq2attn.kernels import why_slow

    reason = why_slow(device)  # type: ignore[arg-type]
    if reason is not None:
        note(reason)


def print_error(error: Seq2AttnError) -> None:
    """Print an error."""
    console = stderr()
    with contextlib.suppress(OSError):
        console.print("error: ", style="bold red", end="")
        console.print(printable(error.message), markup=False)
        if error.hint:
            console.print(printable(error.hint), style="dim", markup=False)


def program() -> str:
    """The command line's name as this shell finds it: `.venv/bin/seq2attn` where the environment is not active."""
    called = sys.argv[0]
    by_path = os.path.basename(called) == "seq2attn" and os.path.dirname(called)
    return shlex.quote(called) if by_path and shutil.which("seq2attn") is None else "seq2attn"


def write_line(text: str) -> None:
    """One line of a result, exactly."""
    sys.stdout.write(f"{text}\n")


def write_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Tab-separated lines under a header: for programs."""
    for row in (header, *rows):
        write_line("\t".join(printable(field).replace("\n", "\\n") for field in row))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), title: str = "") -> Table:
    """A table for people; the columns named in `right` are aligned to the right."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD
    )
    for name in header:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(field)) for field in row))  # as text: `[s;h]` is not markup
    return made


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    title: str = "",
    give_way: Sequence[str] = (),
) -> None:
    """Show a table that may be wider than the terminal: its cells wrap between words.

    Where there is no room for whole words the columns in `give_way` are left out, the first of them first.
    """
    console = stdout()
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    left_out = []
    for name in give_way:
        if name in columns and width(columns) > console.width and not _shares(columns, right, console.width):
            del columns[name]
            left_out.append(name)
    made = table(list(columns), zip(*columns.values(), strict=True), right=right, title=title)
    if width(columns) > console.width:
        for column, cells in zip(made.columns, _shares(columns, right, console.width), strict=False):
            column.width = cells
    console.print(made, soft_wrap=False)
    if left_out:
        note(f"too narrow for: {', '.join(left_out)}; --json has them all")


def _shares(columns: Mapping[str, Sequence[str]], right: Sequence[str], total: int) -> list[int]:
    """Widths of columns that want more than `total`: each has that of its longest word, and its share of what is left.

    A cell of a column in `right`, which is numbers, is a word. Empty where there is no room for all words.
    """
    least, wanted = [], []
    for name, cells in columns.items():
        words = [*name.split(), *(word for cell in cells for word in ([cell] if name in right else cell.split()))]
        least.append(max(map(cell_len, words), default=0))
        wanted.append(max(cell_len(line) for cell in (name, *cells) for line in cell.split("\n")))
    free = total - 1 - sum(3 + one for one in least)
    if free < 0:
        return []
    missing = sum(wanted) - sum(least)
    return [low + free * (high - low) // missing for low, high in zip(least, wanted, strict=True)]


def print_lines(
    columns: Mapping[str, Sequence[str]],
    console: Console,
    *,
    right: Sequence[str] = (),
    give_way: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> None:
    """Show a table, heading -> cells, each row on one line.

    Where the console is too narrow the columns in `give_way` are left out, the first of them first. A note says so, and
    what else was `left_out`.
    """
    shown, missing = dict(columns), list(left_out)
    for name in give_way:
        if name in shown and width(shown) > console.width:
            del shown[name]
            missing.append(name)
    made = table(list(shown), zip(*shown.values(), strict=True), right=right)
    for column in made.columns:
        column.no_wrap = True
    console.width = max(console.width, width(shown))  # rather a line that the terminal wraps than half a name or number
    console.print(made)
    if missing:
        note(f"too narrow for: {', '.join(missing)}; --json has them all")


def width(columns: Mapping[str, Sequence[str]]) -> int:
    """The width of a table of these columns, heading -> cells, with the gaps between them."""
    words = [[*name.split("\n"), *cells] for name, cells in columns.items()]
    return 1 + sum(3 + max(map(cell_len, column)) for column in words)


def interval(estimate: Estimate | None) -> str:
    """`0.987 [0.978, 0.992]`, or a dash for what was not measured."""
    return "-" if estimate is None else with_interval(estimate.value, estimate.low, estimate.high)


def with_interval(value: float, low: float | None, high: float | None, sign: str = "") -> str:
    """`0.987 [0.978, 0.992]`, without brackets where there is no interval; the sign "+" shows pluses too."""
    return f"{value:{sign}.3f}" + ("" if low is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]")


def printable(text: str) -> str:
    """`text` with control characters escaped: a file's words must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
