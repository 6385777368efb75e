"""Training from a config to a run, as called by `seq2attn train`, a comparison's workers and
`seq2attn.train`; and a model for a loop of the user's own.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.build import build_model, build_task, build_training_data
from seq2attn.config import Config, Overrides, load_config
from seq2attn.config.schema import RecurrentConfig
from seq2attn.contract.parts import check_parts
from seq2attn.data.batches import Batch
from seq2attn.display.console import Display, say
from seq2attn.errors import Seq2AttnError, need_count
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.kernels import describe, prefers_cpu, why_slow
from seq2attn.plugins import load_plugins, plugin_error
from seq2attn.runs.checkpoint import check_tensors, not_finite
from seq2attn.runs.create import (
    NewRun,
    check_same_files,
    choose_device,
    create_run,
    default_dtype,
    describe_environment,
    keep_freed_memory,
)
from seq2attn.runs.run import Run, resume_command, runs_root, training_lock
from seq2attn.training.loop import Diverged, Trainer
from seq2attn.training.proof import KernelsDiffer, is_due, prove
from seq2attn.training.recorder import watched_strings
from seq2attn.training.signals import StopRequest, stop_on_signals
from seq2attn.training.step import TrainingStep, training_span


@dataclass(frozen=True)
class Training:
    """How a training ended."""

    run: Run
    step: int
    """optimiser steps done"""
    stopped_by: int | None
    """the number of the signal that stopped it, if one did"""


def train(
    config: Config,
    where: Run | NewRun,
    *,
    device: str = "auto",
    threads: int | None = None,
    display: Display | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Training:
    """Train the model of `config`: in a new run if `where` is a `NewRun`, otherwise going on with
    the run `where`. Return how it ended.

    No run is created if the config's data files cannot be read, the model cannot be built, or a
    plug-in fails when it is tried.

    threads: of the CPU; None: as many as the run was started with, 1 for a new one. This process
        keeps the setting.
    device: `cpu`, `cuda`, `mps`, or `auto`: a CUDA GPU if there is one, but the CPU for a new run
        that probably trains faster there, and for a run that was started on a CPU.
    display: what shows the progress; None: one that shows nothing.
    should_stop: called before each step; training stops once it returns True. None: training stops
        at a signal such as Ctrl-C instead.
    """
    display = display or Display()
    # how the run was started, if it is not new
    before = where.environment if isinstance(where, Run) else None
    keep_freed_memory()
    if threads is None:
        threads = (before and before.threads) or 1
    need_count("threads", threads)
    torch.set_num_threads(threads)
    if device == "auto" and before and before.device == "cpu":
        device = "cpu"
    chosen_device = choose_device(device)
    # with TF32, a GPU rounds the factors of cuDNN's products to 10 bits of the mantissa
    torch.backends.cudnn.allow_tf32 = False
    # a run goes on in the dtype in which it began, whatever the caller's is now
    dtype = default_dtype(before.dtype) if before else contextlib.nullcontext()
    # The caller may be in a context of another precision, or without gradients: these must not
    # change the run, which is a function of its config. (The CPU too: the run may move there.)
    autocast = torch.autocast(chosen_device.type, enabled=False)
    autocast_cpu = torch.autocast("cpu", enabled=False)
    may_move = device == "auto" and before is None  # only a new run may move to the CPU
    with dtype, autocast, autocast_cpu, torch.inference_mode(False), torch.enable_grad():
        return _train_on(chosen_device, may_move, config, where, threads, display, should_stop)


def _train_on(
    device: torch.device,
    may_move: bool,
    config: Config,
    where: Run | NewRun,
    threads: int,
    display: Display,
    should_stop: Callable[[], bool] | None,
) -> Training:
    """Train as `train` says, in the context that it has prepared: threads, dtype, gradients.

    may_move: True to train on the CPU instead of `device` if that is probably faster.
    where: the run to continue, or the new one to create.
    threads: of the CPU, for the run's record: they are set already.
    should_stop: called before each step; training stops once it returns True. None: training stops
        at a signal such as Ctrl-C instead.

    Everything that may be refused raises before a run is created. A new run whose training fails
    before its first step is removed.
    """
    if isinstance(where, Run):
        _check_resumable(where, config)

    # what training needs; any of this may raise
    task = build_task(config)
    check_parts(config, task, device)  # those of plug-ins
    task.check_evaluation(config.evaluation.families, config.evaluation.lengths or ())
    model = build_model(config, task)
    if may_move and device.type != "cpu" and prefers_cpu(model, config.training.batch_size):
        faster = "training on the CPU, which is probably faster for a model this small"
        display.say(f"{faster}; --device {device} takes the GPU")
        device = torch.device("cpu")
    model.to(device)
    data = build_training_data(config, device, task)
    # (the trainer calls these two again: here, only to see whether they raise)
    training_span(config.training, data)
    watched_strings(config, task)

    if isinstance(where, Run):
        run = where
    else:
        environment = describe_environment(where, device, threads, describe(device))
        run = create_run(where, config, environment, task.learned())

    # without `should_stop`, the first signal sets this request; with it, nothing ever does
    stopping = contextlib.nullcontext(StopRequest()) if should_stop else stop_on_signals()
    with training_lock(run), stopping as request:
        trainer = Trainer(run, config, model, device, display, data)
        for line in _notes(trainer):
            display.say(line)
        span, progress = trainer.span, trainer.progress
        # "": the name of a trial, which a training alone does not have
        display.begin("", span.steps, span.place(progress.step))
        try:
            trainer.train(should_stop or request.is_set)
        except KeyboardInterrupt:  # the user's second Ctrl-C: nothing went wrong
            raise
        except BaseException as error:
            _explain(error, trainer)  # adds to the error what the user can do now
            if isinstance(where, NewRun) and trainer.progress.step == 0:
                shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained
            # a plug-in that calls `exit()`, say, must not end its user's process: raise an error
            # with a message in place of SystemExit
            if not isinstance(error, Exception) and (explained := plugin_error(error)):
                raise explained from error
            raise
        step = trainer.progress.step
        # if training ended early, but not by a signal, the display says why
        display.end("", f"{span.place(step)}: {trainer.ending}" if trainer.ending else "")
    return Training(run, step, None if trainer.finished else request.signal)


def _check_resumable(run: Run, config: Config) -> None:
    """Raise `Seq2AttnError` for a run that was saved from a loop of the user's own, without an
    optimiser's state, and for one whose data files have changed.
    """
    if run.environment.own_loop:
        raise Seq2AttnError(
            f"run {run.name!r} was saved from a loop of your own, so it cannot be resumed",
            hint="Go on with its weights in a loop: new_model(...).module.load_state_dict("
            f"seq2attn.load({run.name!r}).module.state_dict())",
        )
    check_same_files(run, config)


def _explain(error: BaseException, trainer: Trainer) -> None:
    """Record that a training failed, and add to its error what the user can do now."""
    run = trainer.run
    if isinstance(error, Diverged) or plugin_error(error):
        trainer.write_status("failed")
    elif isinstance(error, Seq2AttnError) and run.checkpoint("last").is_file():
        error.hint = f"The last checkpoint is intact. Continue with: {resume_command(run)}"


def _notes(trainer: Trainer) -> Iterator[str]:
    """Yield what a user should know before training starts: notes on the data; why it is slow, if
    kernels are missing; that a resumed run will not have exactly the weights of one that was never
    interrupted, if device or kernels are others; and at which step it begins. Of a finished run,
    only that it is finished.
    """
    run, step, device = trainer.run, trainer.progress.step, trainer.device
    if trainer.finished:
        yield f"{run.path} is finished: {trainer.span.place_of_all(step)}"
        return
    yield from trainer.data.task.notes
    model = trainer.config.model
    # the compiled kernels know no other cell
    uses_kernels = isinstance(model, RecurrentConfig) and model.cell.name == "gru"
    slow = why_slow(device)
    if uses_kernels and slow:
        yield slow
    started = run.environment
    before = f"{started.device}, {started.kernels or 'not compiled'}"
    now = f"{device.type}, {describe(device)}"
    # where kernels are not used, only another device makes a difference
    if step and before != now and (uses_kernels or started.device != device.type):
        yield f"{run.path} was started on {before} and continues on {now}"
        yield "its weights will not be bit-identical to those of an uninterrupted run"
    verb = "resuming" if step else "training"
    yield f"{verb} {run.path} on {device} from {trainer.span.place(step)}"


# ---- for a loop of the user's own ----


@dataclass(repr=False, eq=False)
class NewModel(TrainedModel):
    """A model with its first weights, for a training loop of your own."""

    plugins: Sequence[str] = ()
    """the files that were loaded for it"""
    watch: Callable[[], None] | None = None
    """called before each loss; a comparison that is stopped raises there"""

    _logged: dict[int, dict[str, float]] = field(default_factory=dict)
    """steps done -> losses of the last one"""

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_training", None)  # it holds compiled kernels, and is made again
        state["watch"] = None  # it belongs to the process of a comparison
        return state

    @cached_property
    def _training(self) -> TrainingStep:
        """The step, made when the first loss is computed: for the module as its user has changed
        it.
        """
        return TrainingStep(self.module, self.config, self.predictor.device)

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yield the config's batches number `start`, `start` + 1, ... without end. A batch depends
        on its number and the seed alone.
        """
        return build_training_data(self.config, self.predictor.device, self.task).batches(start)

    def loss(self, batch: Batch, *, step: int | None = None, part: int = 0) -> Tensor:
        """Return the weighted sum of the config's losses, (), in a step of training.

        step: the number of the optimiser's step, from 0; None: each call is the next step.
        part: which part of the step's batch it is, from 0, where gradients are accumulated.

        Dropout and noise depend on seed, step and part alone: two passes of one step have the same,
        as SAM (sharpness-aware minimisation) wants, and two parts have different ones. The module's
        mode is as you left it.

        The compiled kernels compute the model where `train` would use them; change the module
        before the first call. `save` records the losses of every `log_every` steps, those of the
        first call for a step.
        """
        if self.watch is not None:
            self.watch()  # raises if a comparison that this belongs to is stopped
        training = self._training
        number = self.step if step is None else step  # `self.step`: how many steps were done
        need_count("step", number, 0)
        need_count("part", part, 0)
        if torch.is_autocast_enabled(self.predictor.device.type):
            training.faster_form = None  # kernels compute in the weights' precision, always

        if is_due(number):
            try:
                prove(training, batch, number)  # that the kernels are right
            except KernelsDiffer as difference:
                training.faster_form = None
                say(f"{difference} Continuing without them.")

        decoded = training.forward(batch, number, part)
        losses = training.losses(decoded, batch, number)
        self.step = number + 1
        # only the first of several passes or parts: SAM makes its second pass with moved weights
        if self.step % self.config.training.log_every == 0 and self.step not in self._logged:
            self._logged[self.step] = {name: loss.item() for name, loss in losses.items()}
        return losses["loss"]

    def save(
        self, name: str, *, runs_dir: str | Path | None = None, note: str | None = None
    ) -> Run:
        """Write the weights, the losses so far and an evaluation to a new run, and return it.

        runs_dir: the directory of the runs; None: the environment variable SEQ2ATTN_RUNS, or
            `runs`.
        note: a text about the run.

        All but `train --resume` can use the run. Raises `Seq2AttnError` if there is a run of this
        name, or if the module no longer has the tensors that the config says, or has weights that
        are not finite.
        """
        root = runs_root(runs_dir)
        return self.save_as(NewRun(root, name, plugins=self.plugins, note=note), "saved")

    def save_as(self, new: NewRun, state: str) -> Run:
        """Write the weights, the losses so far and an evaluation to a new run, and return it.

        state: what the run's status.json then says, such as `saved`.

        The model goes on as one of this run: `self.run` and `self.checkpoint` name what was saved.
        Raises `Seq2AttnError` for weights that are not finite or do not fit the config, and if the
        run exists.
        """
        config, task, device = self.config, self.task, self.predictor.device
        if undefined := not_finite(dict(self.module.named_parameters())):
            raise Seq2AttnError(
                f"model.module: {undefined} holds values that are not finite, so nothing was saved",
                hint="The training has diverged: try a smaller learning rate, or clip gradients.",
            )
        watched_strings(config, task)  # only to see whether it raises, before a run is created

        # the run records torch's default dtype, in which it will be loaded: that of the weights
        dtype = next(self.module.parameters()).dtype
        with default_dtype(str(dtype).removeprefix("torch.")):
            # whoever loads the run builds the config's model, into which the tensors must fit
            expected = build_model(config, task).state_dict()
            check_tensors(Path("model.module"), self.module.state_dict(), expected, finite=())
            environment = describe_environment(
                new, device, torch.get_num_threads(), describe(device)
            )
        environment["own_loop"] = True

        self.run = create_run(new, config, environment, task.learned())
        self.checkpoint = "last"
        data = build_training_data(config, device, task)
        with training_lock(self.run):  # or others would take it for a run that was killed
            trainer = Trainer(self.run, config, self.module, device, Display(), data)
            trainer.save_trained(self.step, self._logged, state)
        return self.run


def new_model(
    config: str | Path | Mapping[str, Any] | Config,
    overrides: Overrides = (),
    *,
    device: str = "auto",
    plugins: str | Path | Sequence[str | Path] = (),
) -> NewModel:
    """Return a model with its first weights, for a training loop of your own. Nothing is written to
    a run before its `save`.

    config: a file, its contents as a mapping, or a `Config`.
    overrides: changes of the config, `KEY=VALUE`, several of them, or a mapping.
    device: `cpu`, `cuda` or `mps`; `auto` is cuda if there is one, otherwise cpu.
    plugins: files with your own parts.
    """
    keep_freed_memory()
    loaded = load_plugins(plugins)
    config = load_config(config, overrides)
    task = build_task(config)
    predictor = Predictor(
        build_model(config, task), task, config.model.source_eos, choose_device(device)
    )
    # until `save`, stand-ins: a run that does not exist, and "none", no checkpoint, of step 0
    return NewModel(Run(Path("unsaved")), config, predictor, "none", 0, plugins=loaded)
