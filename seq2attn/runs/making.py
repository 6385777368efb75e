"""Creating run directories: atomically, and never over an existing one. Imports no torch."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.config import Config, dump_config
from seq2attn.config.shipped import find_config
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically, write_json
from seq2attn.runs.run import Run, all_runs, check_name, resume_options, time_made

_TICK = datetime.timedelta(microseconds=1)  # between two runs if the clock was set back
LONGEST_NAME = 80  # characters of a default name, without its number


class RunExists(Seq2AttnError):
    """There is a run of this name already."""


def run_name(config: Path, changes: Sequence[str] = ()) -> str:
    """`configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name; then the `changes`, as `KEY=VALUE`.

    `scaled.yaml` with `model.attention.score=additive` -> `scaled-score_additive`. What does not fit is left out, which
    ends the name with `etc`. All in characters that a run's name may have.
    """
    *folders, stem = find_config(config).with_suffix("").parts
    below = folders if "configs" in folders else []
    while "configs" in below:
        below = below[below.index("configs") + 1 :]
    name = _word("-".join([*below, stem]))[:LONGEST_NAME] or "run"
    for change in changes:
        key, _, value = change.partition("=")
        longer = f"{name}-{_word(key.removesuffix('.name').rpartition('.')[2])}_{_word(value) or 'x'}"
        if len(longer) > LONGEST_NAME:
            return f"{name}-etc"
        name = longer
    return name


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


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

    Nothing is overwritten: `RunExists` if the exact name exists. The directory is made under a temporary name and
    renamed once it is complete, so that no run lacks its config.
    """
    check_name(name)
    made = root / f".new-{secrets.token_hex(8)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        made.mkdir()
        Run(made).checkpoints.mkdir()
        created = {"created": _now(root).isoformat(timespec="microseconds")}
        write_json(Run(made).environment_file, {**created, **environment})
        if learned is not None:
            write_json(Run(made).task_file, learned)
        write_atomically(Run(made).config_file, dump_config(config).encode())
        return Run(_take_name(made, root, name) if exact else _take_number(made, root, name))
    except FileExistsError:
        if not root.is_dir():
            raise Seq2AttnError(f"cannot create a run in {root}: it is not a directory") from None
        hint = (
            f"Choose another --name, or continue it: seq2attn train --resume {name}{resume_options(Run(root / name))}"
        )
        raise RunExists(f"run {name!r} already exists in {root}", hint=hint) from None
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


def _now(root: Path) -> datetime.datetime:
    """The time for a new run: later than that of the newest, even if the clock was set back since that was made."""
    now = datetime.datetime.now(datetime.UTC)
    return max([now, *(time_made(run) + _TICK for run in all_runs(root))])
