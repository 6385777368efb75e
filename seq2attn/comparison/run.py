"""Running the trials of a plan, several at a time, on any `concurrent.futures.Executor`; a failing
one stops no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import re
import secrets
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.plan import make_plan, save_plan
from seq2attn.comparison.results import Comparison, gather
from seq2attn.comparison.trial import (
    Outcome,
    Trial,
    WorkerContext,
    find_evaluation,
    train_and_measure,
    versions,
)
from seq2attn.display.console import escape_streams
from seq2attn.display.progress import Display, make_display
from seq2attn.errors import Seq2AttnError
from seq2attn.plugins import loaded
from seq2attn.runs.files import writing
from seq2attn.runs.logs import last_step
from seq2attn.runs.machine import available_cores, choose_device
from seq2attn.runs.run import is_training
from seq2attn.text import quoted
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
ANSWER = 5  # seconds for a Dask scheduler to answer
DIED = Outcome("failed", "its process died: killed, or out of memory")
LOST = "the connection to the executor of the trials is lost; finished trials are kept"
ALL = "all trials"  # as the display calls their total

ExecutorWord = str | Callable[[], Executor] | None
"""processes of this machine (None), `dask:ADDRESS`, or a function that makes an Executor"""
DASK = re.compile(r"dask:(inproc://.+|((tcp|tls|ucx|wss?)://)?(\[[^][/]+]|[^][:/\s]+):[0-9]{1,5})")


def compare(
    experiment: Experiment,
    root: Path,
    *,
    device: str,
    plugins: Sequence[str],
    workers: int | None,
    executor: ExecutorWord,
    progress: bool | None = True,
) -> Comparison:
    """Train and measure the trials of `experiment` that are not done, in `root`, and gather the
    results of all.

    workers: trials at a time; by default one per core, or per Dask worker. progress: as for
    `make_display`. The first signal stops: running trials are saved, and the comparison has its
    number. Raises `Seq2AttnError` for what keeps all trials from running.
    """
    if not (
        DASK.fullmatch(executor)
        if isinstance(executor, str)
        else executor is None or callable(executor)
    ):
        expected = "dask:ADDRESS, such as dask:tcp://HOST:8786, or in Python a function that makes an Executor"
        raise Seq2AttnError(f"--executor: expected {expected}, found {quoted(executor)}")
    plan = make_plan(experiment, root)
    trials = [
        replace(trial, root=root.resolve())
        for trial in plan.trials
        if find_evaluation(trial) is None
    ]
    name, done = plan.name, len(plan.trials) - len(trials)
    with make_display(progress) as display, stop_on_signals() as request:
        if not trials:
            save_plan(plan, root)
            display.say(f"{name}: all {done:,} trials are done")
            return gather(plan)
        for line in _read_tasks(trials, None if isinstance(executor, str) else device):
            display.say(line)
        with (
            _executors(executor, workers, len(trials)) as (make_executor, at_once),
            _workplace(root.resolve(), device, plugins) as place,
        ):
            save_plan(plan, root)
            counts = f"{len(plan.trials):,} trials, {done:,} done, {len(trials):,} to run, {at_once():,} at a time"
            display.say(f"{name}: {counts}; runs in {root}")
            outcomes = run_trials(trials, place, make_executor, at_once, display, request)
            save_plan(plan, root)  # another job may have written its trials meanwhile
    failed = {
        name: outcome.reason for name, outcome in outcomes.items() if outcome.state == "failed"
    }
    busy = tuple(name for name, outcome in outcomes.items() if outcome.state == "busy")
    return replace(gather(plan), failed=failed, busy=busy, stopped_by=request.signal)


def _read_tasks(trials: Sequence[Trial], device: str | None) -> list[str]:
    """Read the files of the trials' tasks before any runs; what users should know about them, and
    `device` if it is here.
    """
    from seq2attn.build import load_task
    from seq2attn.training.step import may_compile, why_slow

    slow = device and why_slow(choose_device(device))  # raises if there is no such device
    notes = [slow for trial in trials if slow and may_compile(trial.config)]
    tasks = {
        str((one.config.task, one.config.evaluation, one.families, one.lengths)): one
        for one in trials
    }
    for trial in tasks.values():
        task, while_training = load_task(trial.config), trial.config.evaluation
        task.check_evaluation(trial.families, trial.lengths)
        task.check_evaluation(while_training.families, while_training.lengths or ())
        notes += task.notes
    return list(dict.fromkeys(notes))


# ---- where trials run ----

Executors = tuple[Callable[[], Executor], Callable[[], int]]
"""a function that makes executors, and one that tells how many trials can run at a time now"""


def _executors(
    executor: ExecutorWord, workers: int | None, trials: int
) -> AbstractContextManager[Executors]:
    if isinstance(executor, str):
        return _dask(executor.removeprefix("dask:"), workers)
    count = max(1, min(workers or available_cores(), trials))
    return contextlib.nullcontext((executor or (lambda: process_pool(count)), lambda: count))


def process_pool(workers: int) -> Executor:
    """Processes of this machine that end when this process ends, however it ends."""
    context = SpawnContext()
    context.Process = _Worker  # type: ignore[misc]
    return futures.ProcessPoolExecutor(workers, mp_context=context)


class _Worker(SpawnProcess):
    """Ends with its parent, and never gets the signals that a terminal sends to all processes: the
    parent handles them.
    """

    def start(self) -> None:
        resource_tracker.ensure_running()  # starting it later would unblock SIGINT
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP}
        )  # which a child inherits
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        escape_streams()
        threading.Thread(
            target=_end_with, args=[multiprocessing.parent_process()], daemon=True
        ).start()
        super().run()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def _dask(address: str, workers: int | None) -> Iterator[Executors]:
    """The workers of the Dask scheduler at `address`, processes of one thread that see the runs
    directory.
    """
    try:
        import distributed
    except ImportError as error:
        hint = 'Install it: pip install "seq2attn[dask]"'
        raise Seq2AttnError(
            f"--executor dask needs the package distributed ({error})", hint=hint
        ) from None
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is in our messages

    async def ask() -> str:
        secure = distributed.Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        async with distributed.rpc(address, connection_args=secure) as remote:  # type: ignore[no-untyped-call]
            return f"it is a {(await asyncio.wait_for(remote.identity(), ANSWER))['type']}"

    try:  # first, because a Client waits forever for what is no scheduler; in a thread: a notebook has a loop of its own
        with futures.ThreadPoolExecutor(1) as thread:
            found = thread.submit(asyncio.run, ask()).result()
        if found != "it is a Scheduler":
            raise ValueError(found)
        client: Any = distributed.Client(address, timeout=ANSWER, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # of its libraries, anything
        reason = str(error) or f"nothing after {ANSWER} seconds"
        hint = (
            "Start one with: dask scheduler    and workers with: dask worker ADDRESS --nthreads 1"
        )
        raise Seq2AttnError(
            f"no Dask scheduler answers at {address}: {reason}", hint=hint
        ) from None

    def at_once() -> int:
        with contextlib.suppress(Exception):  # the connection is lost: the trials' futures tell
            return workers or max(1, len(client.nthreads()))
        return 1

    with client:
        yield lambda: client.get_executor(pure=False), at_once


@contextlib.contextmanager
def _workplace(root: Path, device: str, plugins: Sequence[str]) -> Iterator[WorkerContext]:
    """What the trials will check, with its marker in the runs directory as long as the comparison
    runs.
    """
    marker = root / f".comparison-{secrets.token_hex(8)}"
    files = [Path(name).resolve() for name in plugins]
    with writing(marker):
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
    try:
        yield WorkerContext(marker, device, {file: loaded[file] for file in files}, versions())
    finally:
        marker.unlink(missing_ok=True)


# ---- the queue ----


def run_trials(
    trials: Iterable[Trial],
    place: WorkerContext,
    make_executor: Callable[[], Executor],
    at_once: Callable[[], int],
    display: Display,
    request: StopRequest,
) -> dict[str, Outcome]:
    """Run every trial, at most `at_once()` at a time, until `request` has a signal; how each ended,
    by its name.

    If an executor breaks because a process dies, a new one is made. Trials that ran at that time
    are run again, each alone, so that only the one that kills its process fails. A trial that
    another process trains is left to that process.
    """
    waiting, suspects = deque(trials), set[str]()  # suspects ran at a break and have to run alone
    running: dict[Future[Outcome], Trial] = {}
    outcomes: dict[str, Outcome] = {}
    executor, count = make_executor(), len(waiting)
    display.begin(ALL, count, f"0/{count:,} trials")
    try:
        while (waiting or running) and request.signal is None:
            while waiting and len(running) < (1 if suspects else at_once()):
                trial = waiting.popleft()
                display.begin(trial.name, trial.config.training.steps)
                try:
                    future = executor.submit(train_and_measure, trial, place)
                except futures.BrokenExecutor:
                    executor.shutdown(wait=False)
                    executor = make_executor()
                    future = executor.submit(train_and_measure, trial, place)
                running[future] = trial
            futures.wait(running, timeout=POLL, return_when=futures.FIRST_COMPLETED)
            for future in [future for future in running if future.done()]:
                trial, outcome = running.pop(future), _outcome(future)
                if outcome is DIED and trial.name not in suspects:
                    suspects.add(trial.name)
                    waiting.appendleft(trial)
                    display.end(trial.name)
                    continue
                suspects.discard(trial.name)
                outcomes[trial.name] = outcome
                display.end(
                    trial.name, outcome.state + (f": {outcome.reason}" if outcome.reason else "")
                )
                display.step(ALL, len(outcomes), f"{len(outcomes):,}/{count:,} trials")
            for trial in running.values():
                step = last_step(trial.run)
                display.step(
                    trial.name,
                    step,
                    "measuring" if step == trial.config.training.steps else f"step {step:,}",
                )
        if running:
            display.say("stopping: the running trials are saved")
            place.stop()
            begun = [
                future
                for future, trial in running.items()
                if is_training(trial.run) or not future.cancel()
            ]
            futures.wait(begun)
            outcomes |= {running[future].name: _outcome(future) for future in begun}
    except BaseException:  # also a second signal
        place.stop()
        executor.shutdown(wait=False)
        raise
    executor.shutdown()
    display.end(ALL)
    return outcomes


def _outcome(future: Future[Outcome]) -> Outcome:
    """How a trial ended; `DIED` itself if its executor is broken."""
    try:
        return future.result()
    except futures.BrokenExecutor:
        return DIED
    except (
        futures.CancelledError
    ):  # by the executor: a trial that we cancel is not asked for its outcome
        raise Seq2AttnError(
            LOST, hint="Start it again; then the same command continues.", exit_code=1
        ) from None
    except Exception as error:  # of the executor: `train_and_measure` raises none
        if (
            type(error).__name__ == "KilledWorker"
        ):  # of Dask, which has tried it on other workers before
            return Outcome("failed", DIED.reason)
        return Outcome("failed", f"{type(error).__name__}: {error}")
