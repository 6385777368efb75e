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
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.config import Config, check_config, dump_config, flat_values, load_config
from seq2attn.config.load import Overrides, override_list
from seq2attn.config.shipped import find_config
from seq2attn.errors import ConfigError, Seq2AttnError, shown
from seq2attn.runs.files import write_atomically, write_json
from seq2attn.runs.run import Run, check_name, find_run, resume_options, version

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
    changes: Sequence[str] = ()
    """`KEY=VALUE` for what the user changed in the config's file"""
    experiment: Mapping[str, Any] | None = None
    """the comparison that the run is a trial of"""


class RunExists(Seq2AttnError):
    """There is a run of this name already."""


def run_name(config: Path, changes: Sequence[str] = ()) -> str:
    """`configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name; then the `changes`, as `KEY=VALUE`.

    `scaled.yaml` with `model.attention.score=additive` -> `scaled-score_additive`. What does not fit is left out, which
    ends the name with `etc`. All in characters that a run's name may have.
    """
    parts = find_config(config).with_suffix("").parts
    below = parts[-1:] if "configs" not in parts[:-1] else parts[-parts[-2::-1].index("configs") - 1 :]
    name = run_word("-".join(below))[:LONGEST_NAME] or "run"
    for change in changes:
        key, _, value = change.partition("=")
        longer = f"{name}-{run_word(key.removesuffix('.name').rpartition('.')[2])}_{run_word(value) or 'x'}"
        if len(longer) > LONGEST_NAME:
            return f"{name}-etc"
        name = longer
    return name


def run_word(text: str) -> str:
    """`text` in characters that a run's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


def create_run(
    root: Path,
    name: str,
    config: Config,
    environment: Mapping[str, Any],
    *,
    exact: bool = False,
    learned: Mapping[str, Any] | None = None,
) -> Run:
    """A new run directory: `name` itself if `exact`, otherwise `name-001`, `name-002`, ... whichever is free.

    learned: what the run's task learned from its files.

    Nothing is overwritten: `RunExists` if the exact name exists. The directory is made under a temporary name and
    renamed once it is complete, so that no run lacks its config.
    """
    check_name(name)
    made = root / f".new-{secrets.token_hex(8)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        made.mkdir()
        Run(made).checkpoints.mkdir()
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        write_json(Run(made).environment_file, {"created": created, **environment})
        if learned is not None:
            write_json(Run(made).task_file, learned)
        write_atomically(Run(made).config_file, dump_config(config).encode())
        return Run(_place(made, root, name, exact=exact))
    except FileExistsError:
        if not root.is_dir():
            raise Seq2AttnError(f"cannot create a run in {root}: it is not a directory") from None
        resume = f"seq2attn train --resume {name}{resume_options(Run(root / name))}"
        raise RunExists(
            f"run {name!r} already exists in {root}", hint=f"Choose another --name, or continue it: {resume}"
        ) from None
    except (OSError, Seq2AttnError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = getattr(cause, "strerror", None) or error
        raise Seq2AttnError(f"cannot create a run in {root}: {reason}", exit_code=1) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _place(made: Path, root: Path, name: str, *, exact: bool) -> Path:
    """Rename the directory `made` to `root/name`, or to that with the next free number behind it.

    Raises `FileExistsError` if something has the exact name.
    """
    pattern = re.compile(re.escape(name) + r"-(\d{3,})")
    numbers = [int(match[1]) for entry in os.listdir(root) if (match := pattern.fullmatch(entry))]
    for number in itertools.count(max(numbers, default=0) + 1):
        path = root / (name if exact else f"{name}-{number:03d}")
        if not os.path.lexists(path):
            try:
                return made.rename(path)  # if two processes get here, the second fails: a run is never empty
            except OSError:
                if not os.path.lexists(path):
                    raise
        if exact:
            break
    raise FileExistsError(root / name)


def describe_environment(
    new: NewRun, config: Config, device: torch.device, threads: int, kernels: str
) -> dict[str, Any]:
    """The contents of environment.json, but for the time, which is that of the run's directory."""
    import torch

    return {
        "command": list(map(_text, sys.argv)),
        "changes": list(map(_text, new.changes)),
        "seed": config.seed,
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor(),
        "threads": threads,
        "kernels": kernels,
        "plugins": list(map(_text, new.plugins)),
        **({} if new.experiment is None else {"experiment": dict(new.experiment)}),
        "git": _git(),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}},
    }


def _text(word: str) -> str:
    """A word of the command line with the bytes that are not text as `\\xff`; JSON holds text only."""
    return os.fsencode(word).decode(errors="backslashreplace")


def _git() -> dict[str, Any] | None:
    """The commit of the working directory, and whether anything is uncommitted; None outside a repository."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def ask(*words: str) -> str:
        return subprocess.check_output(
            ["git", *words], stderr=subprocess.DEVNULL, text=True, timeout=5, env=environment
        ).strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
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
) -> tuple[Config, Run | NewRun]:
    """The config to train, and the run that is continued with it or made for it in `root`."""
    if config is None and resume is None:
        raise Seq2AttnError("give either --config FILE or --resume RUN", hint="See: seq2attn train --help")
    if resume is not None and (name or (overrides and config is None)):  # for files, a config may be named, and changed
        run_config = f"{root / (resume if isinstance(resume, str) else resume.name)}/config.yaml"
        raise Seq2AttnError(
            "--resume continues a run unchanged; --set and --name are for new runs",
            hint=f"For a new run: seq2attn train --config {run_config} --set ...",
        )
    settings, changes, file = None, sorted(override_list(overrides)), Path("run")
    if isinstance(config, str | Path):
        file = Path(config)
        settings = _load(file, overrides)
    elif config is not None:
        settings = check_config(config.model_dump(mode="json") if isinstance(config, Config) else config, overrides)
    if resume is not None:
        run = resume if isinstance(resume, Run) else find_run(root, resume)
        return config_to_resume(run, settings), run
    assert settings is not None
    chosen = run_name(file, changes) if name is None else name
    return settings, NewRun(root, chosen, exact=name is not None, plugins=plugins, changes=changes)


def _load(file: Path, overrides: Overrides) -> Config:
    try:
        return load_config(file, overrides)
    except ConfigError as error:
        if not any(problem.path == "configs" for problem in error.problems):
            raise
        hint = f"Run it with: seq2attn compare {shlex.quote(str(file))}"
        raise Seq2AttnError(f"{file}: this is an experiment, not the config of a model", hint=hint) from None


def config_to_resume(run: Run, named: Config | None) -> Config:
    """The config with which `run` is continued: its own, or where its task reads files, the one that the user `named`.

    A run never makes a command read a file: somebody else's run could name any. Raises `Seq2AttnError` where a config is
    needed and not named, and where the named one differs in more than the files' places.
    """
    own = run.config()
    if not own.data_files:
        if named is not None:
            message = "both --config and --resume are given: one starts a new run, the other continues one"
            raise Seq2AttnError(message, hint="Leave one of them out. See: seq2attn train --help")
        return own
    if named is None:
        files = ", ".join(shown(path, 200) for path in own.data_files.values())
        raise Seq2AttnError(
            f"run {run.name!r} is trained on files, which a run's own config never opens: {files}",
            hint=f"Name a config, if you trust its paths: seq2attn train --resume {run.name}{resume_options(run)}",
        )
    before, now = flat_values(own), flat_values(named)
    places = {f"task.{name}" for name in (*own.data_files, *named.data_files)}
    changed = [key for key in {**before, **now} if key not in places and before.get(key) != now.get(key)]
    if changed:
        key = changed[0]
        values = f"{key} is {shown(now.get(key))}, and {shown(before.get(key))} in the run"
        hint = "A run is continued unchanged; only the places of its files may differ."
        raise Seq2AttnError(f"this is not the config of run {run.name!r}: {values}", hint=hint)
    return named


def check_same_files(run: Run, config: Config, task: Task) -> None:
    """Raise `Seq2AttnError` unless `task`, just read from files, is the one that `run` was started with."""
    kept, now = run.learned_task(config), task.learned()
    if kept is None or now is None or kept == now:
        return
    before = kept.get("files")
    for split, record in now["files"].items():
        then = before.get(split) if isinstance(before, dict) else None
        if not isinstance(then, dict) or then.get("sha256") != record["sha256"]:
            raise Seq2AttnError(
                f"{config.data_files[split]} has changed since run {run.name!r} was started",
                hint="A run is continued on the same data. Restore that file, or start a new run with this one.",
            )
    raise Seq2AttnError(f"{run.task_file}: does not belong to these files", hint="Start a new run.")
