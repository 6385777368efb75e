"""Running the trials of a plan on an Executor, several at a time; a failing trial does not stop the others."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from pathlib import Path

from seq2attn.comparison import pool
from seq2attn.comparison.engine import Bundle, Engine, EngineLost, engine_of
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.trial import STOP_REQUEST, Job, Outcome, find_evaluation, run_bundle
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.runs.lock import is_training
from seq2attn.runs.machine import available_cores
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
RETRY = 1.0  # seconds before a trial that others are at work on is tried again
DIED = "its process died: killed, or out of memory"


class Display:
    """Shows the progress of the jobs. This one shows nothing; others override its methods."""

    def started(self, job: Job) -> None: ...

    def progress(self, job: Job, step: int) -> None: ...

    def ended(self, job: Job, outcome: Outcome) -> None:
        """The job ended, or its trial is run later: its outcome is then `stopped` or `busy`."""

    def stopping(self, running: int) -> None: ...


SILENT = Display()


def pending_jobs(plan: Plan, root: Path, device: str = "auto", plugins: Sequence[str] = ()) -> list[Job]:
    """Jobs for the trials of `plan` that are not yet trained and measured."""
    return [Job(trial, root, device, tuple(plugins)) for trial in plan.trials if find_evaluation(trial, root) is None]


def read_tasks(jobs: Sequence[Job]) -> list[str]:
    """Make the tasks of the jobs' configs, and read their files, so that mistakes are reported before any job runs.

    Returns what users should know about them. Raises `Seq2AttnError`.
    """
    from seq2attn.build import read_task
    from seq2attn.training.compiling import check_batches

    notes: list[str] = []
    for trial in {(str(job.trial.config.task), job.trial.config.training.compile): job.trial for job in jobs}.values():
        task = read_task(trial.config)
        task.check_families(trial.families)
        if trial.config.training.compile:
            check_batches(task)
        notes += task.notes
    return list(dict.fromkeys(notes))


def workers_for(jobs: Sequence[Job], workers: int | None = None) -> int:
    """How many jobs run at a time: `workers`, by default one per processor core, at most one per job."""
    return max(1, min(workers or available_cores(), len(jobs)))


def engine_maker(
    executor: str | Callable[[], Executor] | None,
    jobs: Sequence[Job],
    root: Path,
    workers: int | None = None,
    plugins: Sequence[str] = (),
) -> Callable[[], Executor]:
    """What `run_on` makes its engine with: `processes` of this machine (the default), `dask`, `dask:ADDRESS`, or a function.

    Raises `Seq2AttnError` for any other name, and if a Dask cluster cannot be reached or used.
    """
    if callable(executor):
        return executor
    kind, _, address = (executor or "processes").partition(":")
    if kind == "dask":
        from seq2attn.comparison.dask_engine import open_dask

        engine = open_dask(address or None, root, plugins, None if address else workers_for(jobs, workers))
        return lambda: engine
    if executor not in (None, "processes"):
        allowed = "processes, dask, dask:tcp://HOST:8786"
        guess = did_you_mean(kind, ["processes", "dask"])
        raise Seq2AttnError(f"--executor: unknown executor {shown(executor)}; {guess}allowed: {allowed}")
    at_once = workers_for(jobs, workers)
    return lambda: pool.TrialPool(at_once, plugins)


def run_on(
    make_executor: Callable[[], Executor],
    jobs: Sequence[Job],
    workers: int | None = None,
    display: Display = SILENT,
) -> dict[str, Outcome]:
    """`run_jobs`; after a first signal, running trials save and stop.

    Returns the outcomes by the trial's name; `STOP_REQUEST` has the signal's number.
    """
    STOP_REQUEST.signal = None
    with stop_on_signals(STOP_REQUEST):
        return run_jobs(jobs, make_executor, workers, display)


def failures(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """The reasons of the trials that failed, by run."""
    return {run: outcome.reason for run, outcome in outcomes.items() if outcome.state == "failed"}


class _Queue:
    """Bundles of jobs that wait or run, suspects, which ran when a worker died, and those that others are at work on."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self.waiting = deque(bundles)
        self.running: dict[Future[Sequence[Outcome]], Bundle] = {}
        self.suspects: list[Bundle] = []
        self.busy: dict[str, tuple[Job, float]] = {}
        """by the trial's name, and when to try again"""

    def next(self, at_once: int) -> Bundle | None:
        """The bundle to submit now, or None. Suspects go first, and each runs alone."""
        if self.suspects:
            return None if self.running else self.suspects[0]
        return self.waiting.popleft() if self.waiting and len(self.running) < at_once else None

    def look_at_busy(self) -> None:
        """Let those wait again that nobody is at work on any more."""
        now = time.monotonic()
        free = [job for job, retry in self.busy.values() if retry <= now and not is_training(job.run)]
        for job in free:
            del self.busy[job.trial.name]
            self.waiting.append((job,))

    @property
    def left(self) -> bool:
        return bool(self.waiting or self.running or self.suspects or self.busy)


def run_jobs(
    jobs: Sequence[Job],
    make_executor: Callable[[], Executor],
    at_once: int | None = None,
    display: Display = SILENT,
    request: StopRequest = STOP_REQUEST,
) -> dict[str, Outcome]:
    """Run every job, `at_once` at a time (by default as many as the engine can) -> outcome by the trial's name.

    `make_executor` makes an `Engine`, or any standard Executor whose workers are processes that see the runs directory. If
    a worker dies and breaks it, a new one is made and the jobs that ran at that time are run again, one by one, so that only
    the one that kills its process fails. A trial that another process is at work on is waited for. After a stop `request`,
    running jobs are waited for (`shutdown(cancel_futures=True)`); jobs that did not run have no outcome.
    Raises `EngineLost` if the engine cannot be reached any more.
    """
    outcomes: dict[str, Outcome] = {}
    engine = engine_of(make_executor())
    queue = _Queue([(job,) for job in jobs])
    try:
        while queue.left and request.signal is None:
            broken = _submit(queue, engine, at_once or engine.capacity(), display)
            if queue.running:
                done, _ = wait(queue.running, timeout=POLL, return_when=FIRST_COMPLETED)
            else:  # others are at work on all that is left
                time.sleep(POLL)
                done = set()
            broken = _collect(queue, done, outcomes, display) or broken
            if broken:
                _collect(queue, queue.running, outcomes, display)
                engine.shutdown(wait=False)
                engine = engine_of(make_executor())
            engine.check()
            queue.look_at_busy()
            for job in itertools.chain.from_iterable(queue.running.values()):
                display.progress(job, engine.steps(job))
        if queue.running:
            display.stopping(sum(map(len, queue.running.values())))
    finally:
        engine.shutdown(wait=True, cancel_futures=queue.left)
    _collect(queue, queue.running, outcomes, display)
    return outcomes


def _submit(queue: _Queue, engine: Engine, at_once: int, display: Display) -> bool:
    """Submit the bundles that can run now. Returns whether the executor is broken."""
    while (bundle := queue.next(at_once)) is not None:
        try:
            future = engine.submit(run_bundle, bundle)
        except BrokenExecutor:
            if bundle not in queue.suspects:
                queue.waiting.appendleft(bundle)
            return True
        for job in bundle:
            display.started(job)
        queue.running[future] = bundle
    return False


def _collect(
    queue: _Queue, done: Container[Future[Sequence[Outcome]]], outcomes: dict[str, Outcome], display: Display
) -> bool:
    """Record the outcomes of `done`. Returns whether the executor is broken."""
    broken = False
    for future in [future for future in queue.running if future in done]:  # in the order in which they were submitted
        bundle = queue.running.pop(future)
        suspect = bundle in queue.suspects
        try:
            found = future.result()
        except BrokenExecutor:
            broken = True
            found = [Outcome("failed", DIED) if suspect else Outcome("stopped")] * len(bundle)
            queue.suspects += [] if suspect else [(job,) for job in bundle]
        except CancelledError:
            found = [Outcome("stopped")] * len(bundle)
        except EngineLost:
            raise
        except Exception as error:  # of the executor: `run_bundle` raises none
            found = [Outcome("failed", f"{type(error).__name__}: {error}")] * len(bundle)
        if suspect:
            queue.suspects.remove(bundle)
        for job, outcome in zip(bundle, found, strict=True):
            if outcome.state == "busy":
                queue.busy[job.trial.name] = (job, time.monotonic() + RETRY)
            elif (job,) not in queue.suspects:
                outcomes[job.trial.name] = outcome
            display.ended(job, outcome)
    return broken
