"""Progress as one line that is rewritten in place, in a notebook or on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from seq2attn.comparison import running
from seq2attn.comparison.trial import Job, Outcome

SECONDS = 0.2  # between two updates


class OneLine(AbstractContextManager["OneLine"]):
    """A line of text that `show` rewrites; the last one stays.

    wanted: whether to show anything; None: in a notebook, and where standard error is a terminal.
    """

    def __init__(self, wanted: bool | None = None) -> None:
        self._notebook = _notebook_display()
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._wanted = (terminal or self._notebook is not None) if wanted is None else wanted
        self._handle: Any = None
        self._text = self._written = ""
        self._time = -SECONDS

    def show(self, text: str) -> None:
        """Rewrite the line, unless it was rewritten a moment ago; `__exit__` writes the last text."""
        self._text = text
        if time.monotonic() - self._time >= SECONDS:
            self._write()

    def __exit__(self, *_: object) -> None:
        self._write()
        if self._wanted and self._notebook is None and self._written:
            print(file=sys.stderr)

    def _write(self) -> None:
        if not self._wanted or self._text == self._written:
            return
        if self._notebook is None:
            padding = " " * max(0, len(self._written) - len(self._text))
            print(f"\r{self._text}{padding}", end="", file=sys.stderr, flush=True)
        elif self._handle is None:
            self._handle = self._notebook({"text/plain": self._text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": self._text}, raw=True)
        self._written, self._time = self._text, time.monotonic()


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in a notebook; None elsewhere."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    found: Callable[..., Any] = display
    return found


class ComparisonLine(running.Display):
    """The progress of a comparison's trials."""

    def __init__(self, line: OneLine, name: str, trials: int, waiting: int) -> None:
        self._line, self._name, self._trials, self._done = line, name, trials, trials - waiting
        self._steps: dict[str, int] = {}
        self._show()

    def started(self, job: Job) -> None:
        self._steps[job.trial.name] = 0
        self._show()

    def progress(self, job: Job, step: int) -> None:
        self._steps[job.trial.name] = step
        self._show()

    def ended(self, job: Job, outcome: Outcome) -> None:
        self._steps.pop(job.trial.name, None)
        self._done += outcome.state != "stopped"
        self._show()

    def stopping(self, running: int) -> None:
        self._line.show(f"{self._name}: stopping; {running} trials save their state")

    def _show(self) -> None:
        at = f"; training, at step {', '.join(f'{step:,}' for step in self._steps.values())}" if self._steps else ""
        self._line.show(f"{self._name}: {self._done} of {self._trials} trials done{at}")
