"""Running the trials of a plan, several at a time, on any `concurrent.futures.Executor`; a failing
one stops no other.
"""

import contextlib
import math
import os
import platform
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.loops import Loop
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
from seq2attn.comparison.workers import DASK, ExecutorWord, Workers, open_workers
from seq2attn.display.progress import Display, make_display
from seq2attn.errors import Seq2AttnError
from seq2attn.files import writing
from seq2attn.plugins import loaded
from seq2attn.runs.create import choose_device, package_checksum, run_word
from seq2attn.runs.run import is_training
from seq2attn.text import error_text, quoted
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
DIED = Outcome("failed", "the worker process ended unexpectedly (killed, or out of memory)")
LOST = "the connection to the executor of the trials is lost; finished trials are kept"
ALL = "all trials"  # as the display calls their total
REFUSALS = 3  # of one trial, after which it fails, where the refusing worker cannot be left out


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

    device: its name, as for `choose_device`. plugins: files that each worker loads.
    workers: trials at a time; None: one per core, or per Dask worker. executor: where trials run.
    progress: as for `make_display`.

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
        _remove_stale_markers(root)
        if not trials:
            save_plan(plan, root)
            display.say(f"{plan.name}: all {planned:,} trials are done")
            return gather(plan)
        if not isinstance(executor, str):  # a worker of Dask's may have a device that is not here
            choose_device(device)  # raises if this machine has no such device
        for note in [*_read_tasks(trials), *_other_code(plan.trials)]:
            display.say(note)
        with (
            open_workers(executor, workers, len(trials)) as opened,
            _worker_context(root.absolute(), device, plugins, experiment.loops) as context,
        ):
            save_plan(plan, root)
            display.say(
                f"{plan.name}: {planned:,} trials, {planned - len(trials):,} done, {len(trials):,} "
                f"to run, {opened.at_once():,} at a time; runs in {root}"
            )
            outcomes = run_trials(trials, context, opened, display, request)
            save_plan(plan, root)  # another job may have written its trials meanwhile
    failed = {run: end.reason for run, end in outcomes.items() if end.state == "failed"}
    busy = tuple(run for run, end in outcomes.items() if end.state == "busy")
    return replace(gather(plan), failed=failed, busy=busy, stopped_by=request.signal)


def _read_tasks(trials: Sequence[Trial]) -> list[str]:
    """Read the files of the trials' tasks, and check that the tasks have the lengths and families
    to be measured, before any trial runs; return what users should know about the files.
    """
    from seq2attn.build import load_task

    notes: list[str] = []
    different = {}  # one trial for each task and way to measure it, as text, since keys are hashed
    for trial in trials:
        different[str((trial.config.task, trial.config.evaluation, trial.measured))] = trial
    for trial in different.values():
        task = load_task(trial.config)
        task.check_evaluation(trial.families, trial.lengths)
        while_training = trial.config.evaluation
        task.check_evaluation(while_training.families, while_training.lengths or ())
        notes += task.notes
    return list(dict.fromkeys(notes))


def _other_code(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a sentence if runs of these trials were made by other code of this package, whose
    numbers may differ; nothing otherwise. A run that does not know its code (None) is not counted.
    """
    # checksums of those that have a run already
    codes = [trial.run.environment.code for trial in trials if trial.run.config_file.is_file()]
    others = sum(code not in (None, package_checksum()) for code in codes)
    if others:
        yield f"{others:,} of the runs were made by other code of seq2attn than this"


@contextlib.contextmanager
def _worker_context(
    root: Path, device: str, plugins: Sequence[str], loops: Mapping[str, Loop]
) -> Iterator[WorkerContext]:
    """Yield what workers need for these trials. Meanwhile, the runs directory `root`, an absolute
    path, has a marker: a file that this process locks. Workers stop once it is gone; and a marker
    that nobody locks is that of a comparison that was killed.
    """
    marker = root / _marker(secrets.token_hex(8))
    files = [Path(name).resolve() for name in plugins]
    with writing(marker):  # makes a message of an `OSError`
        root.mkdir(parents=True, exist_ok=True)
        # whichever thread leaves the context may release it
        lock = FileLock(marker, thread_local=False).acquire()
    with lock:
        try:
            checksums = {file: loaded[file] for file in files}
            by_key = {loop.key: loop for loop in loops.values()}
            yield WorkerContext(marker, device, checksums, versions(), by_key)
        finally:
            marker.unlink(missing_ok=True)


def _marker(token: str) -> str:
    """Return the name of a marker, with that of this machine: another one that shares the disk may
    not see the lock, and must not take the comparison for dead.
    """
    return f".comparison-{token}@{run_word(platform.node())}"


def _remove_stale_markers(root: Path) -> None:
    """Remove the markers of comparisons of this machine that were killed: they are not locked."""
    for marker in root.glob(_marker("*")):
        with contextlib.suppress(OSError), FileLock(marker).acquire(timeout=0):
            marker.unlink()


# ---- the queue ----

Running = dict[Future[Outcome], Trial]


class Queue:
    """The trials of a comparison: those that wait, those that run, and how the others ended.

    If a process dies, its executor does not say which trial it ran. So all trials that ran at that
    time are suspects and run again, each alone: the one that kills its process again fails.

    A worker refuses a trial if it lacks something, such as the right version of a plug-in. The
    trial then goes back to those that wait, and Dask is told to give that worker no other.
    """

    def __init__(
        self, trials: Sequence[Trial], context: WorkerContext, workers: Workers, display: Display
    ) -> None:
        """Let all trials wait, and make a first executor: another replaces it when one of its
        processes dies.
        """
        self.context = context
        self.workers = workers
        self.display = display
        self.count = len(trials)
        self.waiting = list(trials)
        self.running: Running = {}
        self.outcomes: dict[str, Outcome] = {}
        self.executor = workers.make()
        self._suspects: set[str] = set()  # trials that ran when a process died
        self._refusals: Counter[str] = Counter()  # trial -> how often it was refused
        self._refusing: set[str] = set()  # workers that refused a trial
        self._done = 0  # the sum of `Trial.length` of those that have ended, for the display

    def start(self) -> None:
        """Start as many of the waiting trials as can run now; only one at a time while there are
        suspects, trials that ran when a process died: if another dies, it is clear which trial is
        to blame. Raises `Seq2AttnError` if a new executor cannot run anything.
        """
        at_once = 1 if self._suspects else self.workers.at_once()
        while self.waiting and len(self.running) < at_once:
            trial = self.waiting.pop(0)
            self.display.begin(trial.name, trial.length)
            try:
                future = self._submit(trial)
            except futures.BrokenExecutor:  # since one of its processes died
                self.executor.shutdown(wait=False)
                self.executor = self.workers.make()
                _check_start(self.executor)
                future = self._submit(trial)
            self.running[future] = trial

    def _submit(self, trial: Trial) -> Future[Outcome]:
        place = self.workers.place()
        return self.executor.submit(train_and_measure, trial, self.context, **place)

    def collect(self) -> None:
        """Wait until a trial has ended, `POLL` seconds at most; keep how each ended, let those wait
        again that are to be tried again, and show how far all are.
        """
        futures.wait(self.running, timeout=POLL, return_when=futures.FIRST_COMPLETED)
        ended = [future for future in self.running if future.done()]
        for future in ended:
            trial = self.running.pop(future)
            outcome = _outcome(future)
            # the first time that a process died while it ran: it may have been another's fault
            if outcome is DIED and trial.name not in self._suspects:
                self._suspects.add(trial.name)
                self._put_back(trial)
            elif outcome.state == "refused" and self._leave_out_worker(trial, outcome):
                self._put_back(trial)
            else:
                self._end(trial, outcome)
        now = self._done + _show_running(self.running, self.display)
        self.display.step(ALL, now, f"{len(self.outcomes):,}/{self.count:,} trials")

    def _put_back(self, trial: Trial) -> None:
        """Let a trial wait again, as the next one to start."""
        self.waiting.insert(0, trial)
        self.display.end(trial.name)

    def _leave_out_worker(self, trial: Trial, outcome: Outcome) -> bool:
        """Leave out the worker that refused a trial, and say so once. Return True if the trial is
        to be tried again: if there are other workers; or, where no worker can be left out, by
        whichever gets it, until it was refused `REFUSALS` times.
        """
        if outcome.worker not in self._refusing:
            self._refusing.add(outcome.worker)
            self.display.say(f"worker left out, {outcome.worker}: {outcome.reason}")
        self._refusals[trial.name] += 1
        has_others = self.workers.leave_out(outcome.worker)
        if has_others is None:  # no worker can be left out
            return self._refusals[trial.name] < REFUSALS
        return has_others

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        """Keep how a trial ended."""
        if outcome.state == "refused":
            outcome = Outcome("failed", f"no worker took it; {outcome.worker}: {outcome.reason}")
        self._suspects.discard(trial.name)
        self.outcomes[trial.name] = outcome
        self._done += trial.length
        self.display.end(trial.name, str(outcome))


def run_trials(
    trials: Sequence[Trial],
    context: WorkerContext,
    workers: Workers,
    display: Display,
    request: StopRequest,
) -> dict[str, Outcome]:
    """Run every trial; return how each ended, by its name. Once `request` has a signal, start no
    other, and let the running ones save themselves: those that had not begun have no outcome.
    """
    queue = Queue(trials, context, workers, display)
    display.begin(ALL, sum(trial.length for trial in trials), f"0/{len(trials):,} trials")
    try:
        while (queue.waiting or queue.running) and request.signal is None:
            queue.start()
            queue.collect()
        if queue.running:
            display.say("stopping: the running trials are saved")
            context.stop()
            queue.outcomes |= _cancel_or_wait(queue.running)
    except BaseException:  # also a second signal
        context.stop()
        queue.executor.shutdown(wait=False)
        raise
    queue.executor.shutdown()
    display.end(ALL)
    return queue.outcomes


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
    """Show how far each running trial is; return the sum of that over all, in the unit of
    `Trial.length`.
    """
    done = 0.0
    for trial in running.values():
        status = trial.run.status()  # as of the last evaluation
        step = status.step or 0
        # where epochs are counted, the run says how many steps they are, once it has begun; until
        # then, nothing is done
        steps = trial.config.training.steps or status.steps or math.inf
        progress = trial.length * step / steps
        display.step(trial.name, progress, f"step {step:,}")
        done += progress
    return done


def _cancel_or_wait(running: Running) -> dict[str, Outcome]:
    """Cancel the trials that have not begun, and wait for the others, which save themselves; return
    how these ended, by their names.
    """
    outcomes = {}
    for future, trial in running.items():
        # first look whether it runs: a future of Dask's can be cancelled even then
        if is_training(trial.run) or not future.cancel():
            futures.wait([future])
            outcomes[trial.name] = _outcome(future)
    return outcomes


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
