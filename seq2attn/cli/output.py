"""Output: tables on a terminal, tab-separated lines in a pipe, messages on stderr."""

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
from seq2attn.runs.files import json_text

if TYPE_CHECKING:
    from seq2attn.inference.intervals import Estimate


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  (rich calls this while handling a BrokenPipeError, and would otherwise exit with code 1)


class _Messages:
    """sys.stderr, except that writing to a closed terminal does nothing."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with _ignore_closed_terminal():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with _ignore_closed_terminal():
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def _ignore_closed_terminal() -> Any:
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
    """A console for messages."""
    return _Console(file=cast(IO[str], _Messages(sys.stderr)), highlight=False, soft_wrap=True)


def prepare_streams() -> None:
    """Replace closed standard streams, and escape characters that a stream's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_closed_streams() -> None:
    """Discard output that its reader no longer takes; otherwise the interpreter would exit with its own code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def note(text: str) -> None:
    """Print a message on stderr."""
    with contextlib.suppress(OSError):
        stderr().print(printable(text), style="dim", markup=False)


def note_if_slow(device: object) -> None:
    """Note why training is slower than it could be, if so."""
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
    """`seq2attn`, or its path, such as `.venv/bin/seq2attn`, if the environment is not active."""
    called = sys.argv[0]
    by_path = os.path.basename(called) == "seq2attn" and os.path.dirname(called)
    return shlex.quote(called) if by_path and shutil.which("seq2attn") is None else "seq2attn"


def write_line(text: str) -> None:
    """Write one line of a result, without markup or wrapping."""
    sys.stdout.write(f"{text}\n")


def write_json(value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, in ASCII unless the stream is Unicode: the escapes of `prepare_streams` are not JSON."""
    write_line(json_text(value, indent=indent, ensure_ascii="utf" not in (sys.stdout.encoding or "").lower()))


def write_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated lines under a header, for programs."""
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
    columns: Mapping[str, Sequence[str]],
    *,
    right: Sequence[str] = (),
    title: str = "",
    optional: Sequence[str] = (),
    left_out: Sequence[str] = (),
    wrap: bool = True,
) -> None:
    """Print a table, heading -> cells.

    If it is too wide for the terminal, cells wrap between words (`wrap`). If that is not enough, `optional` columns are
    dropped, in order. A note names them and whatever the caller has `left_out`.
    """
    console, shown, missing = stdout(), dict(columns), list(left_out)
    for name in optional:
        if (
            name in shown
            and width(shown) > console.width
            and not (wrap and _column_widths(shown, right, console.width))
        ):
            del shown[name]
            missing.append(name)
    made = table(list(shown), zip(*shown.values(), strict=True), right=right, title=title)
    if not wrap:
        for column in made.columns:
            column.no_wrap = True
        console.width = max(console.width, width(shown))  # if still too wide, the terminal breaks the lines
    elif width(shown) > console.width:
        for column, cells in zip(made.columns, _column_widths(shown, right, console.width), strict=False):
            column.width = cells
    console.print(made, soft_wrap=False)
    if missing:
        note(f"not shown at this width: {', '.join(missing)}; --json has everything")


def _column_widths(columns: Mapping[str, Sequence[str]], unbroken: Sequence[str], total: int) -> list[int]:
    """Column widths that add up to `total`: room for the longest word each, the rest in proportion to what is missing.

    Cells of columns in `unbroken` count as one word. Empty if the words alone need more than `total`.
    """
    least, wanted = [], []
    for name, cells in columns.items():
        words = [*name.split(), *(word for cell in cells for word in ([cell] if name in unbroken else cell.split()))]
        least.append(max(map(cell_len, words), default=0))
        wanted.append(max(cell_len(line) for cell in (name, *cells) for line in cell.split("\n")))
    free = total - 1 - sum(3 + one for one in least)
    if free < 0:
        return []
    missing = sum(wanted) - sum(least)
    return [low + free * (high - low) // missing for low, high in zip(least, wanted, strict=True)]


def width(columns: Mapping[str, Sequence[str]]) -> int:
    """The width of a table of these columns, heading -> cells, with the gaps between them."""
    words = [[*name.split("\n"), *cells] for name, cells in columns.items()]
    return 1 + sum(3 + max(map(cell_len, column)) for column in words)


def interval(estimate: Estimate | None) -> str:
    """`0.987 [0.978, 0.992]`, or a dash for None."""
    return "-" if estimate is None else with_interval(estimate.value, estimate.low, estimate.high)


def with_interval(value: float, low: float | None, high: float | None, sign: str = "") -> str:
    """`0.987 [0.978, 0.992]`, or without brackets if there is no interval; `sign` "+" adds a plus to positive numbers."""
    return f"{value:{sign}.3f}" + ("" if low is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]")


def printable(text: str) -> str:
    """`text` with control characters escaped, so that a file's content cannot control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
