"""Run directories: what is in them, and how to name, find and lock one. Imports no torch."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.files import writing
from seq2attn.runs.records import Environment, Status, read_record
from seq2attn.text import did_you_mean, first_of, quoted

if TYPE_CHECKING:  # `--help` imports this module, but needs no config
    from seq2attn.config import Config

DEFAULT_ROOT = Path("runs")
MAKE_ONE = "Make one: seq2attn train --config configs/scaled.yaml"
WAIT = 0.5  # seconds for a lock, because `is_training` holds it for a moment
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class _Inside:
    """An attribute of `Run`: the path of a file or folder in its directory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: Run, owner: type) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class Run:
    """One run directory. Besides the files below it has TensorBoard's events.out.*."""

    path: Path

    config_file = _Inside("config.yaml")  # the resolved config; written first, never changed
    environment_file = _Inside(
        "environment.json"
    )  # versions, device, threads, seed, command, git commit
    task_file = _Inside(
        "task.json"
    )  # what the task learned from its files: vocabularies, and the files' checksums
    status_file = _Inside("status.json")  # the state of training and its last evaluation
    metrics_file = _Inside("metrics.jsonl")  # one JSON object a line: losses and evaluations
    attention_file = _Inside(
        "attention.jsonl"
    )  # attention on a few strings, one JSON object a snapshot
    checkpoints = _Inside(
        "checkpoints"
    )  # last.safetensors (to resume), best.safetensors (to use), step-N
    evaluations = _Inside("evaluations")  # what `eval` and `compare` measured
    lock_file = _Inside("training.lock")  # locked while the run is trained

    @property
    def name(self) -> str:
        return self.path.name

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def checkpoint(self, which: str) -> Path:
        """The file of checkpoint `last`, `best`, or `step-64`, one of those that
        `training.snapshot_weights` keeps.
        """
        return self.checkpoints / f"{which}.safetensors"

    def kept_steps(self) -> list[int]:
        """The steps N, ascending, whose weights are kept as checkpoint `step-N`."""
        names = (
            file.stem.removeprefix("step-") for file in self.checkpoints.glob("step-*.safetensors")
        )
        return sorted(int(name) for name in names if name.isdecimal())

    @property
    def has_checkpoint(self) -> bool:
        return self.checkpoint("best").is_file() or self.checkpoint("last").is_file()

    def config(self, overrides: Sequence[str] = ()) -> Config:
        """The run's config with `overrides` applied, checked like any other. A run of another
        version is refused.
        """
        from importlib import metadata

        from seq2attn.config import load_config
        from seq2attn.display.console import say_once
        from seq2attn.plugins import changed_plugins

        environment, here = self.environment(), metadata.version("seq2attn")
        made_by = environment.versions.get("seq2attn")
        if made_by not in (None, here):
            message = f"run {self.name!r} was made by seq2attn {quoted(made_by)}, and this is seq2attn {here}"
            raise Seq2AttnError(message, hint="Use it with that version, or train it again.")
        try:
            config = load_config(self.config_file, overrides)
        except ConfigError as error:
            if environment.plugins:
                again = f"{plugin_options(environment.plugins)}; in Python: plugins={list(environment.plugins)}"
                error.hint = f"The run was made with{again}"
            raise
        for file in changed_plugins(config, environment.plugin_contents):
            say_once(  # a command reads a run's config several times
                f"{file} has changed since run {self.name!r} was made: it may compute something else than was trained"
            )
        return config

    def learned_task(self, config: Config) -> dict[str, Any] | None:
        """What the run keeps of a task that read files; None for any other task. Opens none of
        those files.
        """
        return read_record(dict[str, Any], self.task_file) if config.data_files else None

    def status(self) -> Status:
        """The contents of status.json; nothing is known of one that cannot be read."""
        with contextlib.suppress(Seq2AttnError):
            return read_record(Status, self.status_file, "status")
        return Status()

    def environment(self) -> Environment:
        """The contents of environment.json; nothing is known of one that cannot be read."""
        with contextlib.suppress(Seq2AttnError):
            return read_record(Environment, self.environment_file, "status")
        return Environment()


def plugin_options(plugins: Iterable[str]) -> str:
    """` --plugin FILE` for each of them, for a suggested command."""
    return "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)


def runs_dir_option(root: Path) -> str:
    """` --runs-dir ROOT` for a suggested command, or an empty string if `root` is its default."""
    usual = Path(os.environ.get("SEQ2ATTN_RUNS") or DEFAULT_ROOT)
    return "" if root == usual else f" --runs-dir {shlex.quote(str(root))}"


def resume_command(run: Run) -> str:
    """The command that continues `run`: with its plug-ins, and where it reads files, with a config."""
    config = f" --config {shlex.quote(str(run.config_file))}" if run.task_file.exists() else ""
    options = (
        f"{runs_dir_option(run.path.parent)}{config}{plugin_options(run.environment().plugins)}"
    )
    return f"seq2attn train --resume {run.name}{options}"


def check_name(name: str) -> None:
    """Refuse a run name that is not a plain word, since it could lead out of the runs directory."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', starting with a letter or digit, at most 100"
        raise Seq2AttnError(f"{quoted(name)} is not a valid run name; allowed: {allowed}")


def find_run(root: Path, name: str | None) -> Run:
    """The run called `name` (or `ROOT/name`); if `name` is None, the newest run that has a
    checkpoint and is not a trial of a comparison, or the newest trial where there are only trials.
    """
    if name is None:
        return _newest(root)
    if not isinstance(name, str | Path):
        kind = type(name).__name__
        raise Seq2AttnError(
            f"expected a run or its name; found a {kind}",
            hint="A model itself has `model.evaluate`.",
        )
    path = Path(name)
    check_name(path.name)
    if path.parent != Path() and path.parent.resolve() != root.resolve():
        message = f"{quoted(name)} is not in the runs directory, {root}"
        raise Seq2AttnError(message, hint="Name another directory with --runs-dir DIR.")
    run = Run(root / path.name)
    if not run.path.is_dir():
        names = [one.name for one in newest_first(root)]
        existing = (
            f"{did_you_mean(path.name, names)}existing: {first_of(names)}"
            if names
            else "there are no runs yet"
        )
        raise Seq2AttnError(
            f"no run {path.name!r} in {root}; {existing}", hint=None if names else MAKE_ONE
        )
    if not run.config_file.is_file():
        raise Seq2AttnError(f"{run.path} is not a run: it has no config.yaml", hint=MAKE_ONE)
    return check_plain(run)


def check_plain(run: Run) -> Run:
    """`run`, if it holds plain files and directories only: a link in somebody else's run could lead
    anywhere.
    """
    for path in run.path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # it may be gone by now
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                kind = "a link" if stat.S_ISLNK(mode) else "not a plain file"
                message = f"{path} is {kind}; a run holds plain files and directories only"
                raise Seq2AttnError(message, hint="Put the file itself there, or remove it.")
    return run


def need_checkpoint(run: Run) -> Run:
    """`run`, if it has a checkpoint."""
    if not run.has_checkpoint:
        message = f"run {run.name!r} has no checkpoint: {run.checkpoints} is empty"
        raise Seq2AttnError(message, hint=f"Train it: {resume_command(run)}")
    return run


def all_runs(root: Path) -> Iterator[Run]:
    """Every run below `root`, in no particular order."""
    return (Run(file.parent) for file in root.glob("[!.]*/config.yaml"))


def newest_first(root: Path) -> list[Run]:
    """Every run, the last one made first; those of unknown age come last."""
    unknown = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return sorted(
        all_runs(root),
        key=lambda run: (run.environment().created or unknown, run.name),
        reverse=True,
    )


def _newest(root: Path) -> Run:
    runs = newest_first(root)
    if not runs:
        raise Seq2AttnError(f"no run in {root} yet", hint=MAKE_ONE)
    usable = [run for run in runs if run.has_checkpoint]
    run = next((run for run in usable if run.environment().experiment is None), None) or next(
        iter(usable or runs)
    )
    return need_checkpoint(check_plain(run))


# ---- one training per run: the operating system releases a lock when its process ends ----


class BeingTrained(Seq2AttnError):
    """Another process trains the run."""


@contextlib.contextmanager
def training_lock(run: Run, wait: float = WAIT) -> Iterator[None]:
    """Keep other processes from training `run`. Raises `BeingTrained` if one of them does; a killed
    one holds nothing.
    """
    from filelock import FileLock, Timeout  # not at the top: `--help` does not wait for it

    with contextlib.ExitStack() as held:
        with writing(run.lock_file):
            try:
                held.enter_context(FileLock(run.lock_file, timeout=wait, thread_local=False))
            except Timeout:
                message = f"run {run.name!r} is being trained by another process"
                raise BeingTrained(message, hint="Wait for it, or stop it; then resume.") from None
        yield


def is_training(run: Run) -> bool:
    """Whether a live process trains `run`."""
    if not run.lock_file.is_file():
        return False
    try:
        with training_lock(run, wait=0):
            return False
    except Seq2AttnError as error:
        return isinstance(error, BeingTrained)


def state_of(run: Run, status: Status) -> str:
    """The state of `run` in a word or two, from its `status` and its files."""
    if is_training(run):
        return "training"
    if status.state is None:
        unknown = "stopped" if run.has_checkpoint else "no checkpoint"
        return "unreadable status.json" if run.status_file.exists() else unknown
    return "stopped" if status.state == "training" else status.state
