"""One trial of a comparison: an ordinary run of one config with one seed, trained and measured by
whichever process it is given to.
"""

import contextlib
import functools
import itertools
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from seq2attn import __version__
from seq2attn.comparison.loops import Loop
from seq2attn.config import Config, Values, check_config
from seq2attn.errors import Seq2AttnError, error_text, memory_error
from seq2attn.files import writing
from seq2attn.plugins import changed_plugins, load_plugin, loaded, plugin_error
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.create import (
    NewRun,
    RunExists,
    check_same_files,
    first_change,
    package_checksum,
)
from seq2attn.runs.run import (
    BeingTrained,
    Run,
    check_plain,
    evaluations,
    save_evaluation,
    training_lock,
)

STOP = b"stop"
STOP_SECONDS = 0.5  # between two looks at the marker during training

# held by a trial: torch's random generator and its number of threads belong to the whole process
_one_trial = threading.Lock()


class _Refused(Exception):
    """This worker lacks what the trials need, and another may have it."""


class _Stopped(Exception):
    """The comparison asks its trials to stop, or has ended."""


@dataclass
class WorkerContext:
    """What a worker must share with the comparison: folder, device, plug-ins, versions.

    Each trial checks it for itself, because workers may join late.
    """

    marker: Path
    """a file in the runs directory, locked while the comparison runs; `stop` in it stops the trials
    """
    device: str
    plugins: Mapping[Path, str]  # absolute path of each plug-in's file -> SHA-256
    versions: str
    loops: Mapping[str, Loop]  # by their keys
    due: float = 0.0  # when `should_stop` may look again

    def stop(self) -> None:
        """Ask the trials to stop."""
        with contextlib.suppress(OSError):
            self.marker.write_bytes(STOP)

    def should_stop(self) -> bool:
        """Return True if the trials are asked to stop, or the comparison has ended.

        Training calls this at each step, and the marker may be on a network's disk. So it is read
        only every `STOP_SECONDS`, and the calls in between return False.
        """
        now = time.monotonic()
        if now < self.due:
            return False
        self.due = now + STOP_SECONDS
        try:
            return self.marker.read_bytes() == STOP
        except FileNotFoundError:  # the comparison has ended, and removed it
            return True
        except OSError:  # a network's disk that does not answer for a moment
            return False

    def raise_if_stopping(self) -> None:
        """Raise `_Stopped` if the trials are asked to stop."""
        if self.should_stop():
            raise _Stopped


@contextlib.contextmanager
def worker_context(
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


@dataclass(frozen=True)
class Trial:
    """What to train and what to measure."""

    name: str  # of the run; a function of experiment, values and seed
    experiment: str
    group: str  # label of the trials that differ only in their seed
    values: Values  # what varies except the seed: config key -> number or text
    settings: Values  # the config as plain values: a worker loads its plug-ins first
    lengths: tuple[int, ...]  # of a task that reads files all pairs of the dev file are measured
    samples: int
    families: tuple[str, ...]
    checkpoint: str
    root: Path  # the runs directory, an absolute path
    loop: str = ""
    """the key of the user's own training loop; empty: `seq2attn.train`"""

    @functools.cached_property
    def config(self) -> Config:
        """The config, validated once in each process."""
        return check_config(self.settings)

    @property
    def run(self) -> Run:
        """The run's directory, which may not exist yet."""
        return Run(self.root / self.name)


class Outcome(NamedTuple):
    """How a trial ended."""

    state: str
    """done, stopped, failed, busy (another process trains its run) or refused (by its worker)"""
    reason: str = ""
    worker: str = ""
    """the address of Dask's worker that refused"""

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


def blocked_by(trial: Trial) -> str | None:
    """Return why the trial cannot use its run directory; None if there is none yet, or if it has a
    run of the same config, plug-ins and training loop, which can be continued.
    """
    run = trial.run
    if not run.path.exists():
        return None
    try:
        changed = first_change(check_plain(run).config, trial.config)
        plugins = changed_plugins(trial.config, run.environment.plugin_contents)
        loop = run.environment.loop
    except Seq2AttnError as error:  # it is not a run, or is damaged
        return f"cannot be used: {error.message}"
    if plugins:
        return f"made before {plugins[0]} was changed"
    if loop != trial.loop:
        return f"trained by {loop or 'seq2attn.train'}, not by {trial.loop or 'seq2attn.train'}"
    return f"another config: {changed}" if changed else None


def find_evaluation(trial: Trial) -> Evaluation | None:
    """Return the evaluation that a comparison made of the finished trial; None if it made none yet.

    The run may have other evaluations, which do not count: those of `seq2attn eval`, which have no
    `trained_steps`; those of earlier weights, if it was trained further; and, of strings, those of
    other families, lengths or numbers of strings. Of a file, all pairs are always measured.
    """
    status = trial.run.status()
    if status.state != "finished":
        return None
    wanted = set(itertools.product(trial.families, trial.lengths))
    for saved in evaluations(trial.run, trial.checkpoint, skip_damaged=True):
        as_wanted = saved.rows[0].samples == trial.samples and set(saved.places) == wanted
        if saved.trained_steps == status.step and (trial.config.data_files or as_wanted):
            return saved
    return None


# ---- in the process that runs it ----


def versions() -> str:
    """Return what must be the same in every process: versions, of torch without the part for its
    build, and the package's own code, since another commit may have the same number.
    """
    torch = metadata.version("torch").partition("+")[0]
    return f"seq2attn {__version__} (code {package_checksum()}), torch {torch}"


def dask_worker() -> str:
    """Return the address of this process if it is a worker of Dask's; otherwise "". By its address,
    Dask can leave a worker out.
    """
    with contextlib.suppress(ImportError, ValueError):  # it is not installed; this is not a worker
        from distributed import get_worker

        return str(get_worker().address)
    return ""


def train_and_measure(trial: Trial, context: WorkerContext) -> Outcome:
    """Train the trial's run to its end, or continue it, and measure it. Return how that ended: an
    error becomes an outcome, too, and only Ctrl-C is raised.
    """
    if not _one_trial.acquire(blocking=False):
        return Outcome(
            "failed", "its process runs another trial in another thread: a worker needs one thread"
        )
    try:
        _check_worker(context)
        _run(trial, context)
        return Outcome("done")
    except _Stopped:
        return Outcome("stopped")
    except _Refused as reason:
        worker = dask_worker()  # only Dask can leave it out
        return Outcome("refused" if worker else "failed", str(reason), worker)
    except (BeingTrained, RunExists) as error:  # another process trains it, or has just made it
        return Outcome("busy", error.message)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise anything
        explained = error if isinstance(error, Seq2AttnError) else None
        explained = explained or memory_error(error) or plugin_error(error)
        return Outcome("failed", str(explained or error_text(error)))
    finally:
        _one_trial.release()


def _check_worker(context: WorkerContext) -> None:
    """Load the plug-ins, and raise `_Refused` if this process lacks what its trials need: the runs
    directory, the comparison's versions, or its plug-ins with the same content.
    """
    if not context.marker.exists():
        raise _Refused(f"its worker does not see the runs directory, {context.marker.parent}")
    if versions() != context.versions:
        raise _Refused(
            f"its worker has {versions()}, and the comparison {context.versions}: install the same"
        )
    for path, needed in context.plugins.items():
        if path not in loaded:
            try:
                load_plugin(path)  # raises if there is no such file
            except Seq2AttnError as error:
                raise _Refused(error.message) from error
        if loaded[path] != needed:
            raise _Refused(
                f"{path} has changed since the comparison or this worker loaded it: start both "
                "again"
            )


def _run(trial: Trial, context: WorkerContext) -> None:
    """Train the trial's run, or continue it, and measure it, unless that was done already. A loop
    of the user's own (`trial.loop`) trains it in place of `train`, and begins anew.

    Raises `_Stopped` if it is asked to stop meanwhile; the run is then saved.
    """
    from seq2attn.training.session import train

    run = trial.run
    context.raise_if_stopping()
    if blocked := blocked_by(trial):
        raise Seq2AttnError(f"{run.path}: {blocked}", exit_code=1)
    if run.status().state != "finished":  # otherwise only a measurement may be lacking
        new = NewRun(
            trial.root,
            trial.name,
            plugins=list(map(str, context.plugins)),
            experiment=trial.experiment,
            loop=trial.loop,
        )
        if trial.loop:
            _train_in_loop(trial, new, context)
        else:
            train(
                trial.config,
                run if run.config_file.is_file() else new,
                device=context.device,
                threads=1,
                should_stop=context.should_stop,
            )
        if run.status().state != "finished":
            raise _Stopped  # by `should_stop`
    with training_lock(run):  # so that no other process measures it at the same time
        if find_evaluation(trial) is None:
            _measure(trial, context)


def _train_in_loop(trial: Trial, new: NewRun, context: WorkerContext) -> None:
    """Let a loop of the user's own train the model of the trial, and save it as the run `new`. It
    begins anew each time: such a loop has no checkpoints to continue from. Raises `BeingTrained` if
    another process does so at this time, and `_Stopped` if the trials are asked to stop.
    """
    import torch

    from seq2attn.training.session import new_model

    run = trial.run
    file = trial.root / f".{trial.name}.lock"  # not in the run, which is made after the training
    with training_lock(run, file=file):
        if run.status().state == "finished":  # by another process, since `_run` looked
            return
        if run.path.exists():  # a process was killed while it saved
            shutil.rmtree(run.path)
        torch.set_num_threads(1)  # as for a trial without a loop of the user's
        model = new_model(trial.config, device=context.device)
        model.watch = context.raise_if_stopping  # which the model calls at each step
        # a loop may draw numbers of its own; later trials of this process do not depend on them
        with torch.random.fork_rng():
            torch.manual_seed(trial.config.seed)
            context.loops[trial.loop].train(model)
        model.save_as(new, "finished")
        with contextlib.suppress(OSError):  # Windows, which removes no open file
            file.unlink()


def _measure(trial: Trial, context: WorkerContext) -> None:
    """Measure the trained run as the trial says, on its dev file if it has one, and save that.

    Raises `Seq2AttnError` if the run lacks the checkpoint to be measured, or if its files have
    changed since the training, and `_Stopped` if it is asked to stop meanwhile.
    """
    from seq2attn.analysis.costs import parameter_ledger
    from seq2attn.inference.trained_model import load_run

    run = trial.run
    trained = load_run(run, trial.checkpoint, context.device)
    if trained.checkpoint != trial.checkpoint:  # the run lacks it, and another was loaded
        raise Seq2AttnError(f"{run.checkpoint(trial.checkpoint)}: no such checkpoint", exit_code=1)
    if trial.config.data_files:
        check_same_files(run, trial.config)  # raises
        measured = trained.evaluate(data=trial.config.data_files["dev"])
    else:
        measured = trained.evaluate(
            trial.lengths,
            samples=trial.samples,
            families=trial.families,
            watch=context.raise_if_stopping,
        )
    parameters = parameter_ledger(trained.predictor.model)
    steps = run.status().step
    save_evaluation(replace(measured, trained_steps=steps, parameters=parameters), run)
