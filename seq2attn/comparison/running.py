"""Running jobs on an Executor: whichever it is, some at a time, each failing alone."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Protocol

from seq2attn.comparison.trial import STOP, Job, Outcome, run_trial
from seq2attn.runs.run import Run
from seq2attn.training.signals import StopRequest

POLL = 0.25  # seconds
TAIL = 65_536  # bytes of metrics.jsonl that are read to see how far a trial is
DIED = "its process died: killed, or out of memory"


class Watcher(Protocol):
    """Who is told how the jobs go."""

    def started(self, job: Job) -> None: ...

    def progress(self, job: Job, step: int) -> None: ...

    def ended(self, job: Job, outcome: Outcome) -> None: ...

    def stopping(self, running: int) -> None: ...


class Nobody:
    """A watcher that does not look."""

    def started(self, job: Job) -> None: ...

    def progress(self, job: Job, step: int) -> None: ...

    def ended(self, job: Job, outcome: Outcome) -> None: ...

    def stopping(self, running: int) -> None: ...


NOBODY = Nobody()


class _Jobs:
    """What waits, what runs, and what runs alone because it may have killed a process."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = deque(jobs)
        self.running: dict[Future[Outcome], Job] = {}
        self.suspects: list[Job] = []

    def next(self, at_once: int) -> Job | None:
        """The job to submit now, if one may be. Suspects go first, one by one, with nothing beside them."""
        if self.suspects:
            return None if self.running else self.suspects[0]
        return self.waiting.popleft() if self.waiting and len(self.running) < at_once else None

    @property
    def left(self) -> bool:
        return bool(self.waiting or self.running or self.suspects)


def run_jobs(
    jobs: Sequence[Job],
    make_executor: Callable[[], Executor],
    at_once: int,
    watcher: Watcher = NOBODY,
    request: StopRequest = STOP,
) -> dict[str, Outcome]:
    """Run every job, `at_once` at a time -> outcome by the trial's name.

    `make_executor` makes any standard Executor whose workers see the runs directory, and run one trial at a time each
    (processes, not threads: weights are drawn from the process's own generator). It is called again when one breaks
    because a worker died. The jobs that ran then are run again, one by one, so that only the one that kills its process
    fails. When `request` asks to stop, running jobs are waited for (`shutdown(cancel_futures=True)`), and those that did
    not run have no outcome.
    """
    queue = _Jobs(jobs)
    outcomes: dict[str, Outcome] = {}
    executor = make_executor()
    try:
        while queue.left and request.signal is None:
            broken = _submit(queue, executor, at_once, watcher)
            done, _ = wait(queue.running, timeout=POLL, return_when=FIRST_COMPLETED)
            ended = [future for future in queue.running if future in done]  # in the order of the jobs
            broken = _collect(queue, ended, outcomes, watcher) or broken
            if broken:
                _collect(queue, list(queue.running), outcomes, watcher)
                executor.shutdown(wait=False)
                executor = make_executor()
            for job in queue.running.values():
                watcher.progress(job, steps_done(job.run))
        if queue.running:
            watcher.stopping(len(queue.running))
    finally:
        executor.shutdown(wait=True, cancel_futures=bool(queue.left))
    _collect(queue, list(queue.running), outcomes, watcher)
    return outcomes


def _submit(queue: _Jobs, executor: Executor, at_once: int, watcher: Watcher) -> bool:
    """Submit what may run. Returns whether the executor is broken."""
    while (job := queue.next(at_once)) is not None:
        try:
            future = executor.submit(run_trial, job)
        except BrokenExecutor:
            if job not in queue.suspects:
                queue.waiting.appendleft(job)
            return True
        watcher.started(job)
        queue.running[future] = job
    return False


def _collect(queue: _Jobs, done: Sequence[Future[Outcome]], outcomes: dict[str, Outcome], watcher: Watcher) -> bool:
    """Take in the outcomes of `done`. Returns whether the executor turned out to be broken."""
    broken = False
    for future in [future for future in queue.running if future in done]:  # in the order in which they were submitted
        job = queue.running.pop(future)
        try:
            outcome = future.result()
        except BrokenExecutor:
            broken = True
            if job not in queue.suspects:
                queue.suspects.append(job)
                watcher.ended(job, Outcome("stopped"))
                continue
            outcome = Outcome("failed", DIED)
        except CancelledError:
            outcome = Outcome("stopped")
        if job in queue.suspects:
            queue.suspects.remove(job)
        outcomes[job.trial.name] = outcome
        watcher.ended(job, outcome)
    return broken


def steps_done(run: Run) -> int:
    """The last step that a run's metrics speak of; 0 before there are any."""
    try:
        with run.metrics_file.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):  # the first line of the piece, or the last one half written
            continue
    return 0
