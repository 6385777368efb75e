"""environment.json: the versions, machine, device, threads and code of a run."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any

import torch

from seq2attn.kernels import describe_kernels


def describe_environment(*, seed: int, device: torch.device, threads: int, plugins: list[str]) -> dict[str, Any]:
    """The contents of environment.json."""
    packages = ("seq2attn", "torch", "numpy", "safetensors", "pydantic", "tensorboard")
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "seed": seed,
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor(),
        "threads": threads,
        "kernels": describe_kernels(device),
        "plugins": plugins,
        "git": _git(),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
    }


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
