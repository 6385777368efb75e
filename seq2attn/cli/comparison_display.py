"""The progress of a comparison: a bar for each running trial and one for all; plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import TaskID, TextColumn

from seq2attn.cli.progress import Lines, make_progress, shows_bars
from seq2attn.comparison.running import Display

if TYPE_CHECKING:
    from seq2attn.comparison.trial import Job, Outcome

QUIET_SECONDS = 30.0  # between two plain lines
ALL = "all trials"
ENDED = ("done", "failed")  # states of an outcome


def make_display(console: Console, jobs: Sequence[Job], done: int) -> TrialBars | TrialLines:
    """The display for a console; `done` trials were complete before."""
    return (TrialBars if shows_bars(console) else TrialLines)(console, jobs, done)


def _steps(job: Job) -> int:
    """The steps of a trial; 0 where they are counted in epochs, whose length is known once its files are read."""
    return job.trial.config.training.steps or 0


def _count(job: Job, step: int) -> str:
    total = _steps(job)
    return f"step {step:,}" if not total else f"{step:,}/{total:,}" if step < total else "measuring"


def _place(job: Job, step: int) -> str:
    total = _steps(job)
    return f"step {step:,} of {total:,}" if total else f"step {step:,}"


class _Totals:
    """The progress of all jobs together, in trials and in steps."""

    def __init__(self, jobs: Sequence[Job], done: int) -> None:
        self.done = done
        self.trials = done + len(jobs)
        self.steps = sum(map(_steps, jobs))
        self.step_of: dict[str, int] = {}
        self._busy: set[str] = set()

    def ended(self, job: Job, outcome: Outcome) -> None:
        if outcome.state in ENDED:
            self.step_of[job.trial.name] = _steps(job)
            self.done += 1

    def first_busy(self, job: Job, outcome: Outcome) -> bool:
        """Whether another process is at work on the trial, and this is the first time that we hear of it."""
        first = outcome.state == "busy" and job.trial.name not in self._busy
        self._busy |= {job.trial.name} if first else set()
        return first


class TrialBars(Display, AbstractContextManager["TrialBars"]):
    """Bars on a terminal; failures scroll by above them."""

    def __init__(self, console: Console, jobs: Sequence[Job], done: int) -> None:
        self._totals = _Totals(jobs, done)
        description = TextColumn("{task.description}", markup=False)
        self._progress = make_progress(console, description, TextColumn("{task.fields[count]}"))
        self._all = self._progress.add_task(ALL, total=self._totals.steps, count=self._count())
        self._bars: dict[str, TaskID] = {}

    def started(self, job: Job) -> None:
        title = f"{job.trial.group}, seed {job.trial.seed}"
        self._bars[job.trial.name] = self._progress.add_task(title, total=_steps(job) or None, count=_count(job, 0))

    def progress(self, job: Job, step: int) -> None:
        self._progress.update(self._bars[job.trial.name], completed=step, count=_count(job, step))
        self._totals.step_of[job.trial.name] = step
        self._update_total()

    def ended(self, job: Job, outcome: Outcome) -> None:
        self._progress.remove_task(self._bars.pop(job.trial.name))
        self._totals.ended(job, outcome)
        self._update_total()
        if outcome.state == "failed":
            self._progress.console.print(f"failed: {job.trial.name}: {outcome.reason}", style="red", markup=False)
        if self._totals.first_busy(job, outcome):
            self._progress.console.print(_waiting(outcome), style="dim", markup=False)

    def stopping(self, running: int) -> None:
        self._progress.console.print(_stopping(running), style="dim")

    def _update_total(self) -> None:
        self._progress.update(self._all, completed=sum(self._totals.step_of.values()), count=self._count())

    def _count(self) -> str:
        return f"{self._totals.done:,}/{self._totals.trials:,} trials"

    def __enter__(self) -> TrialBars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class TrialLines(Display, AbstractContextManager["TrialLines"]):
    """A line for each trial that ends, and every half minute one for those that are running."""

    def __init__(self, console: Console, jobs: Sequence[Job], done: int) -> None:
        self._lines = Lines(console, QUIET_SECONDS)
        self._totals = _Totals(jobs, done)
        self._running: dict[str, str] = {}

    def started(self, job: Job) -> None:
        self._running[job.trial.name] = ""

    def progress(self, job: Job, step: int) -> None:
        self._running[job.trial.name] = f"{job.trial.name} at {_place(job, step)}"
        self._lines.print_if_quiet("; ".join(filter(None, self._running.values())))

    def ended(self, job: Job, outcome: Outcome) -> None:
        self._running.pop(job.trial.name)
        self._totals.ended(job, outcome)
        if self._totals.first_busy(job, outcome):
            self._lines.print(_waiting(outcome))
        if outcome.state in ENDED:
            reason = f": {outcome.reason}" if outcome.state == "failed" else ""
            self._lines.print(f"{self._totals.done} of {self._totals.trials}: {job.trial.name} {outcome.state}{reason}")

    def stopping(self, running: int) -> None:
        self._lines.print(_stopping(running))

    def __exit__(self, *_: object) -> None:
        pass


def _waiting(outcome: Outcome) -> str:
    return f"{outcome.reason}; waiting for that"


def _stopping(running: int) -> str:
    return f"stopping: waiting for {running} trial{'' if running == 1 else 's'} to save"
