"""How a comparison shows itself while it runs: a bar for each running trial and one for all; plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from seq2attn.comparison.running import Display

if TYPE_CHECKING:
    from seq2attn.comparison.trial import Job, Outcome

QUIET_SECONDS = 30.0  # between two plain lines
ALL = "all trials"


def make_display(console: Console, jobs: Sequence[Job], done: int) -> TrialBars | TrialLines:
    """The display that suits the console; `done` trials were complete before."""
    suited = TrialBars if console.is_terminal and not console.is_dumb_terminal else TrialLines
    return suited(console, jobs, done)


class _Tally:
    """How far all jobs are together, in trials and in steps."""

    def __init__(self, jobs: Sequence[Job], done: int) -> None:
        self.done = done
        self.trials = done + len(jobs)
        self.steps = sum(job.trial.config.training.steps for job in jobs)
        self._at: dict[str, int] = {}

    def moved(self, job: Job, step: int) -> None:
        self._at[job.trial.name] = step

    def ended(self, job: Job, outcome: Outcome) -> None:
        if outcome.state != "stopped":
            self._at[job.trial.name] = job.trial.config.training.steps
            self.done += 1

    @property
    def steps_done(self) -> int:
        return sum(self._at.values())


class TrialBars(Display):
    """Bars on a terminal; failures scroll by above them."""

    def __init__(self, console: Console, jobs: Sequence[Job], done: int) -> None:
        self._console = console
        self._tally = _Tally(jobs, done)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
            transient=True,
        )
        self._all = self._progress.add_task(ALL, total=self._tally.steps, count=self._count())
        self._bars: dict[str, TaskID] = {}

    def started(self, job: Job) -> None:
        """A new bar."""
        total = job.trial.config.training.steps
        self._bars[job.trial.name] = self._progress.add_task(_title(job), total=total, count=f"0/{total:,}")

    def progress(self, job: Job, step: int) -> None:
        """Move the bars."""
        total = job.trial.config.training.steps
        count = f"{step:,}/{total:,}" if step < total else "measuring"
        self._progress.update(self._bars[job.trial.name], completed=step, count=count)
        self._tally.moved(job, step)
        self._progress.update(self._all, completed=self._tally.steps_done)

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Take the bar away."""
        self._progress.remove_task(self._bars.pop(job.trial.name))
        self._tally.ended(job, outcome)
        self._progress.update(self._all, completed=self._tally.steps_done, count=self._count())
        if outcome.state == "failed":
            self._console.print(f"failed: {job.trial.name}: {outcome.reason}", style="red", markup=False)

    def stopping(self, running: int) -> None:
        """Print what is waited for."""
        self._console.print(_stopping(running), style="dim")

    def _count(self) -> str:
        return f"{self._tally.done:,}/{self._tally.trials:,} trials"

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class TrialLines(Display):
    """A line for each trial that ends, and now and then one for those that run."""

    def __init__(self, console: Console, jobs: Sequence[Job], done: int) -> None:
        self._console = console
        self._tally = _Tally(jobs, done)
        self._running: dict[str, str] = {}
        self._last_line = time.monotonic()

    def started(self, job: Job) -> None:
        """Remember that it runs."""
        self._running[job.trial.name] = ""

    def progress(self, job: Job, step: int) -> None:
        """Print how far the running trials are, at most every half minute."""
        self._running[job.trial.name] = f"{job.trial.name} at step {step:,} of {job.trial.config.training.steps:,}"
        if time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._print("; ".join(filter(None, self._running.values())))

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Print how it ended."""
        self._running.pop(job.trial.name)
        self._tally.ended(job, outcome)
        if outcome.state != "stopped":
            reason = f": {outcome.reason}" if outcome.reason else ""
            self._print(f"{self._tally.done} of {self._tally.trials}: {job.trial.name} {outcome.state}{reason}")

    def stopping(self, running: int) -> None:
        """Print what is waited for."""
        self._print(_stopping(running))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _title(job: Job) -> str:
    return f"{job.trial.group}, seed {job.trial.seed}"


def _stopping(running: int) -> str:
    return f"stopping: waiting for {running} trial{'' if running == 1 else 's'} to save"
