"""Running the trials of a plan, several at a time, on any `concurrent.futures.Executor`; a failing
one stops no other.
"""

import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.plan import make_plan, other_code, read_tasks, save_plan
from seq2attn.comparison.results import Comparison, gather
from seq2attn.comparison.trial import (
    Outcome,
    Trial,
    WorkerContext,
    find_evaluation,
    train_and_measure,
    worker_context,
)
from seq2attn.display.console import Display, escape_streams, make_display
from seq2attn.errors import Seq2AttnError, error_text, quoted
from seq2attn.runs.create import available_cores, choose_device
from seq2attn.runs.run import is_training
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
DIED = Outcome("failed", "the worker process ended unexpectedly (killed, or out of memory)")
LOST = "the connection to the executor of the trials is lost; finished trials are kept"
ANSWER = 5  # seconds for a Dask scheduler to answer
ALL = "all trials"  # as the display calls their total
ExecutorWord = str | Callable[[], Executor] | None
"""where trials run: in processes of this machine (None), `dask:ADDRESS`, or a function that makes
an Executor"""
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
    """Train and measure the trials of `experiment` that are not done, in the runs directory `root`,
    and return the results of all.

    device: auto, cpu, cuda or mps (`choose_device`). plugins: files that each worker loads.
    workers: trials at a time; None: one per core, or per Dask worker.
    executor: where trials run, as `ExecutorWord` says.
    progress: True to show it, False not to; None: on a terminal and in a notebook only.

    The first signal, such as Ctrl-C's, stops: running trials are saved, and the signal's number is
    the comparison's `stopped_by`. Raises `Seq2AttnError` for what keeps all trials from running.
    """
    if not (executor is None or callable(executor) or DASK.fullmatch(str(executor))):
        raise Seq2AttnError(
            "--executor: expected dask:ADDRESS, such as dask:tcp://HOST:8786, or in Python a "
            f"function that makes an Executor, found {quoted(executor)}"
        )
    plan = make_plan(experiment, root)
    planned = len(plan.trials)
    trials = [trial for trial in plan.trials if find_evaluation(trial) is None]  # not done yet
    with make_display(progress) as display, stop_on_signals() as request:
        if not trials:
            save_plan(plan, root)
            display.say(f"{plan.name}: all {planned:,} trials are done")
            return gather(plan)
        if not isinstance(executor, str):  # a worker of Dask's may have a device that is not here
            choose_device(device)  # raises if this machine has no such device
        for note in [*read_tasks(trials), *other_code(plan.trials)]:
            display.say(note)
        with (
            open_workers(executor, workers, len(trials)) as opened,
            worker_context(root.absolute(), device, plugins, experiment.loops) as context,
        ):
            save_plan(plan, root)
            queue = Queue(trials, context, opened, display)
            display.say(
                f"{plan.name}: {planned:,} trials, {planned - len(trials):,} done, {len(trials):,} "
                f"to run, {queue.at_once():,} at a time; runs in {root}"
            )
            outcomes = queue.run(request)
    failed = {
        run: end.reason for run, end in outcomes.items() if end.state in ("failed", "refused")
    }
    busy = tuple(run for run, end in outcomes.items() if end.state == "busy")
    return replace(gather(plan), failed=failed, busy=busy, stopped_by=request.signal)


class Workers(NamedTuple):
    """What runs the trials: workers of executors that `make` makes."""

    make: Callable[[], Executor]
    limit: int | None
    """trials at a time; None: as many as the Dask cluster has workers, which come and go"""
    client: Any = None
    """of the Dask cluster; None elsewhere"""


# ---- the queue ----


class Queue:
    """The trials of a comparison: those that wait, those that run, and how the others ended.

    If a process dies, its executor does not say which trial it ran. So all trials that ran at that
    time are suspects and run again, each alone: the one that kills its process again fails.

    A worker refuses a trial if it lacks something, such as the right version of a plug-in. Dask
    then gives that worker no other, and the trial goes back to those that wait.
    """

    def __init__(
        self, trials: Sequence[Trial], context: WorkerContext, workers: Workers, display: Display
    ) -> None:
        self.context = context
        self.workers = workers
        self.display = display
        self.count = len(trials)  # the display shows how many of these have ended
        self.waiting = list(trials)
        self.running: dict[Future[Outcome], Trial] = {}
        self.outcomes: dict[str, Outcome] = {}  # name of a trial -> how it ended
        self.executor = workers.make()  # another replaces it when one of its processes dies
        self._suspects: set[str] = set()  # trials that ran when a process died
        self._left_out: set[str] = set()  # workers of Dask's that refused a trial

    def at_once(self) -> int:
        """Return how many trials can run at a time now: only one while there are suspects; if
        another process dies, it is clear which trial is to blame.
        """
        if self._suspects:
            return 1
        return self.workers.limit or max(1, len(self._others()))  # 1: it waits for the first

    def _others(self) -> list[str]:
        """Return the workers of Dask's that are not left out; none without a connection, which the
        trials' futures then say.
        """
        with contextlib.suppress(Exception):
            return list(self.workers.client.nthreads().keys() - self._left_out)
        return []

    def run(self, request: StopRequest) -> dict[str, Outcome]:
        """Run every trial; return how each ended, by its name. Once `request` has a signal, start
        no other, and let the running ones save themselves: those that had not begun have no
        outcome.
        """
        self.display.begin(ALL, self.count)
        try:
            while (self.waiting or self.running) and request.signal is None:
                self._start()
                self._collect()
            if self.running:
                self.display.say("stopping: the running trials are saved")
                self.context.stop()
                self._cancel_or_wait()
        except BaseException:  # also a second signal
            self.context.stop()
            self.executor.shutdown(wait=False)
            raise
        self.executor.shutdown()
        return self.outcomes

    def _start(self) -> None:
        """Start as many of the waiting trials as can run now. Raises `Seq2AttnError` if a new
        executor cannot run anything.
        """
        at_once = self.at_once()
        while self.waiting and len(self.running) < at_once:
            trial = self.waiting.pop(0)
            self.display.begin(trial.name, 1)  # 1: its progress is shown as a share of its steps
            try:
                future = self._submit(trial)
            except futures.BrokenExecutor:  # since one of its processes died
                self.executor.shutdown(wait=False)
                self.executor = self.workers.make()
                self._check_start()
                future = self._submit(trial)
            self.running[future] = trial

    def _check_start(self) -> None:
        """Raise `Seq2AttnError` if a worker ends before it has run anything."""
        try:
            self.executor.submit(os.getpid).result()
        except futures.BrokenExecutor:
            raise Seq2AttnError(
                "no trial can run: a worker process ends as soon as it is started",
                hint="Each worker imports the script that starts it. A script must call "
                'seq2attn.compare below the line: if __name__ == "__main__":\n'
                "Otherwise the worker was killed, or memory is short.",
                exit_code=1,
            ) from None

    def _submit(self, trial: Trial) -> Future[Outcome]:
        place = {"workers": self._others()} if self._left_out else {}  # as Dask's executor has it
        # a copy has no `config` yet, which a worker can only make after it has loaded its plug-ins
        return self.executor.submit(train_and_measure, replace(trial), self.context, **place)

    def _collect(self) -> None:
        """Wait until a trial has ended, `POLL` seconds at most. Keep how each ended, or put it
        before all that wait if it is to be tried again; then show how far all are.
        """
        futures.wait(self.running, timeout=POLL, return_when=futures.FIRST_COMPLETED)
        for future in list(filter(Future.done, self.running)):
            trial = self.running.pop(future)
            outcome = _outcome(future)
            if self._is_tried_again(trial, outcome):
                self.waiting.insert(0, trial)
                self.display.end(trial.name)
            else:
                self._suspects.discard(trial.name)
                self.outcomes[trial.name] = outcome
                self.display.end(trial.name, str(outcome))
        self._show_progress()

    def _is_tried_again(self, trial: Trial, outcome: Outcome) -> bool:
        """Return True for a trial during which a process died for the first time, which may have
        been another's fault: it becomes a suspect. Also for one that a worker refused, if there are
        other workers; that worker is left out from now on, which is said once.
        """
        if outcome is DIED and trial.name not in self._suspects:
            self._suspects.add(trial.name)
            return True
        if outcome.state != "refused":
            return False
        if outcome.worker not in self._left_out:
            self._left_out.add(outcome.worker)
            self.display.say(f"worker left out, {outcome.worker}: {outcome.reason}")
        return bool(self._others())

    def _show_progress(self) -> None:
        """Show how far each running trial is, and all together."""
        done = float(len(self.outcomes))
        for trial in self.running.values():
            status = trial.run.status()  # as of the last evaluation
            step = status.step or 0
            # where epochs are counted, the run says how many steps they are, once it has begun;
            # until then, nothing is done
            steps = trial.config.training.steps or status.steps or math.inf
            self.display.step(trial.name, step / steps, f"step {step:,}")
            done += step / steps
        self.display.step(ALL, done, f"{len(self.outcomes):,}/{self.count:,} trials")

    def _cancel_or_wait(self) -> None:
        """Cancel the trials that have not begun. Wait for the others, and keep how they ended."""
        for future, trial in self.running.items():
            # first look whether it runs: a future of Dask's can be cancelled even then
            if is_training(trial.run) or not future.cancel():
                futures.wait([future])
                self.outcomes[trial.name] = _outcome(future)


def _outcome(future: Future[Outcome]) -> Outcome:
    """Return how a trial whose future is done has ended; `DIED` if its executor is broken, because
    a process died. Raises `Seq2AttnError` if the executor lost the trial.
    """
    try:
        return future.result()
    except futures.BrokenExecutor:
        return DIED
    except futures.CancelledError:  # by the executor: we ask no outcome of those that we cancel
        raise Seq2AttnError(
            LOST, hint="Start it again; then the same command continues.", exit_code=1
        ) from None
    except Exception as error:  # the executor's, since `train_and_measure` raises none
        return Outcome("failed", error_text(error))


# ---- where trials run ----


@contextlib.contextmanager
def open_workers(executor: ExecutorWord, count: int | None, trials: int) -> Iterator[Workers]:
    """Yield what runs the trials. A connection to Dask is closed afterwards.

    executor: None: processes of this machine; `dask:ADDRESS`; or a function that makes an Executor.
    count: how many trials run at a time; None: one per core, or per worker of Dask's.
    trials: how many there are.
    """
    if isinstance(executor, str):  # dask:ADDRESS
        with _dask_client(executor.removeprefix("dask:")) as client:
            # pure would mean that equal calls have one result: a trial that is tried again would
            # not run
            yield Workers(lambda: client.get_executor(pure=False), count, client)
    else:
        # (a caller in Python may give any `count`, such as -1)
        limit = max(1, min(count or available_cores(), trials))
        yield Workers(executor or (lambda: process_pool(limit)), limit)


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
        """Start the process with the signals of terminals blocked: it inherits that."""
        if not hasattr(signal, "pthread_sigmask"):  # Windows, which cannot block signals
            super().start()
            return
        resource_tracker.ensure_running()  # starting it later would unblock SIGINT
        of_terminal = {signal.SIGINT, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, of_terminal)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        escape_streams()
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().run()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, then end this one."""
    multiprocessing.parent_process().join()  # type: ignore[union-attr]
    os._exit(1)  # `sys.exit` would end this thread alone


def _dask_client(address: str) -> Any:
    """Return a client of the Dask scheduler at `address`, without `dask:`. Its workers must be
    processes of one thread that see the runs directory. Raises `Seq2AttnError` if the package
    distributed is missing, or if no scheduler answers within `ANSWER` seconds.
    """
    try:
        import distributed
    except ImportError as error:
        raise Seq2AttnError(
            f"--executor dask needs the package distributed ({error})",
            hint='Install it: pip install "seq2attn[dask]"',
        ) from None
    dask: Any = distributed  # mypy would refuse its untyped functions
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is in our messages
    try:
        # A Client waits forever if nothing answers, so ask first; in a thread, since a notebook has
        # an event loop of its own.
        with futures.ThreadPoolExecutor(1) as thread:
            identity = thread.submit(asyncio.run, _identity(dask, address)).result()
        if identity["type"] != "Scheduler":
            raise ValueError(f"it is a {identity['type']}")  # such as a worker; reported below
        return dask.Client(address, timeout=ANSWER, set_as_default=False)
    except Exception as error:  # Dask's libraries may raise anything
        reason = str(error) or f"nothing after {ANSWER} seconds"
        raise Seq2AttnError(
            f"no Dask scheduler answers at {address}: {reason}",
            hint="Start one with: dask scheduler    and workers with: "
            "dask worker ADDRESS --nthreads 1",
        ) from None


async def _identity(dask: Any, address: str) -> Any:
    """Return what a server of Dask's says of itself, within `ANSWER` seconds."""
    secure = dask.Security().get_connection_args("client")
    async with dask.rpc(address, connection_args=secure) as server:
        return await asyncio.wait_for(server.identity(), ANSWER)
