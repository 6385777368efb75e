"""Running the trials of a plan on an Executor, several at a time; a failing trial does not stop the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from pathlib import Path

from seq2attn.comparison import pool
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import STOP_REQUEST, Job, Outcome, find_evaluation, run_trial
from seq2attn.runs.machine import available_cores
from seq2attn.runs.records import steps_done
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
DIED = "its process died: killed, or out of memory"


class Display:
    """Shows the progress of the jobs. This one shows nothing; others override its methods."""

    def started(self, job: Job) -> None: ...

    def progress(self, job: Job, step: int) -> None: ...

    def ended(self, job: Job, outcome: Outcome) -> None: ...

    def stopping(self, running: int) -> None: ...


SILENT = Display()


def pending_jobs(plan: Plan, root: Path, device: str = "auto", plugins: Sequence[str] = ()) -> list[Job]:
    """Jobs for the trials of `plan` that are not yet trained and measured."""
    return [Job(trial, root, device, tuple(plugins)) for trial in plan.trials if find_evaluation(trial, root) is None]


def read_files(jobs: Sequence[Job]) -> list[str]:
    """Read the files that the jobs' configs name, so that mistakes in them are reported before any job runs.

    Returns what users should know about them. Raises `Seq2AttnError`.
    """
    configs = {str(job.trial.config.task): job.trial.config for job in jobs if job.trial.on_files}
    if not configs:
        return []
    from seq2attn.model.build import read_task

    return list(dict.fromkeys(note for config in configs.values() for note in read_task(config).notes))


def workers_for(jobs: Sequence[Job], workers: int | None = None) -> int:
    """How many jobs run at a time: `workers`, by default one per processor core, at most one per job."""
    return max(1, min(workers or available_cores(), len(jobs)))


def run_in_processes(
    jobs: Sequence[Job], workers: int | None = None, plugins: Sequence[str] = (), display: Display = SILENT
) -> dict[str, Outcome]:
    """Run every job in worker processes on this machine; after a first signal they save and stop.

    Returns the outcomes by the trial's name; `STOP_REQUEST` has the signal's number.
    """
    at_once = workers_for(jobs, workers)
    STOP_REQUEST.signal = None
    with stop_on_signals(STOP_REQUEST):
        return run_jobs(jobs, lambda: pool.TrialPool(at_once, plugins), at_once, display)


def failures(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """The reasons of the trials that failed, by run."""
    return {run: outcome.reason for run, outcome in outcomes.items() if outcome.state == "failed"}


class _Jobs:
    """Jobs that wait, jobs that run, and suspects: jobs that ran when a worker died."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = deque(jobs)
        self.running: dict[Future[Outcome], Job] = {}
        self.suspects: list[Job] = []

    def next(self, at_once: int) -> Job | None:
        """The job to submit now, or None. Suspects go first, and each runs alone."""
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
    display: Display = SILENT,
    request: StopRequest = STOP_REQUEST,
) -> dict[str, Outcome]:
    """Run every job, `at_once` at a time -> outcome by the trial's name.

    `make_executor` makes any standard Executor whose workers see the runs directory and run one trial at a time each
    (processes, not threads: weights are drawn from the process's global generator). If a worker dies, a new executor is made
    and the jobs that ran at that time are run again, one by one, so that only the one that kills its process fails. After a
    stop `request`, running jobs are waited for (`shutdown(cancel_futures=True)`); jobs that did not run have no outcome.
    """
    queue = _Jobs(jobs)
    outcomes: dict[str, Outcome] = {}
    executor = make_executor()
    try:
        while queue.left and request.signal is None:
            broken = _submit(queue, executor, at_once, display)
            done, _ = wait(queue.running, timeout=POLL, return_when=FIRST_COMPLETED)
            broken = _collect(queue, done, outcomes, display) or broken
            if broken:
                _collect(queue, queue.running, outcomes, display)
                executor.shutdown(wait=False)
                executor = make_executor()
            for job in queue.running.values():
                display.progress(job, steps_done(job.run))
        if queue.running:
            display.stopping(len(queue.running))
    finally:
        executor.shutdown(wait=True, cancel_futures=bool(queue.left))
    _collect(queue, queue.running, outcomes, display)
    return outcomes


def _submit(queue: _Jobs, executor: Executor, at_once: int, display: Display) -> bool:
    """Submit the jobs that can run now. Returns whether the executor is broken."""
    while (job := queue.next(at_once)) is not None:
        try:
            future = executor.submit(run_trial, job)
        except BrokenExecutor:
            if job not in queue.suspects:
                queue.waiting.appendleft(job)
            return True
        display.started(job)
        queue.running[future] = job
    return False


def _collect(queue: _Jobs, done: Container[Future[Outcome]], outcomes: dict[str, Outcome], display: Display) -> bool:
    """Record the outcomes of `done`. Returns whether the executor is broken."""
    broken = False
    for future in [future for future in queue.running if future in done]:  # in the order in which they were submitted
        job = queue.running.pop(future)
        try:
            outcome = future.result()
        except BrokenExecutor:
            broken = True
            if job not in queue.suspects:
                queue.suspects.append(job)
                display.ended(job, Outcome("stopped"))
                continue
            outcome = Outcome("failed", DIED)
        except CancelledError:
            outcome = Outcome("stopped")
        if job in queue.suspects:
            queue.suspects.remove(job)
        outcomes[job.trial.name] = outcome
        display.ended(job, outcome)
    return broken
