"""The progress of a comparison as plain lines."""

from __future__ import annotations

from rich.console import Console

from seq2attn.cli.output import note
from seq2attn.cli.progress import Lines

QUIET_SECONDS = 30.0  # between two plain lines


class TrialLines:
    """A line for each trial that ends, and every half minute one for those that are running."""

    def __init__(self, console: Console) -> None:
        self._lines = Lines(console, QUIET_SECONDS)
        self._running: dict[str, str] = {}

    def begin(self, trial: str, total: int, text: str) -> None:
        self._running[trial] = ""

    def step(self, trial: str, step: int, text: str) -> None:
        self._running[trial] = f"{trial} at {text}"
        self._lines.print_if_quiet("; ".join(filter(None, self._running.values())))

    def end(self, trial: str, text: str) -> None:
        self._running.pop(trial)
        if text:
            self._lines.print(text)

    def note(self, text: str) -> None:
        note(text)
