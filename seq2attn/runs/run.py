"""Run directories: where they are, what is in them, how one is named and found. Imports no torch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, first_of, shown
from seq2attn.runs.files import not_written, read_plain, write_json

if TYPE_CHECKING:  # `--help` needs the name of the directory, not what a config may hold
    from seq2attn.config import Config

DEFAULT_ROOT = Path("runs")
MAKE_ONE = "Make one: seq2attn train --config configs/scaled.yaml"
LARGEST_JSON = 1_000_000  # bytes of status.json or environment.json
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Run:
    """One run directory.

    config.yaml       the resolved config; written first, never changed
    environment.json  versions, device, threads, seed, command, git commit
    status.json       how far it is
    metrics.jsonl     one JSON object a line: losses, then evaluations
    attention.jsonl   attention on a few strings, one JSON object an evaluation
    events.out.*      the same for TensorBoard, with images and hyperparameters
    checkpoints/      last.safetensors (to resume), best.safetensors (to use)
    evaluations/      what `eval` measured
    profile.*         a trace of some steps, if `train --profile` was asked for one
    training.lock     there while the run is trained
    """

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def environment_file(self) -> Path:
        return self.path / "environment.json"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def attention_file(self) -> Path:
        return self.path / "attention.jsonl"

    @property
    def profile_file(self) -> Path:
        return self.path / "profile.pt.trace.json.gz"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations"

    def checkpoint(self, which: str) -> Path:
        """The file of checkpoint `last` or `best`."""
        return self.path / "checkpoints" / f"{which}.safetensors"

    @property
    def has_checkpoint(self) -> bool:
        return self.checkpoint("best").is_file() or self.checkpoint("last").is_file()

    def config(self, overrides: Sequence[str] = ()) -> Config:
        """The run's config with `overrides` laid over it, checked as any other."""
        from seq2attn.config import load_config

        try:
            return load_config(self.config_file, overrides)
        except ConfigError as error:
            plugin_words = plugin_options(self.plugins())
            unknown = any("unknown score" in problem.message for problem in error.problems)
            if unknown and plugin_words:
                hint = f"The run was made with{plugin_words}"
                raise ConfigError(str(self.config_file), error.problems, hint=hint) from None
            raise

    def experiment(self) -> str | None:
        """The name of the comparison that the run is a trial of."""
        experiment = self.environment().get("experiment")
        return str(experiment["name"]) if isinstance(experiment, dict) and "name" in experiment else None

    def plugins(self) -> list[str]:
        """The plug-ins that the run was made with, as environment.json has them."""
        plugins = self.environment().get("plugins")
        return list(map(str, plugins)) if isinstance(plugins, list) else []

    def status(self) -> dict[str, Any]:
        """The contents of status.json; empty where there is none that can be read."""
        return _read_json_object(self.status_file)

    def environment(self) -> dict[str, Any]:
        """The contents of environment.json; empty where there is none that can be read."""
        return _read_json_object(self.environment_file)

    def save_evaluation(self, name: str, record: dict[str, Any]) -> Path:
        """Write `record` as a new file of `evaluations/`, whose name starts with `name`; nothing is replaced."""
        try:
            self.evaluations.mkdir(exist_ok=True)
            path = self._claim_evaluation(name)
        except OSError as error:
            raise not_written(self.evaluations, error) from error
        try:
            write_json(path, record)
        except Seq2AttnError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _claim_evaluation(self, name: str) -> Path:
        """An empty new file; of two processes that want the same number, one gets the next."""
        number = 0
        while True:
            number += 1
            path = self.evaluations / f"{name}-{number:03d}.json"
            with contextlib.suppress(FileExistsError):
                path.touch(exist_ok=False)
                return path


def plugin_options(plugins: Iterable[str]) -> str:
    """` --plugin FILE` for each of them, for a command that is suggested."""
    return "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)


def check_name(name: str) -> None:
    """Refuse a run name that is not a plain word: it must not lead out of the runs directory."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', starting with a letter or digit, at most 100"
        raise Seq2AttnError(f"{shown(name)} is not a run name; allowed: {allowed}")


def find_run(root: Path, name: str | None) -> Run:
    """The run called `name` (or `ROOT/name`); the newest one that has a checkpoint where `name` is None."""
    if name is None:
        return _newest(root)
    folder, slash, last = name.rstrip("/\\").replace(os.sep, "/").rpartition("/")
    check_name(last)
    if slash and Path(folder or "/").resolve() != root.resolve():
        raise Seq2AttnError(
            f"{shown(name)} is not in the runs directory, {root}", hint="Name another with --runs-dir DIR."
        )
    run = Run(root / last)
    if not run.path.is_dir():
        raise _no_such_run(last, root)
    if not run.config_file.is_file():
        raise Seq2AttnError(f"{run.path} is not a run: it has no config.yaml", hint=MAKE_ONE)
    return _plain(run)


def _no_such_run(name: str, root: Path) -> Seq2AttnError:
    runs = newest_first(root)
    if not runs:
        return Seq2AttnError(f"no run {name!r} in {root}: there is none yet", hint=MAKE_ONE)
    trials = [run.name for run in runs if run.experiment() == name]
    if trials:
        message = f"{name!r} in {root} is a comparison, not a run; its runs are: {first_of(trials)}"
        return Seq2AttnError(message, hint=f"All of it in one page: seq2attn report {name}")
    names = [run.name for run in runs]
    return Seq2AttnError(f"no run {name!r} in {root}; {did_you_mean(name, names)}there are: {first_of(names)}")


def _plain(run: Run) -> Run:
    """`run`, if it holds plain files and directories only: a link in somebody else's run could lead anywhere."""
    waiting = [run.path]
    if run.path.is_symlink():
        raise _not_plain(run.path)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):  # or it is gone
                        raise _not_plain(Path(entry.path))
        except OSError as error:
            raise Seq2AttnError(f"{run.path}: cannot be read: {error.strerror or error}") from error
    return run


def _not_plain(path: Path) -> Seq2AttnError:
    kind = "a link" if path.is_symlink() else "not a plain file"
    hint = "Put the file itself there, or remove it." if path.is_symlink() else "Remove it."
    return Seq2AttnError(f"{path} is {kind}; a run holds plain files and directories only", hint=hint)


def need_checkpoint(run: Run) -> Run:
    """`run`, if it has a checkpoint."""
    if not run.has_checkpoint:
        trained = bool(run.status().get("step"))
        when, how = ("any more", "Train it again, from the start") if trained else ("yet", "Train it")
        hint = f"{how}: seq2attn train --resume {run.name}{plugin_options(run.plugins())}"
        empty = f"({run.path / 'checkpoints'} is empty)"
        raise Seq2AttnError(f"run {run.name!r} has no checkpoint {when} {empty}", hint=hint)
    return run


def all_runs(root: Path) -> Iterator[Run]:
    """Every run below `root`, in no particular order."""
    if not root.is_dir():
        return
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
    except OSError as error:
        raise Seq2AttnError(f"{root}: cannot be read: {error.strerror or error}") from error
    for name in names:
        if os.path.isfile(os.path.join(root, name, "config.yaml")):
            yield Run(root / name)


def newest_first(root: Path) -> list[Run]:
    """Every run, the one made last first."""
    return sorted(all_runs(root), key=lambda run: (time_made(run), _natural(run.name)), reverse=True)


def _newest(root: Path) -> Run:
    runs = newest_first(root)
    for run in runs:
        if run.has_checkpoint:
            return _plain(run)
    if runs:
        return need_checkpoint(runs[0])
    raise Seq2AttnError(f"no run in {root} yet", hint=MAKE_ONE)


def time_made(run: Run) -> float:
    """Seconds since the epoch; 0 for a run that is being removed."""
    try:
        return run.config_file.stat().st_mtime  # written once, when the run was made
    except OSError:
        return 0.0


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts run-9 before run-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _read_json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_plain(path, LARGEST_JSON))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
