"""What people and programs are shown: tables on a terminal, tab-separated lines in a pipe, messages on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from seq2attn.statistics import Estimate


def stdout() -> Console:
    """A console for results."""
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """A console for everything else."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def on_terminal() -> bool:
    """Whether a person reads the results."""
    return sys.stdout.isatty()


def note(text: str) -> None:
    """Say something beside the result."""
    stderr().print(text, style="dim", markup=False)


def print_error(error: Seq2AttnError) -> None:
    """Tell a mistake in one message."""
    console = stderr()
    console.print("error: ", style="bold red", end="")
    console.print(_printable(error.message), markup=False)
    if error.hint:
        console.print(_printable(error.hint), style="dim", markup=False)


def write_line(text: str) -> None:
    """One line of a result, exactly."""
    sys.stdout.write(f"{text}\n")


def write_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Tab-separated lines under a header: for programs."""
    for row in (header, *rows):
        write_line("\t".join(row))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), title: str = "") -> Table:
    """A table for people; the columns named in `right` are aligned to the right."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD
    )
    for name in header:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))  # as text: `[s;h]` is no markup
    return made


def interval(estimate: Estimate | None) -> str:
    """`0.987 [0.978, 0.992]`, or a dash for what was not measured."""
    return "-" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _printable(text: str) -> str:
    """`text` with control characters escaped: a file's words must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
