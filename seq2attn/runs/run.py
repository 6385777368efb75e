"""Run directories: what is in them, and how to name, find and lock one. Imports no torch."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, first_of, quoted
from seq2attn.files import write_json, writing
from seq2attn.results.answers import AttentionMap
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.records import (
    FORMAT,
    Environment,
    Learned,
    Metrics,
    MetricsLine,
    Snapshot,
    Status,
    read_record,
    read_records,
)

if TYPE_CHECKING:  # `--help` imports this module, but needs no config
    from seq2attn.config import Config

DEFAULT_ROOT = Path("runs")
MAKE_ONE = (
    "Make one: seq2attn train --config configs/scaled.yaml    or name another folder of runs: "
    "--runs-dir FOLDER"
)
WAIT = 0.5  # seconds for a lock, because `is_training` holds it for a moment
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(unsafe_hash=True)  # nothing changes its path
class Run:
    """One run directory. `config_file`, `metrics_file` and so on are the paths of its files."""

    path: Path

    def __post_init__(self) -> None:
        """Set the run's name, and the paths of its files and folders, which need not exist."""
        self.name = self.path.name
        self.config_file = self.path / "config.yaml"  # all values; a directory with it is a run
        self.environment_file = self.path / "environment.json"  # `Environment`; never changed
        self.task_file = self.path / "task.json"  # learned from files: vocabularies, checksums
        self.status_file = self.path / "status.json"  # `Status`
        self.metrics_file = self.path / "metrics.jsonl"  # a line each: losses and evaluations
        self.attention_file = self.path / "attention.jsonl"  # a line each: maps of a few strings
        self.checkpoints = self.path / "checkpoints"  # `last`, `best` and those that are kept
        self.evaluations = self.path / "evaluations"  # what `eval` and `compare` measured
        # locked while a file in `evaluations` is written
        self.evaluations_lock = self.path / "evaluations.lock"
        self.lock_file = self.path / "training.lock"  # locked while the run is trained

    def checkpoint(self, which: str) -> Path:
        """Return the file of a checkpoint: `last` to resume, `best` to use, or `step-64`, one of
        those that `training.snapshot_weights` keeps.
        """
        return self.checkpoints / f"{which}.safetensors"

    def kept_steps(self) -> list[int]:
        """Return the steps N, ascending, whose weights are kept as checkpoint `step-N`."""
        files = self.checkpoints.glob("step-*.safetensors")
        names = [file.stem.removeprefix("step-") for file in files]
        return sorted(int(name) for name in names if name.isdecimal())

    @property
    def has_checkpoint(self) -> bool:
        return self.checkpoint("best").is_file() or self.checkpoint("last").is_file()

    @cached_property
    def config(self) -> Config:
        """The run's config. Raises `Seq2AttnError` for a run of another format, and for a config
        that is wrong, such as one that names a part of a plug-in that is not loaded. Says once if a
        plug-in's file has changed since the run was made.
        """
        from seq2attn.config import load_config
        from seq2attn.display.console import say_once
        from seq2attn.plugins import changed_plugins

        environment = self.environment
        if environment.format != FORMAT:
            number = "unknown" if environment.format is None else quoted(environment.format)
            raise Seq2AttnError(
                f"{self.environment_file}: the format of the run is {number}, and this seq2attn "
                f"reads format {FORMAT}; use the version that made the run, or train it again"
            )
        try:
            config = load_config(self.config_file)
        except ConfigError as error:
            if environment.plugins:
                error.hint = f"The run was made with{plugin_options(environment.plugins)}"
            raise
        for file in changed_plugins(config, environment.plugin_contents):
            say_once(
                f"{file} has changed since run {self.name!r} was made: it may compute something "
                "else than was trained"
            )
        return config

    def learned_task(self, config: Config) -> dict[str, Any] | None:
        """Return what the run keeps of a task that read files, without opening any of them; None
        for any other task.
        """
        return read_record(Learned, self.task_file).model_dump() if config.data_files else None

    def status(self) -> Status:
        """Read status.json. If that fails, nothing is known."""
        with contextlib.suppress(Seq2AttnError):
            return read_record(Status, self.status_file)
        return Status()

    @cached_property
    def environment(self) -> Environment:
        """The contents of environment.json. If one of its values is wrong, only the format is read,
        and the rest is unknown. A run can be used without the file: if it is missing, or is not
        JSON, the run is taken for one of today's format.
        """
        with contextlib.suppress(Seq2AttnError):
            return read_record(Environment, self.environment_file)
        with contextlib.suppress(Seq2AttnError):
            values = read_record(dict[str, Any], self.environment_file)  # any JSON
            return Environment(format=values.get("format"))
        return Environment(format=FORMAT)


def plugin_options(plugins: Iterable[str]) -> str:
    """Return ` --plugin FILE` for each of them, for a suggested command."""
    return "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)


def runs_root(named: str | Path | None = None) -> Path:
    """Return the directory of the runs: the one that is named, SEQ2ATTN_RUNS, or else `runs`."""
    return Path(named or os.environ.get("SEQ2ATTN_RUNS") or DEFAULT_ROOT)


def runs_dir_option(root: Path) -> str:
    """Return ` --runs-dir ROOT` for a suggested command, or nothing if `root` is the default."""
    return "" if root == runs_root() else f" --runs-dir {shlex.quote(str(root))}"


def resume_command(run: Run) -> str:
    """Return the command that continues `run`."""
    options = runs_dir_option(run.path.parent) + plugin_options(run.environment.plugins)
    return f"seq2attn train --resume {run.name}{options}"


def check_name(name: str) -> None:
    """Refuse a run name that is not a plain word, since it could lead out of the runs directory."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', starting with a letter or digit, at most 100"
        raise Seq2AttnError(f"{quoted(name)} is not a valid run name; allowed: {allowed}")


# ---- finding ----


def find_run(root: Path, name: str | Run | None) -> Run:
    """Return the run in the directory `root` that is called `name`, or has the path `name`; if
    `name` is None, the newest run that has a checkpoint; if it is a run, the same, unchecked.

    Raises `Seq2AttnError` for a name that no run may have, and for a path outside `root`; if there
    is no such directory, or it has no config.yaml; and if it has links or special files.
    """
    if isinstance(name, Run):
        return name
    if name is None:
        return _newest_usable(root)
    path = Path(name)
    check_name(path.name)
    if path.parent != Path() and path.parent.resolve() != root.resolve():  # a path elsewhere
        message = f"{quoted(name)} is not in the runs directory, {root}"
        raise Seq2AttnError(message, hint="Name another directory with --runs-dir DIR.")
    run = Run(root / path.name)
    if not run.path.is_dir():
        names = [other.name for other in newest_first(root)]
        existing = f"{did_you_mean(path.name, names)}existing: {first_of(names) or 'none'}"
        hint = None if names else MAKE_ONE
        raise Seq2AttnError(f"no run {path.name!r} in {root}; {existing}", hint=hint)
    if not run.config_file.is_file():
        raise Seq2AttnError(f"{run.path} is not a run: it has no config.yaml", hint=MAKE_ONE)
    return check_plain(run)


def _newest_usable(root: Path) -> Run:
    """Return the newest run that has a checkpoint and is not a trial of a comparison; if all that
    have a checkpoint are trials, the newest of these.

    Raises `Seq2AttnError` if no run has a checkpoint; the message is about the newest run.
    """
    runs = newest_first(root)
    if not runs:
        raise Seq2AttnError(f"no trained model in {root.absolute()} yet", hint=MAKE_ONE)
    usable = [run for run in runs if run.has_checkpoint] or runs  # or: `need_checkpoint` raises
    single = [run for run in usable if run.environment.experiment is None] or usable
    return need_checkpoint(check_plain(single[0]))


def is_in_run(path: Path) -> bool:
    """Return True if the file `path` is in a run directory."""
    runs = map(Run, path.resolve().parents)
    return any(run.config_file.is_file() and run.environment_file.is_file() for run in runs)


def check_plain(run: Run) -> Run:
    """Return `run` if its directory holds plain files and directories only. Raises `Seq2AttnError`
    for anything else, since a link in somebody else's run could lead anywhere.
    """
    for path in run.path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary file may be gone by now
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                message = (
                    f"{path} is a link or a special file; a run holds plain files and "
                    "directories only"
                )
                raise Seq2AttnError(message, hint="Put the file itself there, or remove it.")
    return run


def need_checkpoint(run: Run) -> Run:
    """Return `run` if it has a checkpoint."""
    if not run.has_checkpoint:
        message = f"run {run.name!r} has no checkpoint: {run.checkpoints} is empty"
        raise Seq2AttnError(message, hint=f"Train it: {resume_command(run)}")
    return run


def all_runs(root: Path) -> Iterator[Run]:
    """Yield every run below `root`, in no particular order.

    A directory whose name no run may have is none: commands that are printed have such names.
    """
    for file in root.glob("*/config.yaml"):
        if _NAME.fullmatch(file.parent.name):
            yield Run(file.parent)


def newest_first(root: Path) -> list[Run]:
    """Return every run, the newest first; those of unknown age come last."""
    unknown = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return sorted(
        all_runs(root), key=lambda run: (run.environment.created or unknown, run.name), reverse=True
    )


# ---- one training per run: the operating system releases a lock when its process ends ----


class BeingTrained(Seq2AttnError):
    """Another process trains the run."""


@contextlib.contextmanager
def training_lock(run: Run, wait: float = WAIT, file: Path | None = None) -> Iterator[None]:
    """In this context, keep other processes from training `run`, by locking a file. Raises
    `BeingTrained` if another process has it locked, as no process has that was killed; and
    `Seq2AttnError` if the file cannot be opened.

    wait: how many seconds to wait for the lock. file: what to lock in place of `run.lock_file`, if
        the run does not exist yet.
    """
    from filelock import FileLock, Timeout  # not at the top: `--help` does not wait for it

    file = file or run.lock_file
    with writing(file):
        try:
            # not thread_local: another thread than the one that locked it may leave the context
            lock = FileLock(file, thread_local=False).acquire(timeout=wait)
        except Timeout:
            message = f"run {run.name!r} is being trained by another process"
            raise BeingTrained(message, hint="Wait for it, or stop it; then resume.") from None
    with lock:
        yield


def is_training(run: Run) -> bool:
    """Return True if a live process trains `run`: it can then not be locked. False also if that
    cannot be found out, since its lock file cannot be opened.
    """
    if not run.lock_file.is_file():
        return False
    try:
        with training_lock(run, wait=0):
            return False
    except Seq2AttnError as error:
        return isinstance(error, BeingTrained)


def state_of(run: Run, status: Status) -> str:
    """Return the state of `run` in a word or two, from its `status` and its files."""
    if is_training(run):
        return "training"
    if status.state not in (None, "training"):
        return status.state
    return "stopped" if run.has_checkpoint else "no checkpoint"


# ---- what a run has recorded ----


def read_metrics(run: Run, *, losses: bool = True) -> Metrics:
    """Read the run's metrics so far: evaluations, and losses if they are asked for, of which there
    may be a million lines. Raises `Seq2AttnError` for a damaged line.
    """
    metrics = Metrics([], [])
    containing = b"" if losses else b'"evaluation"'  # what the lines to read contain
    for line in read_records(MetricsLine, run.metrics_file, containing):
        if line.loss is not None:
            metrics.losses.append((line.step, line.loss))
        if line.evaluation:
            metrics.evaluations.append((line.step, Evaluation(line.evaluation)))
    return metrics


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """Read the attention maps recorded in training: pairs of a step and its maps, which are of the
    same strings at each step; empty for a run that has none.

    Raises `Seq2AttnError` for a damaged line, and for one of other strings than the first line's.
    """
    lines = list(read_records(Snapshot, run.attention_file))
    for line in lines:
        if line.strings != lines[0].strings:
            reason = f"the maps after step {line.step:,} are of other strings"
            message = f"{run.attention_file}: not a valid record: {reason}"
            raise Seq2AttnError(message, hint="Remove that line.")
    return [(line.step, list(line.maps)) for line in lines]


# ---- evaluations ----


def save_evaluation(evaluation: Evaluation, run: Run) -> Path:
    """Write an evaluation to a new file of the run, `CHECKPOINT-NNN.json` with the first number
    that is free, and return its path.
    """
    from filelock import FileLock  # not at the top: `--help` does not wait for it

    with writing(run.evaluations):  # an error of the folder or the lock is told as one of writing
        run.evaluations.mkdir(exist_ok=True)
        held = FileLock(run.evaluations_lock).acquire()
    with held:  # until the file is written: another process may want the same number
        for number in itertools.count(1):
            path = run.evaluations / f"{evaluation.checkpoint}-{number:03d}.json"
            # a crash may have left an empty file, which counts as free
            if not path.exists() or not path.stat().st_size:
                break
        write_json(path, evaluation.to_json(run.name))
    return path


def evaluations(run: Run, checkpoint: str = "*", *, skip_damaged: bool = False) -> list[Evaluation]:
    """Return the evaluations that `save_evaluation` has written, in the order in which they were
    measured.

    checkpoint: the name of the only one that counts, such as `best`; `*`: all. skip_damaged: True
        to leave out a damaged file, for which otherwise `Seq2AttnError` is raised.
    """
    saved = []
    for path in sorted(run.evaluations.glob(f"{checkpoint}-*.json")):
        try:
            if path.lstat().st_size:  # a crash may have left an empty file
                saved.append(read_record(Evaluation, path))
        except Seq2AttnError:
            if not skip_damaged:
                raise
    return sorted(saved, key=lambda evaluation: evaluation.created or "")


def latest_by_length(run: Run) -> tuple[str, Evaluation] | None:
    """Return the newest evaluation that has results by length, after a text that says where it
    comes from, such as "eval of best"; None if there is none.

    If `eval` has measured any, it is the last of these, completed by rows that only earlier ones
    have, of the same weights and data: other metrics, lengths or families. Otherwise it is the
    last evaluation in training.
    """
    saved = [evaluation for evaluation in evaluations(run) if evaluation.lengths]
    if saved:
        newest = saved[-1]
        subject = (newest.checkpoint, newest.step, newest.data)
        rows = newest.by_key
        for older in reversed(saved):
            if (older.checkpoint, older.step, older.data) == subject:
                rows = older.by_key | rows  # newer rows stay
        in_order = sorted(rows.values(), key=lambda row: row.length or 0)
        return f"eval of {newest.checkpoint}", replace(newest, rows=tuple(in_order))
    for step, evaluation in reversed(read_metrics(run, losses=False).evaluations):
        if evaluation.lengths:
            return f"training, after step {step:,}", evaluation
    return None
