"""Progress on stderr: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from seq2attn.cli.output import note, note_if_slow
from seq2attn.inference.results import summarise
from seq2attn.runs.run import Run

if TYPE_CHECKING:
    from seq2attn.training.loop import Results, StepReport, Trainer
    from seq2attn.training.span import Span

QUIET_SECONDS = 10.0  # between two plain lines


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


def make_display(console: Console) -> BarDisplay | LineDisplay:
    """The display of one training on a console."""
    return BarDisplay(console) if shows_bars(console) else LineDisplay(console)


def describe_evaluation(place: str, results: Results) -> str:
    """One line about an evaluation; `place` is after which step or epoch."""
    if not isinstance(results, list):
        rates = f"WER {100 * results.wer.value:.1f} %, SER {100 * results.ser:.1f} %"
        return f"{place}: {rates}, loss {results.loss:.3f} on the dev set"
    summary = summarise(results)
    worst = summary.worst
    if worst.exact_match.value == 1:
        return f"{place}: exact match 1.000 at every {'trained ' if worst.trained else ''}length"
    at_worst = f"worst: {worst.exact_match.value:.3f} at length {worst.length}"
    return f"{place}: exact match {summary.exact_match:.3f} on average; {at_worst}"


def _note_other_kernels(trainer: Trainer) -> None:
    """Note that the kernels have changed since the run was started: their sums differ in the last digits."""
    from seq2attn.kernels import describe_kernels

    before, now = trainer.run.environment().kernels or "not compiled", describe_kernels(trainer.device)
    if before != now:
        note(f"{trainer.run.path} was started with other kernels ({before}) than it continues with ({now})")
        note("its weights will not be bit-identical to those of an uninterrupted run")


class _Display(AbstractContextManager["_Display"]):
    run: Run | None = None
    """the run whose training has begun"""
    was_finished = False
    """whether the run was finished before"""
    _span: Span | None = None

    def _place(self, step: int) -> str:
        return f"step {step:,}" if self._span is None else self._span.place(step)

    def begin(self, trainer: Trainer, *, locked: bool) -> None:
        """Print what a user should know before training starts."""
        self.run, self.was_finished, self._span = trainer.run, trainer.finished, trainer.span
        path, step = trainer.run.path, trainer.progress.step
        if not locked:
            note(f"{path}: this file system has no locks; make sure that only one process trains this run")
        if trainer.finished:
            note(f"{path} is finished: {trainer.span.done(step)}")
            return
        for line in trainer.data.task.notes:
            note(line)
        if trainer.run.status().step and not step:
            note(f"{trainer.run.checkpoint('last')} is missing: training restarts from step 0")
        if trainer.config.training.compile:
            note("compiling the first step: a minute or more, or ten seconds if PyTorch has kept it from before")
        elif trainer.config.model.architecture == "gru":
            note_if_slow(trainer.device)
            if step:
                _note_other_kernels(trainer)
        note(f"{'resuming' if step else 'training'} {path} on {trainer.device} from {trainer.span.place(step)}")

    def __exit__(self, *_: object) -> None:
        pass


class BarDisplay(_Display):
    """A bar with loss, accuracy, tokens/s and time left; evaluations scroll by above it."""

    def __init__(self, console: Console) -> None:
        before, after = TextColumn("{task.description}"), TextColumn("{task.fields[numbers]}")
        self._progress = make_progress(console, before, after)

    def step(self, report: StepReport) -> None:
        if not self._progress.task_ids:
            self._progress.start()
            self._progress.add_task("", total=report.steps, numbers="")
        self._progress.update(
            self._progress.task_ids[0],
            completed=report.step,
            description=report.place,
            numbers=f"loss {report.loss:.3f}  accuracy {report.accuracy:.3f}  {report.tokens_per_second:,.0f} tokens/s",
        )

    def evaluation(self, step: int, results: Results) -> None:
        self._progress.console.print(describe_evaluation(self._place(step), results))

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class LineDisplay(_Display):
    """A line for each evaluation, and every ten seconds one about the training steps."""

    def __init__(self, console: Console) -> None:
        self._lines = Lines(console, QUIET_SECONDS)

    def step(self, report: StepReport) -> None:
        self._lines.print_if_quiet(
            f"{report.place}: loss {report.loss:.4f}, accuracy {report.accuracy:.3f}, "
            f"{report.tokens_per_second:,.0f} target tokens/s"
        )

    def evaluation(self, step: int, results: Results) -> None:
        self._lines.print(describe_evaluation(self._place(step), results))
