"""The progress of one training or of many: bars on a terminal, lines in a pipe, one line in a
notebook, or nothing.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from seq2attn.display.console import say, stderr

if TYPE_CHECKING:
    from rich.console import Console

QUIET_SECONDS = 10.0  # between two lines about steps
AVERAGED_SECONDS = 300.0  # over which speed is averaged for the time left


class Display(AbstractContextManager["Display"]):
    """A display that shows nothing; the others derive from it.

    Trials are told apart by their names; that of a training alone is empty. As a context manager, a
    display clears its bars from the screen at the end.
    """

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        """Begin a trial of `total` steps; None: their number is not known."""

    def step(self, trial: str, step: float, text: str = "") -> None:
        """Show that the trial has done `step` steps. Called often."""

    def evaluation(self, text: str) -> None:
        """Show what an evaluation in training measured."""
        self.say(text, "")

    def end(self, trial: str, text: str = "") -> None:
        """End a trial."""
        if text:
            self.say(_named(trial, text), "")

    def say(self, text: str, style: str = "dim") -> None:
        """Show a line that stays."""

    def __exit__(self, *_: object) -> None: ...


def _named(trial: str, text: str) -> str:
    return f"{trial}: {text}" if trial else text


def make_display(wanted: bool | None = True, seconds: float = QUIET_SECONDS) -> Display:
    """Return the display that suits standard error.

    wanted: False: the display that shows nothing; None: that one, too, but only where standard
        error is neither a terminal nor in a notebook; True: one that shows something everywhere.
    seconds: between two lines about steps where standard error is a pipe or a file.
    """
    console = stderr()
    if wanted is False:
        return Display()
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console)
    if "ipykernel" in sys.modules:  # in a notebook
        return Line()
    return Lines(seconds) if wanted else Display()


class Lines(Display):
    """A line for each evaluation and each end; every few seconds one about the steps of all trials,
    if there is anything new.
    """

    def __init__(self, seconds: float = QUIET_SECONDS) -> None:
        self._seconds = seconds
        self._last_time = time.monotonic()
        self._last_line = ""
        self._running: dict[str, str] = {}  # trial -> its text

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        self._running[trial] = text

    def step(self, trial: str, step: float, text: str = "") -> None:
        """Keep the trial's text, which says the step, too; if a line is due, print those of all
        trials that have one.
        """
        self._running[trial] = text
        if time.monotonic() - self._last_time < self._seconds:
            return
        self._last_time = time.monotonic()
        line = "; ".join(_named(name, said) for name, said in self._running.items() if said)
        if line != self._last_line:
            self._last_line = line
            self.evaluation(line)  # prints the line; in a notebook it replaces the last one

    def end(self, trial: str, text: str = "") -> None:
        self._running.pop(trial, None)
        super().end(trial, text)

    def say(self, text: str, style: str = "dim") -> None:
        say(text, style)


class Line(Lines):
    """In a notebook, a single one of these lines, which the next replaces; ends stay."""

    _shown: Any = None

    def evaluation(self, text: str) -> None:
        """Show a text in place of the last one: the first call makes an output of the notebook's
        cell, and keeps its handle, by which later calls change it.
        """
        import IPython.display

        ipython: Any = IPython.display  # it has no types
        content = {"text/plain": text}
        if self._shown is None:
            self._shown = ipython.display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)


class Bars(Display):
    """A bar with a text and the time left for each running trial; evaluations and ends scroll by
    above them.
    """

    def __init__(self, console: Console) -> None:
        """Make Rich's progress, which is shown from the first `step` on."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),  # as wide as the other columns allow
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
            speed_estimate_period=AVERAGED_SECONDS,
            transient=True,  # cleared from the screen at the end
        )
        self._bars: dict[str, Any] = {}  # trial -> Rich's number of its bar

    def begin(self, trial: str, total: int | None, text: str = "") -> None:
        self._bars[trial] = self._progress.add_task(trial, total=total, text=text)

    def step(self, trial: str, step: float, text: str = "") -> None:
        self._progress.start()  # the first time; later it does nothing
        self._progress.update(self._bars[trial], completed=step, text=text)

    def end(self, trial: str, text: str = "") -> None:
        if trial in self._bars:
            self._progress.remove_task(self._bars.pop(trial))
        super().end(trial, text)

    def say(self, text: str, style: str = "dim") -> None:
        say(text, style, self._progress.console)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
