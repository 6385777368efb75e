"""Training from a config to a run, as called by `seq2attn train`, a comparison's workers and
`seq2attn.train`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from seq2attn.build import build_model, build_task, build_training_data, load_task
from seq2attn.config import Config
from seq2attn.contract.parts import check_parts
from seq2attn.display.progress import Display
from seq2attn.errors import Seq2AttnError, need_count
from seq2attn.plugins import plugin_error
from seq2attn.runs.create import NewRun, check_same_files, create_run, describe_environment
from seq2attn.runs.machine import choose_device, keep_freed_memory
from seq2attn.runs.run import Run, resume_command, training_lock
from seq2attn.training.loop import Diverged, Trainer
from seq2attn.training.recorder import watched_strings
from seq2attn.training.schedule import training_span
from seq2attn.training.signals import StopRequest, stop_on_signals
from seq2attn.training.step import LeafDiffers, describe, may_compile, why_slow


@dataclass(frozen=True)
class Training:
    """How a training ended."""

    run: Run
    step: int
    """optimiser steps done"""
    stopped_by: int | None
    """the number of the signal that stopped it; None if it is finished"""


def train(
    config: Config,
    where: Run | NewRun,
    *,
    device: str = "auto",
    threads: int | None = None,
    display: Display | None = None,
    request: StopRequest | None = None,
) -> Training:
    """Train the model of `config` in a new run, or continue the run `where` from its last
    checkpoint.

    The data files that `config` names are opened: it must be one that the user named
    (`config_to_resume`). If they cannot be read, the model cannot be built, or a plug-in fails when
    it is tried, no run is created. `threads` of the CPU: by default as many as the run was started
    with, 1 for a new one; this process keeps the setting. A run that was started on a CPU stays
    there, unless `device` says otherwise. With `request`, the caller handles signals and sets it to
    stop.
    """
    display = display or Display()
    keep_freed_memory()
    if threads is None:
        threads = where.environment().threads if isinstance(where, Run) else 1
    need_count("threads", threads)
    torch.set_num_threads(threads)
    if device == "auto" and isinstance(where, Run) and where.environment().device == "cpu":
        device = "cpu"
    chosen_device = choose_device(device)
    task = load_task(config)
    check_parts(config, task, chosen_device)  # raises before a run is created, as the others do
    task.check_evaluation(config.evaluation.families, config.evaluation.lengths or ())
    if isinstance(where, Run):
        check_same_files(where, config, build_task(config, where.learned_task(config)), task)
    model = build_model(config, task).to(chosen_device)
    data = build_training_data(config, chosen_device, task)
    training_span(config.training, data)  # raises before a run is created, as the next two do
    watched_strings(config, task)
    if isinstance(where, Run):
        run = where
    else:
        kernels = describe(chosen_device)
        environment = describe_environment(where, config, chosen_device, threads, kernels)
        run = create_run(where, config, environment, task.learned())
    stopping = stop_on_signals() if request is None else contextlib.nullcontext(request)
    with training_lock(run), stopping as stop:
        trainer = Trainer(run, config, model, chosen_device, display, data)
        for line in _notes(trainer):
            display.say(line)
        display.begin("", trainer.span.steps, trainer.span.place(trainer.progress.step))
        try:
            try:
                stopped_by = trainer.train(stop)
            except LeafDiffers as difference:
                display.say(
                    f"{difference}; training continues from the last checkpoint, with the formulas"
                )
                trainer = replace(
                    trainer, model=build_model(config, task).to(chosen_device), formulas=True
                )
                stopped_by = trainer.train(stop)
        except Exception as error:
            if isinstance(error, Diverged) or plugin_error(error):
                trainer.write_status("failed")
            elif isinstance(error, Seq2AttnError) and not run.config_file.exists():
                error.hint = "The run's directory was removed during the training, with its checkpoints. Train it again."
            elif isinstance(error, Seq2AttnError) and run.checkpoint("last").is_file():
                error.hint = f"The last checkpoint is intact. Continue with: {resume_command(run)}"
            raise
        display.end(
            "",
            f"{trainer.span.place(trainer.progress.step)}: {trainer.ending}"
            if trainer.ending
            else "",
        )
    return Training(run, trainer.progress.step, stopped_by)


def _notes(trainer: Trainer) -> Iterator[str]:
    """What a user should know before training starts."""
    run, step = trainer.run, trainer.progress.step
    if trainer.finished:
        yield f"{run.path} is finished: {trainer.span.place_of_all(step)}"
        return
    yield from trainer.data.task.notes
    started, device, compiled = run.environment(), trainer.device, may_compile(trainer.config)
    if compiled and (slow := why_slow(device)):
        yield slow
    before, now = (
        (started.device, started.kernels or "not compiled"),
        (device.type, describe(device)),
    )
    if step and before != now and (compiled or started.device != device.type):
        yield f"{run.path} was started on {', '.join(map(str, before))} and continues on {', '.join(now)}"
        yield "its weights will not be bit-identical to those of an uninterrupted run"
    yield f"{'resuming' if step else 'training'} {run.path} on {trainer.device} from {trainer.span.place(step)}"
