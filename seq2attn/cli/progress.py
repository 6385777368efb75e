"""How training shows itself: a live bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from seq2attn.cli.output import note, note_if_slow
from seq2attn.inference.results import LengthResult, summarise
from seq2attn.runs.run import Run

if TYPE_CHECKING:
    from seq2attn.training.loop import StepReport, Trainer

QUIET_SECONDS = 10.0  # between two plain lines


def make_display(console: Console) -> BarDisplay | LineDisplay:
    """The display that suits the console."""
    return BarDisplay(console) if console.is_terminal and not console.is_dumb_terminal else LineDisplay(console)


def describe_evaluation(step: int, results: list[LengthResult]) -> str:
    """One line about an evaluation."""
    summary = summarise(results)
    worst = summary.worst
    if worst.exact_match.value == 1:
        return f"step {step:,}: exact match 1.000 at every {'trained ' if worst.trained else ''}length"
    at_worst = f"worst: {worst.exact_match.value:.3f} at length {worst.length}"
    return f"step {step:,}: exact match {summary.exact_match:.3f} on average; {at_worst}"


def note_start(trainer: Trainer, *, locked: bool) -> None:
    """What a user should know before a training begins."""
    run, step = trainer.run, trainer.progress.step
    if not locked:
        note(f"{run.path}: this file system has no locks; make sure that only one process trains this run")
    if trainer.finished:
        note(f"{run.path} is finished: {step:,} of {trainer.config.training.steps:,} steps")
        return
    if run.status().get("step") and not step:
        note(f"{run.checkpoint('last')} is gone: training starts again from step 0")
    if trainer.config.model.architecture == "gru":
        note_if_slow(trainer.device)
        if step:
            _note_other_kernels(trainer)
    note(f"{'resuming' if step else 'training'} {run.path} on {trainer.device} from step {step:,}")


def _note_other_kernels(trainer: Trainer) -> None:
    """That a run continues with other kernels than it began with, whose sums differ in their last digits."""
    from seq2attn.kernels import describe_kernels

    before, now = trainer.run.environment().get("kernels", "not compiled"), describe_kernels(trainer.device)
    if before != now:
        note(f"{trainer.run.path} was begun with other recurrences ({before}) than there are now ({now})")
        note("its weights will not be those of a run that was never stopped")


class _Display:
    """What both displays do."""

    run: Run | None = None
    """the run whose training has begun"""
    was_finished = False
    """the run was finished before"""

    def begin(self, trainer: Trainer, *, locked: bool) -> None:
        """Note where training begins."""
        note_start(trainer, locked=locked)
        self.run, self.was_finished = trainer.run, trainer.finished

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class BarDisplay(_Display):
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
            self._progress.start()
            self._task = self._progress.add_task("", total=report.steps, numbers="")
        numbers = (
            f"loss {report.loss:.4f}  accuracy {report.accuracy:.3f}  {report.tokens_per_second:,.0f} target tokens/s"
        )
        self._progress.update(self._task, completed=report.step, numbers=numbers)

    def evaluation(self, step: int, results: list[LengthResult]) -> None:
        """Print a line above the bar."""
        self._console.print(describe_evaluation(step, results))

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class LineDisplay(_Display):
    """Plain lines: each evaluation, and every ten seconds how far training is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_line = time.monotonic()

    def step(self, report: StepReport) -> None:
        """Print where training is, at most every ten seconds."""
        if time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._print(
                f"step {report.step:,} of {report.steps:,}: loss {report.loss:.4f}, accuracy {report.accuracy:.3f}, "
                f"{report.tokens_per_second:,.0f} target tokens/s"
            )

    def evaluation(self, step: int, results: list[LengthResult]) -> None:
        """Print how the model does."""
        self._print(describe_evaluation(step, results))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)
        self._last_line = time.monotonic()
