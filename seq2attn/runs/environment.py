"""Where a run was made: versions, machine, device, threads, code."""

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
    """What environment.json records."""
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
        "versions": {
            "python": platform.python_version(),
            **{
                name: _version(name)
                for name in ("seq2attn", "torch", "numpy", "safetensors", "pydantic", "tensorboard")
            },
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """The commit of the working directory, and whether anything is uncommitted; None outside a repository."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=5, check=True, env=environment
        )
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
