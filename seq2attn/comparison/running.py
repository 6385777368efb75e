"""Running the trials of a plan on an Executor, several at a time, each failing alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
    """The trials of `plan` that are not trained and measured yet, as jobs."""
    return [Job(trial, root, device, tuple(plugins)) for trial in plan.trials if find_evaluation(trial, root) is None]


def workers_for(jobs: Sequence[Job], workers: int | None = None) -> int:
    """How many jobs run at a time: `workers`, by default one a processor core, and not more than there are jobs."""
    return max(1, min(workers or available_cores(), len(jobs)))


def run_in_processes(
    jobs: Sequence[Job], workers: int | None = None, plugins: Sequence[str] = (), display: Display = SILENT
) -> dict[str, Outcome]:
    """Run every job in worker processes of this machine; a first signal stops them between two steps, saved.

    Returns the outcomes by the trial's name; `STOP_REQUEST` has the signal's number if one came.
    """
    at_once = workers_for(jobs, workers)
    STOP_REQUEST.signal = None
    with stop_on_signals(STOP_REQUEST):
        return run_jobs(jobs, lambda: pool.TrialPool(at_once, plugins), at_once, display)


def failures(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """The reasons of the trials that failed, by run."""
    return {run: outcome.reason for run, outcome in outcomes.items() if outcome.state == "failed"}


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
    display: Display = SILENT,
    request: StopRequest = STOP_REQUEST,
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
            broken = _submit(queue, executor, at_once, display)
            done, _ = wait(queue.running, timeout=POLL, return_when=FIRST_COMPLETED)
            ended = [future for future in queue.running if future in done]  # in the order of the jobs
            broken = _collect(queue, ended, outcomes, display) or broken
            if broken:
                _collect(queue, list(queue.running), outcomes, display)
                executor.shutdown(wait=False)
                executor = make_executor()
            for job in queue.running.values():
                display.progress(job, steps_done(job.run))
        if queue.running:
            display.stopping(len(queue.running))
    finally:
        executor.shutdown(wait=True, cancel_futures=bool(queue.left))
    _collect(queue, list(queue.running), outcomes, display)
    return outcomes


def _submit(queue: _Jobs, executor: Executor, at_once: int, display: Display) -> bool:
    """Submit what may run. Returns whether the executor is broken."""
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


def _collect(queue: _Jobs, done: Sequence[Future[Outcome]], outcomes: dict[str, Outcome], display: Display) -> bool:
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
