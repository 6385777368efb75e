"""Running the trials of a plan, several at a time, on any `concurrent.futures.Executor`; a failing
one stops no other.
"""

import contextlib
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path

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
from seq2attn.runs.create import package_checksum
from seq2attn.runs.logs import last_step
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import is_training
from seq2attn.text import error_text, quoted
from seq2attn.training.signals import StopRequest, stop_on_signals

POLL = 0.25  # seconds
DIED = Outcome("failed", "the worker process ended unexpectedly (killed, or out of memory)")
LOST = "the connection to the executor of the trials is lost; finished trials are kept"
ALL = "all trials"  # as the display calls their total


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
            outcomes = Queue(trials, context, opened, display).run(request)
    failed = {
        run: end.reason for run, end in outcomes.items() if end.state in ("failed", "refused")
    }
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
    path, has a marker, a file: workers stop once it is gone.
    """
    marker = root / f".comparison-{secrets.token_hex(8)}"
    with writing(marker):  # makes a message of an `OSError`
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
    try:
        checksums = {file: loaded[file] for file in map(Path.resolve, map(Path, plugins))}
        by_key = {loop.key: loop for loop in loops.values()}
        yield WorkerContext(marker, device, checksums, versions(), by_key)
    finally:
        marker.unlink(missing_ok=True)


# ---- the queue ----

Running = dict[Future[Outcome], Trial]


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
        self.count = len(trials)
        self.waiting = list(trials)
        self.running: Running = {}
        self.outcomes: dict[str, Outcome] = {}
        self.executor = workers.make()  # another replaces it when one of its processes dies
        self._suspects: set[str] = set()  # trials that ran when a process died

    def run(self, request: StopRequest) -> dict[str, Outcome]:
        """Run every trial; return how each ended, by its name. Once `request` has a signal, start
        no other, and let the running ones save themselves: those that had not begun have no
        outcome.
        """
        self.display.begin(ALL, self.count, f"0/{self.count:,} trials")
        try:
            while (self.waiting or self.running) and request.signal is None:
                self._start()
                self._collect()
            if self.running:
                self.display.say("stopping: the running trials are saved")
                self.context.stop()
                self.outcomes |= _cancel_or_wait(self.running)
        except BaseException:  # also a second signal
            self.context.stop()
            self.executor.shutdown(wait=False)
            raise
        self.executor.shutdown()
        return self.outcomes

    def _start(self) -> None:
        """Start as many of the waiting trials as can run now; only one at a time while there are
        suspects: if another process dies, it is clear which trial is to blame. Raises
        `Seq2AttnError` if a new executor cannot run anything.
        """
        at_once = 1 if self._suspects else self.workers.at_once()
        while self.waiting and len(self.running) < at_once:
            trial = self.waiting.pop(0)
            self.display.begin(trial.name, 1)
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

    def _collect(self) -> None:
        """Wait until a trial has ended, `POLL` seconds at most; keep how each ended, let those wait
        again that are to be tried again, and show how far all are.
        """
        futures.wait(self.running, timeout=POLL, return_when=futures.FIRST_COMPLETED)
        ended = [future for future in self.running if future.done()]
        for future in ended:
            trial = self.running.pop(future)
            outcome = _outcome(future)
            if self._is_tried_again(trial, outcome):
                self.waiting.insert(0, trial)
                self.display.end(trial.name)
            else:
                self._suspects.discard(trial.name)
                self.outcomes[trial.name] = outcome
                self.display.end(trial.name, str(outcome))
        done = len(self.outcomes) + _show_running(self.running, self.display)
        self.display.step(ALL, done, f"{len(self.outcomes):,}/{self.count:,} trials")

    def _is_tried_again(self, trial: Trial, outcome: Outcome) -> bool:
        """Return True for a trial during which a process died for the first time, which may have
        been another's fault; and for one that a worker refused, if there are others. That worker is
        left out, which is said once.
        """
        if outcome is DIED and trial.name not in self._suspects:
            self._suspects.add(trial.name)
            return True
        if outcome.state != "refused":
            return False
        if outcome.worker not in self.workers.left_out:
            self.display.say(f"worker left out, {outcome.worker}: {outcome.reason}")
        return self.workers.leave_out(outcome.worker)


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
    """Show how far each running trial is; return the sum of these shares."""
    done = 0.0
    for trial in running.values():
        step = last_step(trial.run)
        # where epochs are counted, the run says how many steps they are, once it has begun; until
        # then, nothing is done
        steps = trial.config.training.steps or trial.run.status().steps or math.inf
        display.step(trial.name, step / steps, f"step {step:,}")
        done += step / steps
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
