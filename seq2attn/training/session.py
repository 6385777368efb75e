"""Training from a config to a run, as called by `seq2attn train`, a comparison's workers and
`seq2attn.train`; and a model for a loop of the user's own.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from seq2attn.build import build_model, build_training_data, load_task
from seq2attn.config import Config, load_config
from seq2attn.config.load import Overrides
from seq2attn.config.schema import RecurrentConfig
from seq2attn.contract.parts import check_parts
from seq2attn.data.batches import Batch, TrainingData
from seq2attn.display.console import say
from seq2attn.display.progress import Display
from seq2attn.errors import LESS_MEMORY, Seq2AttnError, need_count
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.kernels import describe, prefers_cpu, why_slow
from seq2attn.plugins import load_plugins, plugin_error
from seq2attn.runs.checkpoint import check_tensors, not_finite
from seq2attn.runs.create import NewRun, check_same_files, create_run, describe_environment
from seq2attn.runs.machine import choose_device, default_dtype, keep_freed_memory, total_memory
from seq2attn.runs.run import Run, default_root, resume_command, training_lock
from seq2attn.training.loop import Diverged, Trainer
from seq2attn.training.proof import KernelsDiffer, is_due, prove
from seq2attn.training.recorder import watched_strings
from seq2attn.training.schedule import training_span
from seq2attn.training.signals import StopRequest, stop_on_signals
from seq2attn.training.step import TrainingStep


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
    """Train the model of `config` in a new run, or continue the run `where`.

    No run is created if the config's data files cannot be read, the model cannot be built, or a
    plug-in fails when it is tried.

    threads: of the CPU; None: as many as the run was started with, 1 for a new one. This process
        keeps the setting.
    device: `auto` is a CUDA GPU if there is one, but the CPU for what probably trains faster there;
        a run that was started on a CPU stays there with `auto`.
    should_stop: called before each step, by a caller who handles signals; None: signals stop.
    """
    display = display or Display()
    before = where.environment if isinstance(where, Run) else None
    keep_freed_memory()
    if threads is None:
        threads = (before and before.threads) or 1
    need_count("threads", threads)
    torch.set_num_threads(threads)
    if device == "auto" and before and before.device == "cpu":
        device = "cpu"
    chosen_device = choose_device(device)
    torch.backends.cudnn.allow_tf32 = False  # or a GPU rounds what cuDNN computes to 10 bits
    # a run goes on in the dtype in which it began, whatever the caller's is now
    dtype = default_dtype(before.dtype) if before else contextlib.nullcontext()
    # whatever the context of the caller: a run is a function of its config (and it may move to the
    # CPU)
    autocast = torch.autocast(chosen_device.type, enabled=False)
    autocast_cpu = torch.autocast("cpu", enabled=False)
    may_move = device == "auto" and before is None  # a run that has begun stays where it was
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
    """Do what `train` does, in a context where only the config and the machine count: on `device`,
    or if it `may_move`, on the CPU where that is probably faster. Whatever can be refused is
    refused before a run is created.
    """
    if isinstance(where, Run):
        if where.environment.own_loop:
            raise Seq2AttnError(
                f"run {where.name!r} was saved from a loop of your own, so it cannot be resumed",
                hint="Go on with its weights in a loop: new_model(...).module.load_state_dict("
                f"seq2attn.load({where.name!r}).module.state_dict())",
            )
        check_same_files(where, config)

    # what training needs, which may be refused
    task = load_task(config)
    check_parts(config, task, device)
    task.check_evaluation(config.evaluation.families, config.evaluation.lengths or ())
    model = build_model(config, task)
    if may_move and device.type != "cpu" and prefers_cpu(model, config.training.batch_size):
        faster = "training on the CPU, which is probably faster for a model this small"
        display.say(f"{faster}; --device {device} takes the GPU")
        device = torch.device("cpu")
    model.to(device)
    data = build_training_data(config, device, task)
    # only to see whether these two raise
    training_span(config.training, data)
    watched_strings(config, task)
    _check_memory(config, data)

    if isinstance(where, Run):
        run = where
    else:
        environment = describe_environment(where, config, device, threads, describe(device))
        run = create_run(where, config, environment, task.learned())

    # a caller with `should_stop` handles signals: then this request is never set
    stopping = contextlib.nullcontext(StopRequest()) if should_stop else stop_on_signals()
    with training_lock(run), stopping as request:
        trainer = Trainer(run, config, model, device, display, data)
        for line in _notes(trainer):
            display.say(line)
        span, progress = trainer.span, trainer.progress
        display.begin("", span.steps, span.place(progress.step))
        try:
            _train(trainer, should_stop or request.is_set)
        except KeyboardInterrupt:  # the user's second Ctrl-C: nothing went wrong
            raise
        except BaseException as error:
            _explain(error, trainer)
            if isinstance(where, NewRun) and trainer.progress.step == 0:
                shutil.rmtree(run.path, ignore_errors=True)  # nothing was trained
            # such as SystemExit: a part does not end the process of its user
            if not isinstance(error, Exception) and (explained := plugin_error(error)):
                raise explained from error
            raise
        step = trainer.progress.step
        display.end("", f"{span.place(step)}: {trainer.ending}" if trainer.ending else "")
    return Training(run, step, None if trainer.finished else request.signal)


def _check_memory(config: Config, data: TrainingData) -> None:
    """Raise `Seq2AttnError` if the device cannot hold a batch's attention weights and states.

    Only these are counted, once each: a training takes several times as much, so what is refused
    could never run.
    """
    model = config.model
    rows, source, target = data.largest_batch
    numbers = (source + target) * model.hidden
    if not isinstance(model, RecurrentConfig) or model.attention.score.name != "none":
        numbers += source * target
    needed = rows * numbers * torch.get_default_dtype().itemsize
    memory = total_memory(data.device)
    if needed > memory:
        raise Seq2AttnError(
            f"out of memory: {rows:,} strings of {source:,} symbols, with targets of {target:,}, "
            f"need more than {needed / 1e9:.3g} GB; {data.device.type} has {memory / 1e9:.3g} GB",
            hint=LESS_MEMORY,
        )


def _train(trainer: Trainer, should_stop: Callable[[], bool]) -> None:
    """Train, if necessary once more from the last checkpoint without the compiled kernels."""
    try:
        trainer.train(should_stop)
        return
    except KernelsDiffer as difference:
        trainer.display.say(f"{difference} Continuing from the last checkpoint without them.")
    # the same trainer, so that its caller sees how far it came if it fails from here on; without
    # kernels, `prove` does nothing
    trainer.start_over(build_model(trainer.config, trainer.data.task).to(trainer.device))
    trainer.train(should_stop)


def _explain(error: BaseException, trainer: Trainer) -> None:
    """Record that a training failed, and add to its error what the user can do now."""
    run = trainer.run
    if isinstance(error, Diverged) or plugin_error(error):
        trainer.write_status("failed")
    elif isinstance(error, Seq2AttnError) and run.checkpoint("last").is_file():
        error.hint = f"The last checkpoint is intact. Continue with: {resume_command(run)}"


def _notes(trainer: Trainer) -> Iterator[str]:
    """Yield what a user should know before training starts: notes on the data, why it is slow,
    whether a resumed run still gives the weights that it would have given, and where it begins.
    """
    run, step, device = trainer.run, trainer.progress.step, trainer.device
    if trainer.finished:
        yield f"{run.path} is finished: {trainer.span.place_of_all(step)}"
        return
    yield from trainer.data.task.notes
    model = trainer.config.model
    # the compiled kernels compute no other cell than a GRU
    uses_kernels = isinstance(model, RecurrentConfig) and model.cell.name == "gru"
    slow = why_slow(device)
    if uses_kernels and slow:
        yield slow
    started = run.environment
    before = f"{started.device}, {started.kernels or 'not compiled'}"
    now = f"{device.type}, {describe(device)}"
    # a model that uses no kernels has the same weights with and without them
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

    def __post_init__(self) -> None:
        self._logged: dict[int, dict[int, dict[str, float]]] = {}
        """steps done -> part of the batch -> its losses"""

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
        """Return the sum of the config's losses, (), in a step of training.

        step: the number of the optimiser's step, from 0; None: each call is the next step.
        part: which part of the step's batch it is, from 0, where gradients are accumulated.

        Dropout and noise depend on seed, step and part alone: two passes of one step have the same,
        as SAM wants, and two parts have different ones. The module's mode is as you left it.

        The compiled kernels compute it where `train` would use them; change the module before the
        first call.
        """
        if self.watch is not None:
            self.watch()
        training = self._training
        number = self.step if step is None else step  # `self.step`: how many were done
        need_count("step", number, 0)
        need_count("part", part, 0)
        if torch.is_autocast_enabled(self.predictor.device.type):
            training.faster_form = None  # it computes in the weights' precision

        if is_due(number):  # do the kernels compute what the formulas say?
            try:
                prove(training, batch, number)
            except KernelsDiffer as difference:
                training.faster_form = None
                say(f"{difference} Continuing without them.")

        decoded = training.forward(batch, number, part)
        losses = training.losses(decoded, batch, number)
        self.step = number + 1
        if self.step % self.config.training.log_every == 0:
            # of several passes of one part, as SAM makes them, the first: the later ones have
            # weights that were moved for a moment
            self._logged.setdefault(self.step, {}).setdefault(part, losses.records())
        return losses.total

    def _losses(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the steps that were logged, with the mean losses of their parts."""
        for step, parts in sorted(self._logged.items()):
            means = {}
            for name in parts[min(parts)]:  # each part has the same losses
                means[name] = fmean(losses[name] for losses in parts.values())
            yield step, means

    def save(
        self, name: str, *, runs_dir: str | Path | None = None, note: str | None = None
    ) -> Run:
        """Write the weights, the losses so far and an evaluation to a new run, and return it.

        All but `train --resume` can use the run. Raises `Seq2AttnError` if there is a run of this
        name, or if the module no longer is one of the config, or has weights that are not finite.
        """
        root = Path(runs_dir or default_root())
        return self.save_as(NewRun(root, name, plugins=self.plugins, note=note), "saved")

    def save_as(self, new: NewRun, state: str) -> Run:
        """Do what `save` does, to the run `new`; `state` is what its status.json then says."""
        config, task, device = self.config, self.task, self.predictor.device
        if undefined := not_finite(dict(self.module.named_parameters())):
            raise Seq2AttnError(
                f"model.module: {undefined} holds values that are not finite, so nothing was saved",
                hint="The training has diverged: try a smaller learning rate, or clip gradients.",
            )
        watched_strings(config, task)  # only to see whether it raises, before a run is created

        dtype = next(self.module.parameters()).dtype
        with default_dtype(str(dtype).removeprefix("torch.")):
            # what loads the run builds this model: the user's module must have its tensors
            expected = build_model(config, task).state_dict()
            check_tensors(Path("model.module"), self.module.state_dict(), expected, finite=())
            environment = describe_environment(
                new, config, device, torch.get_num_threads(), describe(device)
            )
        environment["own_loop"] = True

        self.run = create_run(new, config, environment, task.learned())
        self.checkpoint = "last"
        data = build_training_data(config, device, task)
        with training_lock(self.run):  # nobody may take it for a run whose process was killed
            trainer = Trainer(self.run, config, self.module, device, Display(), data)
            trainer.save_trained(self.step, self._losses(), state)
        return self.run


def new_model(
    config: str | Path | Mapping[str, Any] | Config,
    overrides: Overrides = (),
    *,
    device: str = "auto",
    plugins: str | Path | Sequence[str | Path] = (),
) -> NewModel:
    """Return a model with its first weights, for a training loop of your own.

    Nothing is saved before its `save`. The arguments are those of `train`.
    """
    keep_freed_memory()
    loaded = load_plugins(plugins)
    config = load_config(config, overrides)
    task = load_task(config)
    predictor = Predictor(
        build_model(config, task), task, config.model.source_eos, choose_device(device)
    )
    # neither the run nor the checkpoint exists: after 0 steps, nothing is saved
    return NewModel(Run(Path("unsaved")), config, predictor, "none", 0, plugins=loaded)
