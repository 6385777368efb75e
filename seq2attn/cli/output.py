"""Output: tables on a terminal, tab-separated lines in a pipe, messages on stderr."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seq2attn.display.console import note, on_terminal, printable, stderr, stdout, write_line
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import json_text

__all__ = ["note", "on_terminal", "printable", "stderr", "stdout", "write_line"]


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


def print_error(error: Seq2AttnError) -> None:
    """Print an error."""
    console = stderr()
    with contextlib.suppress(OSError):
        console.print("error: ", style="bold red", end="")
        console.print(printable(error.message), markup=False)
        if error.hint:
            console.print(printable(error.hint), style="dim", markup=False)


def write_json(value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, in ASCII unless the stream is Unicode: the escapes of `prepare_streams` are not JSON."""
    write_line(json_text(value, indent=indent, ensure_ascii="utf" not in (sys.stdout.encoding or "").lower()))


# ---- to go when every command uses `Table` ----


def write_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated lines under a header, for programs."""
    for line in Table([Column(name, key=name) for name in header], list(rows)).tsv():
        write_line(line)


def print_table(
    columns: Mapping[str, Sequence[str]],
    *,
    right: Sequence[str] = (),
    title: str = "",
    optional: Sequence[str] = (),
    left_out: Sequence[str] = (),
    **_: object,
) -> None:
    """Print a table, heading -> cells."""
    made = [Column(name, name in right, name in optional) for name in columns]
    notes = [f"not shown: {', '.join(left_out)}; --json has everything"] if left_out else ()
    Table(made, list(zip(*columns.values(), strict=True)), title, notes).print()


def width(columns: Mapping[str, Sequence[str]]) -> int:
    """The width of a table of these columns, heading -> cells, with the gaps between them."""
    from rich.cells import cell_len

    words = [[*name.split("\n"), *cells] for name, cells in columns.items()]
    return 1 + sum(3 + max(map(cell_len, column)) for column in words)


def with_interval(value: float, low: float | None, high: float | None, sign: str = "") -> str:
    """`0.987 [0.978, 0.992]`, or without brackets if there is no interval; `sign` "+" adds a plus to positive numbers."""
    return f"{value:{sign}.3f}" + ("" if low is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]")
