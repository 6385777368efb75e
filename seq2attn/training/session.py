"""A training from its config to its run: what `seq2attn train`, a comparison's worker and `seq2attn.train` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seq2attn.config import Config
from seq2attn.model.build import build_model
from seq2attn.runs.environment import describe_environment
from seq2attn.runs.footprint import check_training_memory, least_parameters
from seq2attn.runs.lock import training_lock
from seq2attn.runs.machine import MOST_THREADS, choose_device
from seq2attn.runs.making import create_run
from seq2attn.runs.run import Run
from seq2attn.training.allocator import keep_freed_memory
from seq2attn.training.loop import Display, SilentDisplay, Trainer
from seq2attn.training.signals import StopRequest


@dataclass(frozen=True)
class NewRun:
    """Where a run is to be made, and what its environment.json records apart from the machine."""

    root: Path
    name: str
    exact: bool = True
    """take this name or none; otherwise a number is added to it"""
    plugins: Sequence[str] = ()
    experiment: Mapping[str, Any] | None = None
    """the comparison that the run is a trial of"""


@dataclass(frozen=True)
class Training:
    """How a training ended."""

    run: Run
    step: int
    """optimiser steps done"""
    finished: bool
    reached_target: bool
    stopped_by: int | None
    """the number of the signal that stopped it"""


def train(
    config: Config,
    where: Run | NewRun,
    *,
    device: str = "auto",
    threads: int | None = None,
    display: Display | None = None,
    request: StopRequest | None = None,
    profile: bool = False,
) -> Training:
    """Train the model of `config` in a new run, or continue the run `where` from its last checkpoint.

    A config that does not fit into memory, or whose model cannot be built, leaves no new run behind. `threads` of the CPU:
    by default those that the run was begun with, and 1 for a new one; this process keeps them. `request` and `profile`
    as in `Trainer.train`.
    """
    keep_freed_memory()
    threads = threads or (_recorded_threads(where) if isinstance(where, Run) else None) or 1
    torch.set_num_threads(threads)
    chosen_device = choose_device(device)
    check_training_memory(config, least_parameters(config), chosen_device)
    model = build_model(config)
    check_training_memory(config, sum(parameter.numel() for parameter in model.parameters()), chosen_device)
    run = where if isinstance(where, Run) else _make_run(config, where, chosen_device, threads)
    with training_lock(run) as locked:
        trainer = Trainer(run, config, model.to(chosen_device), chosen_device, display or SilentDisplay())
        trainer.display.begin(trainer, locked=locked)
        if trainer.finished:
            trainer.mend_status()
            stopped_by = None
        else:
            stopped_by = trainer.train(request, profile=profile)
    progress = trainer.progress
    return Training(run, progress.step, trainer.finished, progress.reached_target, stopped_by)


def _make_run(config: Config, new: NewRun, device: torch.device, threads: int) -> Run:
    environment = describe_environment(seed=config.seed, device=device, threads=threads, plugins=list(new.plugins))
    if new.experiment is not None:
        environment["experiment"] = dict(new.experiment)
    return create_run(new.root, new.name, config, environment, exact=new.exact)


def _recorded_threads(run: Run) -> int | None:
    """The threads that `run` was begun with, if its environment.json names a usable number."""
    threads = run.environment().get("threads")
    return threads if isinstance(threads, int) and 1 <= threads <= MOST_THREADS else None
