"""Creating run directories: atomically, and never over an existing one; and who may continue one.

Imports no torch at the top.
"""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.config import Config, dump_config, flat_values, load_config
from seq2attn.config.load import Overrides, override_list
from seq2attn.config.yaml_files import find_config
from seq2attn.errors import Seq2AttnError
from seq2attn.plugins import loaded
from seq2attn.runs.files import write_atomically, write_json, writing
from seq2attn.runs.run import Run, check_name, find_run, resume_command
from seq2attn.text import quoted

if TYPE_CHECKING:
    import torch

    from seq2attn.data.tasks import Task

LONGEST_NAME = 80  # characters of a default name, without its number
PACKAGES = ("seq2attn", "torch", "numpy", "safetensors", "pydantic", "tensorboard")


@dataclass(frozen=True)
class NewRun:
    """Where to create a run, and what its environment.json records besides the machine."""

    root: Path
    name: str
    exact: bool = True
    """use exactly this name; otherwise a number is appended"""
    plugins: Sequence[str] = ()
    experiment: str | None = None
    """the comparison that the run is a trial of"""
    note: str | None = None


class RunExists(Seq2AttnError):
    """There is a run of this name already."""


def run_name(config: Path, changes: Sequence[str] = ()) -> str:
    """A default name from the config's file and the `changes`, `KEY=VALUE`, in characters that a
    run's name may have.

    `configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name. `scaled.yaml` with
    `model.attention.score=additive` -> `scaled-score_additive`. A long name is cut.
    """
    file = find_config(config)
    words = [file.parent.name, file.stem] if file.parent.parent.name == "configs" else [file.stem]
    for change in changes:
        key, _, value = change.partition("=")
        words.append(f"{key.removesuffix('.name').rpartition('.')[2]}_{value}")
    return "-".join(filter(None, map(run_word, words)))[:LONGEST_NAME] or "run"


def run_word(text: str) -> str:
    """`text` in characters that a run's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


def create_run(
    new: NewRun,
    config: Config,
    environment: Mapping[str, Any],
    learned: Mapping[str, Any] | None = None,
) -> Run:
    """The new run's directory: its name itself if `exact`, otherwise `name-001`, `name-002`, ...
    whichever is free.

    learned: what the run's task learned from its files.

    Nothing is overwritten: `RunExists` if the exact name exists. The directory is made under a
    temporary name and renamed once it is complete, so that no run lacks its config.
    """
    check_name(new.name)
    made = Run(new.root / f".new-{secrets.token_hex(8)}")
    try:
        with writing(new.root):
            made.checkpoints.mkdir(parents=True)
            created = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            write_json(made.environment_file, {"created": created, **environment})
            if learned is not None:
                write_json(made.task_file, learned)
            write_atomically(made.config_file, dump_config(config).encode())
            return Run(_place(made.path, new.root, new.name, exact=new.exact))
    finally:
        shutil.rmtree(made.path, ignore_errors=True)


def _place(made: Path, root: Path, name: str, *, exact: bool) -> Path:
    """Rename the directory `made` to `root/name`, or to that with the next free number behind it."""
    pattern = re.compile(re.escape(name) + r"-(\d{3,})")
    numbers = [int(match[1]) for entry in os.listdir(root) if (match := pattern.fullmatch(entry))]
    following = (f"{name}-{number:03d}" for number in itertools.count(max(numbers, default=0) + 1))
    for chosen in [name] if exact else following:
        path = root / chosen
        try:
            if not os.path.lexists(path):
                return made.rename(
                    path
                )  # if two processes get here, the second fails: a run is never empty
        except OSError:
            if not os.path.lexists(path):
                raise
    raise RunExists(
        f"run {name!r} already exists in {root}",
        hint=f"Choose another --name, or continue it: {resume_command(Run(root / name))}",
    )


def describe_environment(
    new: NewRun, config: Config, device: torch.device, threads: int, kernels: str
) -> dict[str, Any]:
    """The contents of environment.json, but for the time, which is that of the run's directory."""
    import torch

    return {
        "command": [word.encode(errors="backslashreplace").decode() for word in sys.argv],
        "seed": config.seed,
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor(),
        "threads": threads,
        "kernels": kernels,
        "plugins": list(new.plugins),
        "plugin_contents": [loaded[Path(file).resolve()] for file in new.plugins],
        "experiment": new.experiment,
        "note": new.note and new.note.encode(errors="backslashreplace").decode(),
        "commit": _commit(),
        "platform": platform.platform(),
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in PACKAGES},
        },
    }


def _commit() -> str | None:
    """The commit of the working directory, with `-dirty` if anything is uncommitted; None outside a
    repository.
    """
    words = ("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    try:
        return subprocess.check_output(
            words,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=5,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None


# ---- continuing ----


def prepare_training(
    config: str | Path | Mapping[str, Any] | Config | None,
    overrides: Overrides = (),
    *,
    root: Path,
    name: str | None = None,
    resume: str | Run | None = None,
    plugins: Sequence[str] = (),
    note: str | None = None,
) -> tuple[Config, Run | NewRun]:
    """The config to train, and the run that is continued with it or made for it in `root`."""
    run = resume if resume is None or isinstance(resume, Run) else find_run(root, resume)
    if run is not None and (
        name or note or (overrides and config is None)
    ):  # a config of files may be changed
        raise Seq2AttnError(
            "--resume continues a run unchanged; --set, --name and --note are for new runs",
            hint=f"For a new run: seq2attn train --config {run.config_file} --set ...",
        )
    settings = None if config is None else load_config(config, overrides)
    if run is not None:
        return config_to_resume(run, settings), run
    if settings is None:
        raise Seq2AttnError(
            "give either --config FILE or --resume RUN", hint="See: seq2attn train --help"
        )
    file = Path(config if isinstance(config, str | Path) else "run")
    chosen = run_name(file, sorted(override_list(overrides))) if name is None else name
    return settings, NewRun(root, chosen, exact=name is not None, plugins=plugins, note=note)


def config_to_resume(run: Run, named: Config | None) -> Config:
    """The config with which `run` is continued: its own, or where its task reads files, the one
    that the user `named`.

    A run never makes a command read a file: somebody else's run could name any. Raises
    `Seq2AttnError` where a config is needed and not named, and where the named one differs in more
    than the files' places.
    """
    own = run.config()
    if not own.data_files:
        if named is not None:
            message = "both --config and --resume are given: one starts a new run, the other continues one"
            raise Seq2AttnError(message, hint="Leave one of them out. See: seq2attn train --help")
        return own
    if named is None:
        files = ", ".join(quoted(path, 200) for path in own.data_files.values())
        raise Seq2AttnError(
            f"run {run.name!r} is trained on files, which a run's own config never opens: {files}",
            hint=f"Name a config, if you trust its paths: {resume_command(run)}",
        )
    changed = first_change(
        own, named, {f"task.{name}" for name in (*own.data_files, *named.data_files)}
    )
    if changed is not None:
        hint = "A run is continued unchanged; only the places of its files may differ."
        raise Seq2AttnError(f"this is not the config of run {run.name!r}: {changed}", hint=hint)
    return named


def first_change(own: Config, named: Config, ignored: Collection[str] = ()) -> str | None:
    """The first key in which a run's `own` config differs from the `named` one, with both values;
    None if none does.
    """
    before, now = flat_values(own), flat_values(named)
    keys = (
        key for key in {**before, **now} if key not in ignored and before.get(key) != now.get(key)
    )
    return next(
        (
            f"{key} is {quoted(now.get(key))}, and {quoted(before.get(key))} in the run"
            for key in keys
        ),
        None,
    )


def check_same_files(run: Run, config: Config, *tasks: Task) -> None:
    """Raise `Seq2AttnError` unless the two tasks, as `run` keeps it and as read, are of files with
    the same contents.
    """
    files_of = ((task.learned() or {}).get("files", {}) for task in tasks)
    before, now = ([record.get("sha256") for record in files.values()] for files in files_of)
    if before != now:
        files = " or ".join(config.data_files.values())
        hint = "A run is continued on the same data. Restore that file, or start a new run with this one."
        raise Seq2AttnError(f"{files} has changed since run {run.name!r} was started", hint=hint)
