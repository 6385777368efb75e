"""What the display of a comparison is made of, until it uses `display.progress`."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TimeRemainingColumn


def shows_bars(console: Console) -> bool:
    """Whether a console can show live bars."""
    return console.is_terminal and not console.is_dumb_terminal


def make_progress(console: Console, before: ProgressColumn, after: ProgressColumn) -> Progress:
    """Bars between two columns, with the time left, that disappear at the end."""
    columns = (before, BarColumn(bar_width=None), after, TimeRemainingColumn(compact=True))
    return Progress(*columns, console=console, expand=True, transient=True)


class Lines:
    """Plain lines, and the time since the last one."""

    def __init__(self, console: Console, seconds: float) -> None:
        self._console, self._seconds, self._last_line = console, seconds, time.monotonic()

    def print(self, line: str) -> None:
        self._console.print(line, markup=False)
        self._last_line = time.monotonic()

    def print_if_quiet(self, line: str) -> None:
        """Print a line unless the last one is recent."""
        if time.monotonic() - self._last_line >= self._seconds:
            self.print(line)
