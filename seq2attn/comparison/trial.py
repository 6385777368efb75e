"""One trial: an ordinary run of one config with one seed, trained, measured, and found again later."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.grid import CONFIG
from seq2attn.config import Config, value_at
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import LengthResult
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import Run, create_run
from seq2attn.training.signals import StopRequest

if TYPE_CHECKING:
    from seq2attn.training.loop import StepReport

EVALUATION_SEED = 0  # that of `eval`: the same strings
FAILURE = "failure.txt"

STOP = StopRequest()
"""whether the trials of this process have been asked to stop"""


@dataclass(frozen=True)
class Trial:
    """What to train and what to measure."""

    name: str
    """the run's name, which experiment, values and seed decide"""
    experiment: str
    group: str
    """the label that it shares with the trials that differ in their seed alone"""
    values: Mapping[str, Any]
    """what varies, but for the seed: config key -> value"""
    seed: int
    base: str
    """the name of its base config"""
    config: Config
    lengths: tuple[int, ...]
    samples: int
    checkpoint: str

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
    """A trial with where and how to run it: all that a worker needs to know."""

    trial: Trial
    root: Path
    device: str = "auto"
    plugins: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """The trial's run directory, which may not be there yet."""
        return Run(self.root / self.trial.name)


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    state: str
    """done, stopped or failed"""
    reason: str = ""


# ---- what is on the disk ----


def blocked_by(trial: Trial, root: Path) -> str | None:
    """Why the trial's run directory cannot be used, or None: it is free, or a run of the same config."""
    run = Run(root / trial.name)
    if not run.path.exists():
        return None
    if not run.config_file.is_file():
        return f"{run.path} is in the way: it is no run"
    try:
        same = run.config() == trial.config
    except Seq2AttnError as error:
        return f"{run.path} is in the way: {error.message}"
    return None if same else f"{run.path} has another config; give this experiment another --name, or remove that run"


def find_record(trial: Trial, root: Path) -> dict[str, Any] | None:
    """What this trial measured when it was run to its end; None where it was not yet."""
    run = Run(root / trial.name)
    status = run.status()
    if status.get("state") != "finished":
        return None
    for path in sorted(run.evaluations.glob(f"{trial.checkpoint}-*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and _answers(record, trial, status.get("step")):
            return record
    return None


def _answers(record: dict[str, Any], trial: Trial, step: object) -> bool:
    """Whether an evaluation is the one that the trial asks for, of the run as it now is."""
    asked = {"checkpoint": trial.checkpoint, "samples": trial.samples, "seed": EVALUATION_SEED, "step": step}
    lengths = record.get("lengths")
    return (
        all(record.get(key) == value for key, value in asked.items())
        and isinstance(lengths, dict)
        and {str(length) for length in trial.lengths} <= lengths.keys()
        and _is_whole(record, trial)
    )


def _is_whole(record: dict[str, Any], trial: Trial) -> bool:
    """Whether parameters and lengths are what `_measure` writes: the run may be a stranger's, or damaged."""
    try:
        for length in trial.lengths:
            LengthResult.from_json(record["lengths"][str(length)])
        return all(isinstance(count, int) for count in (record["parameters"]["total"], *record["parameters"].values()))
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


# ---- running ----


def run_trial(job: Job) -> Outcome:
    """Train the trial's run from where it is to its end and measure it. Never raises: what goes wrong is the outcome."""
    try:
        return _run(job)
    except Seq2AttnError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        where = ""
        if job.run.path.is_dir():
            write_atomically(job.run.path / FAILURE, traceback.format_exc().encode(errors="backslashreplace"))
            where = f" (traceback: {job.run.path / FAILURE})"
        return Outcome("failed", f"{type(error).__name__}: {error}{where}")


def _run(job: Job) -> Outcome:
    from seq2attn.model.build import build_model
    from seq2attn.model.parameters import parameter_ledger
    from seq2attn.runs.environment import choose_device
    from seq2attn.runs.footprint import check_training_memory
    from seq2attn.runs.lock import training_lock
    from seq2attn.training.loop import Trainer

    if STOP.signal is not None:
        return Outcome("stopped")
    device = choose_device(job.device)
    parameters = parameter_ledger(build_model(job.trial.config))  # what cannot be built leaves no run behind
    check_training_memory(job.trial.config, device)
    run = _open_run(job, device)
    if run.status().get("state") != "finished":
        with training_lock(run):
            Trainer(run, job.trial.config, device, _Silence()).train(STOP)
    if run.status().get("state") != "finished":
        return Outcome("stopped")
    return _measure(job, run, parameters)


def _open_run(job: Job, device: Any) -> Run:
    """The trial's run: as it is, or made."""
    import torch

    from seq2attn.runs.environment import describe_environment

    trial, run = job.trial, job.run
    blocked = blocked_by(trial, job.root)
    if blocked:
        raise Seq2AttnError(blocked, exit_code=1)
    if run.config_file.is_file():
        return run
    environment = describe_environment(
        seed=trial.seed, device=device, threads=torch.get_num_threads(), plugins=list(job.plugins)
    )
    environment["experiment"] = {"name": trial.experiment, "group": trial.group, "values": dict(trial.values)}
    return create_run(job.root, trial.name, trial.config, environment, exact=True)


def _measure(job: Job, run: Run, parameters: dict[str, int]) -> Outcome:
    from seq2attn.inference.evaluation import evaluate
    from seq2attn.runs.loading import load_predictor

    trial = job.trial
    if find_record(trial, job.root) is not None:
        return Outcome("done")

    def stop_if_asked() -> None:
        if STOP.signal is not None:
            raise _Stopped

    try:
        results = evaluate(
            load_predictor(run, trial.checkpoint, job.device),
            trial.lengths,
            samples=trial.samples,
            seed=EVALUATION_SEED,
            progress=stop_if_asked,
        )
    except _Stopped:
        return Outcome("stopped")
    record = {
        "run": run.name,
        "checkpoint": trial.checkpoint,
        "samples": trial.samples,
        "seed": EVALUATION_SEED,
        "step": run.status().get("step"),
        "parameters": parameters,
        "lengths": {str(result.length): result.to_json() for result in results},
    }
    run.save_evaluation(trial.checkpoint, record)
    return Outcome("done")


class _Stopped(Exception):
    """Somebody asked to stop while a trial was measured."""


class _Silence:
    """A display for nobody: progress is read from the run's files."""

    def step(self, report: StepReport) -> None: ...

    def evaluation(self, step: int, results: list[LengthResult]) -> None: ...
