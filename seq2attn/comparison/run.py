"""Running the trials of a plan, several at a time, on any `concurrent.futures.Executor`; a failing
one stops no other.
"""

import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import platform
import re
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from filelock import FileLock

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
from seq2attn.files import writing
from seq2attn.plugins import loaded
from seq2attn.runs.create import run_word
from seq2attn.runs.logs import last_step
from seq2attn.runs.machine import available_cores, choose_device
from seq2attn.runs.run import is_training
from seq2attn.text import quoted
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
ANSWER = 5  # seconds for a Dask scheduler to answer
DIED = Outcome("failed", "the worker process ended unexpectedly (killed, or out of memory)")
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
    """Train and measure the trials of `experiment` that are not done, in `root`, and return the
    results of all.

    workers: trials at a time; by default one per core, or per Dask worker. progress: as for
    `make_display`. The first signal stops: running trials are saved, and the comparison has its
    number. Raises `Seq2AttnError` for what keeps all trials from running.
    """
    if not (executor is None or callable(executor) or DASK.fullmatch(str(executor))):
        raise Seq2AttnError(
            "--executor: expected dask:ADDRESS, such as dask:tcp://HOST:8786, or in Python a "
            f"function that makes an Executor, found {quoted(executor)}"
        )
    plan = make_plan(experiment, root)
    planned = len(plan.trials)
    trials = [trial for trial in plan.trials if find_evaluation(trial) is None]
    with make_display(progress) as display, stop_on_signals() as request:
        _remove_markers(root)
        if not trials:
            save_plan(plan, root)
            display.say(f"{plan.name}: all {planned:,} trials are done")
            return gather(plan)
        if not isinstance(executor, str):
            choose_device(device)  # raises if this machine has no such device
        for note in _read_tasks(trials):
            display.say(note)
        with (
            _executors(executor, workers, len(trials)) as executors,
            _worker_context(root.absolute(), device, plugins) as context,
        ):
            save_plan(plan, root)
            _, at_once = executors
            display.say(
                f"{plan.name}: {planned:,} trials, {planned - len(trials):,} done, {len(trials):,} "
                f"to run, {at_once():,} at a time; runs in {root}"
            )
            outcomes = run_trials(trials, context, executors, display, request)
            save_plan(plan, root)  # another job may have written its trials meanwhile
    failed = {}
    busy = []
    for run, outcome in outcomes.items():
        if outcome.state == "failed":
            failed[run] = outcome.reason
        elif outcome.state == "busy":
            busy.append(run)
    return replace(gather(plan), failed=failed, busy=tuple(busy), stopped_by=request.signal)


def _read_tasks(trials: Sequence[Trial]) -> list[str]:
    """Read the files of the trials' tasks before any trial runs; return what users should know
    about them.
    """
    from seq2attn.build import load_task

    notes: list[str] = []
    tasks = {}
    for trial in trials:
        tasks[str((trial.config.task, trial.config.evaluation, trial.measured))] = trial
    for trial in tasks.values():
        task = load_task(trial.config)
        task.check_evaluation(trial.families, trial.lengths)
        while_training = trial.config.evaluation
        task.check_evaluation(while_training.families, while_training.lengths or ())
        notes += task.notes
    return list(dict.fromkeys(notes))


@contextlib.contextmanager
def _worker_context(root: Path, device: str, plugins: Sequence[str]) -> Iterator[WorkerContext]:
    """Yield what the trials will check, while its marker is in the runs directory, locked by this
    process.
    """
    marker = root / _marker(secrets.token_hex(8))
    files = [Path(name).resolve() for name in plugins]
    with writing(marker):
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(marker, thread_local=False).acquire()
    with lock:
        try:
            yield WorkerContext(marker, device, {file: loaded[file] for file in files}, versions())
        finally:
            marker.unlink(missing_ok=True)


def _marker(token: str) -> str:
    """Return a marker's name; a lock may not reach the other machines that share the disk."""
    return f".comparison-{token}@{run_word(platform.node())}"


def _remove_markers(root: Path) -> None:
    """Remove the markers of comparisons of this machine that were killed."""
    for marker in root.glob(_marker("*")):
        with contextlib.suppress(OSError), FileLock(marker).acquire(timeout=0):
            marker.unlink()


# ---- where trials run ----

Executors = tuple[Callable[[], Executor], Callable[[], int]]
"""a function that makes executors, and one that tells how many trials can run at a time now"""


@contextlib.contextmanager
def _executors(executor: ExecutorWord, workers: int | None, trials: int) -> Iterator[Executors]:
    """Yield what runs the trials, as long as it is connected."""
    if not isinstance(executor, str):
        count = max(1, min(workers or available_cores(), trials))
        yield executor or (lambda: process_pool(count)), lambda: count
        return
    with _dask_client(executor.removeprefix("dask:")) as client:

        def at_once() -> int:
            with contextlib.suppress(Exception):  # no connection: the trials' futures tell
                return workers or max(1, len(client.nthreads()))
            return 1

        yield lambda: client.get_executor(pure=False), at_once


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
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            super().start()
            return
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
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().run()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()  # type: ignore[union-attr]
    os._exit(1)


def _dask_client(address: str) -> Any:
    """Connect to the Dask scheduler at `address`. Its workers must be processes of one thread that
    see the runs directory.
    """
    try:
        import distributed
    except ImportError as error:
        raise Seq2AttnError(
            f"--executor dask needs the package distributed ({error})",
            hint='Install it: pip install "seq2attn[dask]"',
        ) from None
    dask: Any = distributed  # without types
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is in our messages

    async def identity() -> Any:
        secure = dask.Security().get_connection_args("client")
        async with dask.rpc(address, connection_args=secure) as server:
            return await asyncio.wait_for(server.identity(), ANSWER)

    try:  # ask first, since a Client waits forever if nothing answers
        with futures.ThreadPoolExecutor(1) as thread:  # a notebook has an event loop of its own
            kind = thread.submit(asyncio.run, identity()).result()["type"]
        if kind != "Scheduler":
            raise ValueError(f"it is a {kind}")
        return dask.Client(address, timeout=ANSWER, set_as_default=False)
    except Exception as error:  # of its libraries, anything
        reason = str(error) or f"nothing after {ANSWER} seconds"
        raise Seq2AttnError(
            f"no Dask scheduler answers at {address}: {reason}",
            hint="Start one with: dask scheduler    and workers with: "
            "dask worker ADDRESS --nthreads 1",
        ) from None


# ---- the queue ----

Running = dict[Future[Outcome], Trial]


def run_trials(
    trials: Sequence[Trial],
    context: WorkerContext,
    executors: Executors,
    display: Display,
    request: StopRequest,
) -> dict[str, Outcome]:
    """Run every trial until `request` has a signal; return how each ended, by its name.

    If a process dies, trials that ran at that time are run again, each alone, so that only the one
    that kills its process fails. A trial that another process trains is left to it.
    """
    make_executor, at_once = executors
    executor = make_executor()
    waiting = list(trials)
    suspects: set[str] = set()  # ran when a process died, and have to run alone
    running: Running = {}
    outcomes: dict[str, Outcome] = {}
    done = 0  # the length of the trials that have ended
    display.begin(ALL, sum(trial.length for trial in trials), f"0/{len(trials):,} trials")
    try:
        while (waiting or running) and request.signal is None:
            while waiting and len(running) < (1 if suspects else at_once()):
                trial = waiting.pop(0)
                display.begin(trial.name, trial.length)
                try:
                    future = executor.submit(train_and_measure, trial, context)
                except futures.BrokenExecutor:
                    executor.shutdown(wait=False)
                    executor = make_executor()
                    _check_start(executor)
                    future = executor.submit(train_and_measure, trial, context)
                running[future] = trial
            futures.wait(running, timeout=POLL, return_when=futures.FIRST_COMPLETED)
            for future in [future for future in running if future.done()]:
                trial = running.pop(future)
                outcome = _outcome(future)
                if outcome is DIED and trial.name not in suspects:
                    suspects.add(trial.name)
                    waiting.insert(0, trial)
                    display.end(trial.name)
                else:
                    suspects.discard(trial.name)
                    outcomes[trial.name] = outcome
                    done += trial.length
                    display.end(trial.name, str(outcome))
            now = done + _show_running(running, display)
            display.step(ALL, now, f"{len(outcomes):,}/{len(trials):,} trials")
        if running:
            display.say("stopping: the running trials are saved")
            context.stop()
            outcomes |= _saved(running)
    except BaseException:  # also a second signal
        context.stop()
        executor.shutdown(wait=False)
        raise
    executor.shutdown()
    display.end(ALL)
    return outcomes


def _check_start(executor: Executor) -> None:
    """Raise `Seq2AttnError` if a worker ends before it has run anything."""
    try:
        executor.submit(os.getpid).result()
    except futures.BrokenExecutor:
        raise Seq2AttnError(
            "no trial can run: a worker process ends as soon as it is started",
            hint="Each worker imports the script that starts it. A script must call "
            'seq2attn.compare below the line: if __name__ == "__main__":\n'
            "Otherwise the worker was killed, or memory is short.",
            exit_code=1,
        ) from None


def _show_running(running: Running, display: Display) -> float:
    """Show how far each running trial is; return the sum, in the unit of `Trial.length`."""
    done = 0.0
    for trial in running.values():
        step = last_step(trial.run)
        steps = trial.config.training.steps or trial.run.status().steps or math.inf
        progress = trial.length * step / steps
        display.step(trial.name, progress, f"step {step:,}")
        done += progress
    return done


def _saved(running: Running) -> dict[str, Outcome]:
    """Cancel the trials that have not begun; return how the others ended, once they are saved."""
    outcomes = {}
    for future, trial in running.items():
        if is_training(trial.run) or not future.cancel():
            futures.wait([future])
            outcomes[trial.name] = _outcome(future)
    return outcomes


def _outcome(future: Future[Outcome]) -> Outcome:
    """Return how a trial ended; `DIED` itself if its executor is broken."""
    try:
        return future.result()
    except futures.BrokenExecutor:
        return DIED
    except futures.CancelledError:  # by the executor: those that we cancel have no outcome
        raise Seq2AttnError(
            LOST, hint="Start it again; then the same command continues.", exit_code=1
        ) from None
    except Exception as error:  # of the executor: `train_and_measure` raises none
        return Outcome("failed", f"{type(error).__name__}: {error}")
