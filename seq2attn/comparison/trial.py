"""One trial: an ordinary run of one config with one seed, which is trained and measured."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.grid import CONFIG
from seq2attn.config import Config, value_at
from seq2attn.config.plugin_errors import plugin_error
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import Evaluation, Place
from seq2attn.parts import RANDOM
from seq2attn.runs.evaluations import readable_evaluations, save_evaluation
from seq2attn.runs.files import write_atomically
from seq2attn.runs.lock import BeingTrained, is_remote, training_lock
from seq2attn.runs.making import RunExists
from seq2attn.runs.resuming import check_same_files
from seq2attn.runs.run import Run, check_plain
from seq2attn.training.signals import StopRequest

if TYPE_CHECKING:
    from seq2attn.runs.loading import Trained
    from seq2attn.training.session import NewRun

EVALUATION_SEED = 0  # that of `eval`: the same strings
FAILURE = "failure.txt"

STOP_REQUEST = StopRequest()  # for the trials of this process
_ALONE = threading.Lock()  # a process runs one trial at a time, in however many threads it is asked to


@dataclass(frozen=True)
class Trial:
    """What to train and what to measure."""

    name: str
    """of the run; a function of experiment, values and seed"""
    experiment: str
    group: str
    """label of the trials that differ only in their seed"""
    values: Mapping[str, Any]
    """what varies except the seed: config key -> value"""
    seed: int
    base: str
    """the name of its base config"""
    config: Config
    lengths: tuple[int, ...]
    samples: int
    checkpoint: str
    families: tuple[str, ...] = (RANDOM,)

    @property
    def places(self) -> list[Place]:
        """What it measures: families of strings and lengths."""
        return [(family, length) for family in self.families for length in self.lengths]

    @property
    def on_files(self) -> bool:
        """Whether its task reads files; it is then measured on the dev file, and not on strings of `lengths`."""
        return bool(self.config.data_files)

    def has(self, key: str) -> bool:
        """Whether the config has this dotted key; `config` stands for the base config's name."""
        try:
            self.value(key)
        except KeyError:
            return False
        return True

    def matches(self, key: str, value: Any) -> bool:
        """Whether the config has this value at a dotted key; a part's name matches it with any options."""
        found = self.value(key) if self.has(key) else None
        return found == value or (isinstance(found, dict) and found.get("name") == value)

    def value(self, key: str) -> Any:
        """The value at a dotted key, or the base config's name."""
        return self.base if key == CONFIG else value_at(self.config, key)


@dataclass(frozen=True)
class Job:
    """A trial, and where and how to run it."""

    trial: Trial
    root: Path
    device: str = "auto"
    plugins: tuple[str, ...] = ()
    claimed: bool = False
    """whether the caller holds the run's `remote_lock`"""

    @property
    def run(self) -> Run:
        """The trial's run directory, which may not exist yet."""
        return Run(self.root / self.trial.name)


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    state: str
    """done, stopped, failed, or busy: another process is at work on its run"""
    reason: str = ""


def blocked_by(trial: Trial, root: Path) -> str | None:
    """Why the trial's run directory cannot be used; None if it does not exist or is a run of the same config."""
    run = Run(root / trial.name)
    if not run.path.exists():
        return None
    if not run.config_file.is_file():
        return f"{run.path} exists but is not a run"
    try:
        same = check_plain(run).config() == trial.config
    except Seq2AttnError as error:
        return f"{run.path} exists, but cannot be used: {error.message}"
    return None if same else f"{run.path} has another config; give this experiment another --name, or remove that run"


def find_evaluation(trial: Trial, root: Path) -> Evaluation | None:
    """The evaluation of the finished trial, with all its lengths; None if there is none yet."""
    run = Run(root / trial.name)
    status = run.status()
    if status.state != "finished":
        return None
    wanted = (trial.checkpoint, trial.samples, EVALUATION_SEED)
    for _, saved in readable_evaluations(run, trial.checkpoint):
        if saved.parameters is None or saved.trained_steps != status.step:
            continue
        if trial.on_files:  # `compare` measures only on the dev file
            if saved.answers:
                return saved
        elif wanted == (saved.checkpoint, saved.samples, saved.seed) and set(trial.places) <= set(saved.places):
            return saved
    return None


def run_bundle(jobs: Sequence[Job]) -> Sequence[Outcome]:
    """Run each job, one after another."""
    return [run_trial(job) for job in jobs]


def _where(job: Job) -> Run | NewRun:
    """The trial's run, or how to make it."""
    from seq2attn.build import read_task
    from seq2attn.training.session import NewRun

    trial = job.trial
    if trial.families != (RANDOM,):  # refused now, not after training
        read_task(trial.config).check_families(trial.families)
    experiment = {"name": trial.experiment, "group": trial.group, "values": dict(trial.values)}
    new = NewRun(job.root, trial.name, plugins=job.plugins, experiment=experiment)
    return job.run if job.run.config_file.is_file() else new


def run_trial(job: Job) -> Outcome:
    """Train the trial's run, or continue it, to its end, and measure it. Never raises: an error becomes the outcome."""
    try:
        with _ALONE:
            elsewhere = Outcome("busy", f"run {job.trial.name!r} is being trained on another machine")
            return elsewhere if not job.claimed and is_remote(job.run) else _run(job)
    except (BeingTrained, RunExists) as error:
        return Outcome("busy", error.message)
    except Seq2AttnError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        explained = plugin_error(error)
        if explained is not None:
            return Outcome("failed", str(explained))
        where = ""
        if job.run.path.is_dir():
            write_atomically(job.run.path / FAILURE, traceback.format_exc().encode(errors="backslashreplace"))
            where = f" (traceback: {job.run.path / FAILURE})"
        return Outcome("failed", f"{type(error).__name__}: {error}{where}")


def _run(job: Job) -> Outcome:
    from seq2attn.training.session import train

    trial, run = job.trial, job.run
    if STOP_REQUEST.signal is not None:
        return Outcome("stopped")
    blocked = blocked_by(trial, job.root)
    if blocked:
        raise Seq2AttnError(blocked, exit_code=1)
    if run.status().state != "finished":
        ended = train(trial.config, _where(job), device=job.device, threads=1, request=STOP_REQUEST)
        if not ended.finished:
            return Outcome("stopped")
    if find_evaluation(trial, job.root) is not None:
        return Outcome("done")
    with training_lock(run):  # so that two processes do not measure it
        return Outcome("done") if find_evaluation(trial, job.root) is not None else _measure(job)


def _measure(job: Job) -> Outcome:
    from seq2attn.model.parameters import parameter_ledger
    from seq2attn.runs.loading import load_trained

    trial, run = job.trial, job.run
    trained = load_trained(run, trial.checkpoint, job.device)
    if trained.checkpoint != trial.checkpoint:
        raise Seq2AttnError(f"{run.checkpoint(trial.checkpoint)}: no such checkpoint", exit_code=1)
    try:
        evaluation = _evaluate(trial, run, trained)
    except _Stopped:
        return Outcome("stopped")
    parameters = parameter_ledger(trained.predictor.model)
    save_evaluation(replace(evaluation, trained_steps=run.status().step, parameters=parameters), run)
    return Outcome("done")


def _evaluate(trial: Trial, run: Run, trained: Trained) -> Evaluation:
    from seq2attn.build import read_task
    from seq2attn.runs.loading import measure, measure_on_file

    if trial.on_files:
        check_same_files(run, trial.config, read_task(trial.config))
        return measure_on_file(trained, Path(trial.config.data_files["dev"]))

    def stop_if_asked() -> None:
        if STOP_REQUEST.signal is not None:
            raise _Stopped

    return measure(
        run,
        trained,
        trial.lengths,
        families=trial.families,
        samples=trial.samples,
        seed=EVALUATION_SEED,
        progress=stop_if_asked,
    )


class _Stopped(Exception):
    """A stop was requested during the evaluation of a trial."""
