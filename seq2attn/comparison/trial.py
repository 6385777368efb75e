"""One trial: an ordinary run of one config with one seed, trained and measured by whatever process
is given it.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import Published
from seq2attn.config import Config, check_config
from seq2attn.display.progress import Display
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import Evaluation
from seq2attn.plugins import changed_plugins, load_plugin, loaded, plugin_error
from seq2attn.runs.create import NewRun, RunExists, check_same_files, first_change
from seq2attn.runs.logs import evaluations, save_evaluation
from seq2attn.runs.run import BeingTrained, Run, check_plain, training_lock
from seq2attn.training.signals import StopRequest

EVALUATION_SEED = 0  # that of `eval`: the same strings
STOP = b"stop"

_one_trial = (
    threading.Lock()
)  # torch's random generator and its number of threads belong to the whole process


@dataclass(frozen=True)
class WorkerContext:
    """What the process of a trial must find: each trial checks it for itself, because workers may
    join late.
    """

    marker: Path  # a file that the comparison keeps in the runs directory while it runs; `stop` in it stops the trials
    device: str
    plugins: Mapping[Path, str]  # absolute path of each plug-in's file -> SHA-256
    versions: Mapping[str, str]

    def stop(self) -> None:
        """Ask the trials to stop."""
        with contextlib.suppress(OSError):
            self.marker.write_bytes(STOP)

    def is_stopping(self) -> bool:
        """Whether the trials are asked to stop, or the comparison has ended."""
        try:
            return self.marker.read_bytes() == STOP
        except FileNotFoundError:
            return True
        except OSError:
            return False


@dataclass(frozen=True)
class Trial:
    """What to train and what to measure, and what its group is compared with."""

    name: str  # of the run; a function of experiment, values and seed
    experiment: str
    group: str  # label of the trials that differ only in their seed
    values: Mapping[str, Any]  # what varies except the seed: config key -> number or text
    settings: Mapping[str, Any]
    """its config as plain values, which can be sent to a process that has yet to load the plug-ins
    """
    lengths: tuple[int, ...]
    samples: int
    families: tuple[str, ...]
    checkpoint: str
    root: Path  # the runs directory
    published: Published
    baseline: str = ""  # the group that its group is compared with, which may be its own

    @functools.cached_property
    def config(self) -> Config:
        """The checked config."""
        return check_config(dict(self.settings))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "config"}

    @property
    def run(self) -> Run:
        """Its run directory, which may not exist yet."""
        return Run(self.root / self.name)

    @property
    def on_files(self) -> bool:
        """Whether its task reads files; it is then measured on the dev file, and not on strings of
        `lengths`.
        """
        return bool(self.config.data_files)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    state: str  # done, stopped, failed, or busy: another process trains its run
    reason: str = ""


def blocked_by(trial: Trial) -> str | None:
    """Why the trial's run directory cannot be used; None if it does not exist or is a run of the
    same config.
    """
    run = trial.run
    if not run.path.exists():
        return None
    try:
        changed = first_change(check_plain(run).config(), trial.config)
        plugins = changed_plugins(trial.config, run.environment().plugin_contents)
    except Seq2AttnError as error:
        return f"cannot be used: {error.message}"
    for file in plugins:
        return f"made before {file} was changed"
    return changed and f"another config: {changed}"


def find_evaluation(trial: Trial) -> Evaluation | None:
    """The evaluation of the finished trial, with the families and lengths of the comparison; None
    if there is none yet.
    """
    status = trial.run.status()
    if status.state != "finished":
        return None
    wanted = {(family, length) for family in trial.families for length in trial.lengths}
    for _, saved in evaluations(trial.run, trial.checkpoint, skip_damaged=True):
        if saved.parameters is None or saved.trained_steps != status.step:
            continue
        if trial.on_files:
            if saved.get("wer"):  # `compare` measures only on the dev file
                return saved
        elif (saved.rows[0].samples, saved.seed) == (
            trial.samples,
            EVALUATION_SEED,
        ) and wanted <= set(saved.places):
            return replace(
                saved, rows=tuple(row for row in saved.rows if (row.family, row.length) in wanted)
            )
    return None


# ---- in the process that runs it ----


def versions() -> dict[str, str]:
    """Those that must be the same in every process; of torch without the part that names its build."""
    return {
        "seq2attn": metadata.version("seq2attn"),
        "torch": metadata.version("torch").partition("+")[0],
    }


def train_and_measure(trial: Trial, place: WorkerContext) -> Outcome:
    """Train the trial's run, or continue it, to its end, and measure it. Never raises: an error
    becomes the outcome.
    """
    if not _one_trial.acquire(blocking=False):
        return Outcome(
            "failed", "its process runs another trial in another thread: a worker needs one thread"
        )
    try:
        _check_workplace(place)
        _run(trial, place)
        return Outcome("done")
    except _Stopped:
        return Outcome("stopped")
    except (BeingTrained, RunExists) as error:
        return Outcome("busy", error.message)
    except Exception as error:
        explained = error if isinstance(error, Seq2AttnError) else plugin_error(error)
        return Outcome("failed", str(explained or f"{type(error).__name__}: {error}"))
    finally:
        _one_trial.release()


def _check_workplace(place: WorkerContext) -> None:
    """Raise `Seq2AttnError` if this process lacks what its trials need; load the plug-ins."""
    if not place.marker.exists():
        raise Seq2AttnError(
            f"this worker does not see the runs directory {place.marker.parent} of the comparison"
        )
    own = versions()
    if own != place.versions:
        theirs, mine = (
            ", ".join(f"{name} {at[name]}" for name in own) for at in (place.versions, own)
        )
        raise Seq2AttnError(
            f"this worker has {mine}, and the comparison {theirs}: install the same versions"
        )
    for path, needed in place.plugins.items():
        if path not in loaded:
            load_plugin(path)  # says if there is no such file
        if loaded[path] != needed:
            raise Seq2AttnError(
                f"{path} has changed since the comparison or this worker loaded it: start both again"
            )


class _Stopped(Exception):
    """The comparison asks its trials to stop, or has ended."""


class _Watch(Display):
    """The display of a training that looks, when the training logs, whether the comparison asks it
    to stop.
    """

    def __init__(self, place: WorkerContext) -> None:
        self.request, self._place = StopRequest(), place

    def look(self) -> None:
        """Raise `_Stopped` if the trial is to stop."""
        self.step("", 0)
        if self.request.signal is not None:
            raise _Stopped

    def step(self, trial: str, step: int, text: str = "") -> None:
        if self._place.is_stopping():
            self.request.signal = signal.SIGTERM


def _run(trial: Trial, place: WorkerContext) -> None:
    from seq2attn.training.session import train

    run, watch = trial.run, _Watch(place)
    watch.look()
    if find_evaluation(trial) is not None:
        return
    if blocked := blocked_by(trial):
        raise Seq2AttnError(f"{run.path}: {blocked}", exit_code=1)
    if run.status().state != "finished":
        new = NewRun(
            trial.root,
            trial.name,
            plugins=list(map(str, place.plugins)),
            experiment=trial.experiment,
        )
        where = run if run.config_file.is_file() else new
        train(
            trial.config,
            where,
            device=place.device,
            threads=1,
            display=watch,
            request=watch.request,
        )
        watch.look()
    with training_lock(run):  # so that two processes do not measure it
        if find_evaluation(trial) is None:
            _measure(trial, place.device, watch)


def _measure(trial: Trial, device: str, watch: _Watch) -> None:
    from seq2attn.analysis.ledger import parameter_ledger
    from seq2attn.build import load_task
    from seq2attn.inference.trained_model import load_run

    run = trial.run
    trained = load_run(run, trial.checkpoint, device)
    if trained.checkpoint != trial.checkpoint:
        raise Seq2AttnError(f"{run.checkpoint(trial.checkpoint)}: no such checkpoint", exit_code=1)
    if trial.on_files:
        check_same_files(run, trial.config, trained.task, load_task(trial.config))
        evaluation = trained.evaluate(data=trial.config.data_files["dev"])
    else:
        strings: dict[str, Any] = {
            "samples": trial.samples,
            "seed": EVALUATION_SEED,
            "families": trial.families,
        }
        evaluation = trained.evaluate(trial.lengths, watch=watch.look, **strings)
    parameters = parameter_ledger(trained.predictor.model)
    save_evaluation(
        replace(evaluation, trained_steps=run.status().step, parameters=parameters), run
    )
