"""How training shows itself: a live bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from seq2attn.inference.results import LengthResult
    from seq2attn.training.loop import StepReport

QUIET_SECONDS = 10.0  # between two plain lines


def make_display(console: Console) -> BarDisplay | LineDisplay:
    """The display that suits the console."""
    return BarDisplay(console) if console.is_terminal and not console.is_dumb_terminal else LineDisplay(console)


def describe_evaluation(step: int, results: list[LengthResult]) -> str:
    """One line about an evaluation."""
    trained = [result for result in results if result.trained] or results
    worst = min(trained, key=lambda result: result.exact_match.value)
    mean = sum(result.exact_match.value for result in trained) / len(trained)
    if worst.exact_match.value == 1:
        return f"step {step:,}: exact match 1.000 at every {'trained ' if worst.trained else ''}length"
    at_worst = f"worst: {worst.exact_match.value:.3f} at length {worst.length}"
    return f"step {step:,}: exact match {mean:.3f} on average; {at_worst}"


class BarDisplay:
    """A rich progress bar with loss, accuracy, tokens/s and time left; evaluations scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
            transient=True,
        )
        self._task: TaskID | None = None

    def step(self, report: StepReport) -> None:
        """Move the bar."""
        if self._task is None:
            self._task = self._progress.add_task("", total=report.steps, numbers="")
        numbers = (
            f"loss {report.loss:.4f}  accuracy {report.accuracy:.3f}  {report.tokens_per_second:,.0f} target tokens/s"
        )
        self._progress.update(self._task, completed=report.step, numbers=numbers)

    def evaluation(self, step: int, results: list[LengthResult]) -> None:
        """Print a line above the bar."""
        self._console.print(describe_evaluation(step, results))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class LineDisplay:
    """Plain lines: each evaluation, and every ten seconds where it stands."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = time.monotonic()

    def step(self, report: StepReport) -> None:
        """Say where training is, if nothing was said for a while."""
        if time.monotonic() - self._said >= QUIET_SECONDS:
            self._say(
                f"step {report.step:,} of {report.steps:,}: loss {report.loss:.4f}, accuracy {report.accuracy:.3f}, "
                f"{report.tokens_per_second:,.0f} target tokens/s"
            )

    def evaluation(self, step: int, results: list[LengthResult]) -> None:
        """Say how the model does."""
        self._say(describe_evaluation(step, results))

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False)
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
