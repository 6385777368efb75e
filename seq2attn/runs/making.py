"""Creating run directories: atomically, and never over an existing one. Imports no torch."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2attn.config import Config, dump_config
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically, write_json
from seq2attn.runs.run import Run, all_runs, check_name, time_made

_TICK = 1_000_000  # nanoseconds between two runs if the clock was set back


def run_name(config: Path) -> str:
    """`configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name, in characters a run name may have."""
    parts = config.with_suffix("").parts
    below = parts[parts.index("configs") + 1 :] if "configs" in parts else parts[-1:]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(below)).strip("-._")[:80] or "run"


def create_run(
    root: Path,
    name: str,
    config: Config,
    environment: dict[str, Any],
    *,
    exact: bool = False,
    learned: Mapping[str, Any] | None = None,
) -> Run:
    """A new run directory: `name` itself if `exact`, otherwise `name-001`, `name-002`, ... whichever is free.

    learned: what the run's task learned from its files.

    Nothing is overwritten: `Seq2AttnError` if the exact name exists. The directory is made under a temporary name and
    renamed once it is complete, so that no run lacks its config.
    """
    check_name(name)
    made = root / f".new-{secrets.token_hex(8)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        made.mkdir()
        Run(made).checkpoints.mkdir()
        write_json(Run(made).environment_file, environment)
        if learned is not None:
            write_json(Run(made).task_file, learned)
        write_atomically(Run(made).config_file, dump_config(config).encode())
        _stamp(Run(made).config_file, root)
        return Run(_take_name(made, root, name) if exact else _take_number(made, root, name))
    except FileExistsError:
        if not root.is_dir():
            raise Seq2AttnError(f"cannot create a run in {root}: it is not a directory") from None
        hint = f"Choose another --name, or continue it: seq2attn train --resume {name}"
        raise Seq2AttnError(f"run {name!r} already exists in {root}", hint=hint) from None
    except (OSError, Seq2AttnError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = getattr(cause, "strerror", None) or error
        raise Seq2AttnError(f"cannot create a run in {root}: {reason}", exit_code=1) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _take_name(made: Path, root: Path, name: str) -> Path:
    """Give the directory `made` the name `root/name`; `FileExistsError` if something has it."""
    path = root / name
    if os.path.lexists(path):
        raise FileExistsError(path)
    try:
        made.rename(path)  # if two processes get here, the second fails: a run is never an empty directory
    except OSError as error:
        if os.path.lexists(path):
            raise FileExistsError(path) from error
        raise
    return path


def _take_number(made: Path, root: Path, name: str) -> Path:
    """The same with the next free number behind the name."""
    pattern = re.compile(re.escape(name) + r"-(\d{3,})")
    with os.scandir(root) as entries:
        numbers = [int(match[1]) for entry in entries if (match := pattern.fullmatch(entry.name))]
    for number in itertools.count(max(numbers, default=0) + 1):
        with contextlib.suppress(FileExistsError):  # another process may take the same number at the same moment
            path = _take_name(made, root, f"{name}-{number:03d}")
            break
    return path


def _stamp(config_file: Path, root: Path) -> None:
    """Make the new run the newest, even if the clock was set back since the last one was made."""
    latest = max((int(time_made(run) * 1e9) for run in all_runs(root)), default=0)
    if latest >= time.time_ns() - _TICK:
        os.utime(config_file, ns=(latest + _TICK, latest + _TICK))
