"""The progress of one training or of many: bars on a terminal and in a notebook, lines in a pipe,
or nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from seq2attn.display.console import printable, say, stderr

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

QUIET_SECONDS = 10.0  # between two lines about steps
NOTEBOOK_SECONDS = 0.2  # between two updates in a notebook


class Display(AbstractContextManager["Display"]):
    """What shows progress, and the silent one. Trials are told apart by their names; that of a
    training alone is empty.

    As a context manager it clears the screen of its bars at the end.
    """

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        """A trial of `total` steps begins; None: their number is not known. Texts are ready-made
        and short.
        """

    def step(self, trial: str, step: int, text: str = "") -> None:
        """The trial has done `step` steps. Called often."""

    def evaluation(self, trial: str, text: str) -> None:
        """The trial was evaluated."""
        self._print(_named(trial, text))

    def end(self, trial: str, text: str = "") -> None:
        """The trial ended."""
        if text:
            self._print(_named(trial, text))

    def say(self, text: str) -> None:
        """Something that a user should know, of no trial in particular."""
        self._print(text, "dim")

    def _print(self, text: str, style: str = "") -> None:
        """Show a line that stays."""

    def __exit__(self, *_: object) -> None: ...


def _named(trial: str, text: str) -> str:
    return f"{trial}: {text}" if trial else text


def make_display(wanted: bool | None = True) -> Display:
    """The display that suits standard error. wanted: False: nothing; None: only on a terminal and
    in a notebook.
    """
    notebook, console = "ipykernel" in sys.modules, stderr()
    live = console.is_terminal and not console.is_dumb_terminal
    if wanted is False or (wanted is None and not notebook and not live):
        return Display()
    if notebook:
        return Lines(NOTEBOOK_SECONDS, _replaced_line())
    return Bars(console) if live else Lines()


def _replaced_line() -> Callable[[str], Any]:
    """What shows a line in a notebook in place of the one before."""
    from IPython.display import display

    show: Any = display  # IPython has no types
    handle = show({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": printable(text)}, raw=True)


class Lines(Display):
    """A line for each evaluation and each end; every few seconds one about the steps of all trials,
    by `show_steps`, if there is anything new.
    """

    def __init__(
        self, seconds: float = QUIET_SECONDS, show_steps: Callable[[str], Any] = say
    ) -> None:
        self._seconds, self._show_steps, self._last = seconds, show_steps, time.monotonic()
        self._running: dict[str, str] = {}
        self._shown = ""

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        self._running[trial] = text

    def step(self, trial: str, step: int, text: str = "") -> None:
        self._running[trial] = text
        if time.monotonic() - self._last >= self._seconds:
            self._last, before = time.monotonic(), self._shown
            self._shown = "; ".join(
                _named(name, said) for name, said in self._running.items() if said
            )
            if self._shown != before:
                self._show_steps(self._shown)

    def end(self, trial: str, text: str = "") -> None:
        self._running.pop(trial, None)
        super().end(trial, text)

    def _print(self, text: str, style: str = "") -> None:
        say(text, style)


class Bars(Display):
    """A bar with a text and the time left for each running trial; evaluations and ends scroll by
    above them.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        name, text = (
            TextColumn(column, markup=False)
            for column in ("{task.description}", "{task.fields[text]}")
        )
        columns = (name, BarColumn(bar_width=None), text, TimeRemainingColumn(compact=True))
        self._progress = Progress(*columns, console=console, expand=True, transient=True)
        self._bars: dict[str, TaskID] = {}

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        self._bars[trial] = self._progress.add_task(trial, total=total, text=text)

    def step(self, trial: str, step: int, text: str = "") -> None:
        self._progress.start()
        self._progress.update(self._bars[trial], completed=step, text=text)

    def end(self, trial: str, text: str = "") -> None:
        if trial in self._bars:
            self._progress.remove_task(self._bars.pop(trial))
        super().end(trial, text)

    def _print(self, text: str, style: str = "") -> None:
        say(text, style, self._progress.console)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
