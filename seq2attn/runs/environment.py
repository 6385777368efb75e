"""environment.json: when a run was made, and with which versions, machine, device, threads and code.

Imports no torch at the top.
"""

from __future__ import annotations

import datetime
import functools
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from seq2attn.runs.reading import check_count

if TYPE_CHECKING:
    import torch

LAST_YEAR = 2999  # of a creation time that is believed


@dataclass(frozen=True)
class TrialOf:
    """The comparison that a run is a trial of."""

    name: str
    group: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Environment:
    """The contents of environment.json; None or empty for what is unknown."""

    created: str | None = None
    """ISO 8601; UTC if it has no time zone"""
    command: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """KEY=VALUE for each key that `--set` changed"""
    seed: int | None = None
    device: str | None = None
    device_name: str | None = None
    threads: int | None = None
    kernels: str | None = None
    plugins: tuple[str, ...] = ()
    git: dict[str, str | bool] | None = None
    platform: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    experiment: TrialOf | None = None
    problem: str | None = None
    """why the file cannot be read, in which case all else is unknown"""

    def __post_init__(self) -> None:
        for name in ("seed", "threads"):
            check_count(name, getattr(self, name))
        _ = self.time

    @property
    def time(self) -> datetime.datetime | None:
        """When the run was created."""
        return None if self.created is None else utc_time(self.created)

    def shown(self) -> dict[str, Any]:
        """What is known, for a page; the seed is in the config, and time, changes and comparison are shown elsewhere."""
        left_out = ("created", "seed", "changes", "experiment")
        return {name: value for name, value in asdict(self).items() if name not in left_out and value not in (None, ())}


def utc_time(text: str) -> datetime.datetime:
    """A time in ISO 8601, which is UTC if it has no time zone. Raises ValueError for anything else."""
    try:
        found = datetime.datetime.fromisoformat(text)
        utc = found.astimezone(datetime.UTC) if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"created must be a time in ISO 8601, found {text[:60]!r}") from None
    if utc.year > LAST_YEAR:
        raise ValueError(f"created is after the year {LAST_YEAR}: {text[:60]!r}")
    return utc


def describe_environment(
    *,
    seed: int,
    device: torch.device,
    threads: int,
    plugins: Sequence[str],
    changes: Sequence[str] = (),
    kernels: str = "",
) -> dict[str, Any]:
    """The contents of environment.json, but for the time, which is that of the run's directory."""
    import torch

    packages = ("seq2attn", "torch", "numpy", "safetensors", "pydantic", "tensorboard")
    return {
        "command": list(map(_text, sys.argv)),
        "changes": list(map(_text, changes)),
        "seed": seed,
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor(),
        "threads": threads,
        "kernels": kernels,
        "plugins": list(map(_text, plugins)),
        "git": _git(),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
    }


def _text(word: str) -> str:
    """A word of the command line with the bytes that are not text as `\\xff`; JSON holds text only."""
    return os.fsencode(word).decode(errors="backslashreplace")


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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
