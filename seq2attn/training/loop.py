"""The training loop: batches in, checkpoints and records out; it can be stopped and resumed at any step."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from seq2attn.config import Config
from seq2attn.data.batches import generator
from seq2attn.errors import CheckpointError, Seq2AttnError
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.results import LengthResult
from seq2attn.model.build import build_training_data
from seq2attn.model.interface import Model
from seq2attn.plotting.attention import LARGEST_SIDE
from seq2attn.runs.checkpoint import (
    MODEL,
    OPTIMISER,
    Checkpoint,
    check_tensor,
    is_count,
    is_number,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from seq2attn.runs.files import remove_leftovers, write_json
from seq2attn.runs.records import Summary, summarise
from seq2attn.runs.run import Run
from seq2attn.training.objective import token_accuracy
from seq2attn.training.profile import profiled_steps
from seq2attn.training.recorder import Recorder
from seq2attn.training.schedule import learning_rate
from seq2attn.training.signals import StopRequest, stop_on_broken_pipe, stop_on_signals
from seq2attn.training.step import TrainingStep

MAPS, IMAGES = 200, 20  # evaluations of a run that keep their attention, and those that draw it for TensorBoard
VALIDATION_SEED = "validation"  # strings other than those that `eval` draws


@dataclass(frozen=True)
class StepReport:
    """One logged step."""

    step: int
    steps: int
    loss: float
    accuracy: float
    tokens_per_second: float


class Display(Protocol):
    """What shows how training goes."""

    def begin(self, trainer: Trainer, *, locked: bool) -> None:
        """Before the first step, or instead of one where the run is finished. locked: the file system has locks."""

    def step(self, report: StepReport) -> None: ...

    def evaluation(self, step: int, results: list[LengthResult]) -> None: ...


class SilentDisplay:
    """Shows nothing."""

    def begin(self, trainer: Trainer, *, locked: bool) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def evaluation(self, step: int, results: list[LengthResult]) -> None: ...


@dataclass
class Progress:
    """How far training is: with weights and optimiser, all that resuming needs."""

    step: int = 0
    """optimiser steps done"""
    best: list[float] = field(default_factory=list)
    """rank of the best evaluation so far; see `Trainer._rank`"""
    summary: dict[str, float] = field(default_factory=dict)
    """the last evaluation, in short"""
    reached_target: bool = False


class Trainer:
    """Trains `model`, just built from `config` and on `device`, from the start or from the run's last checkpoint.

    Same seed, same machine, same threads: bit-identical weights, interrupted or not. Construct it and train with it within
    `lock.training_lock(run)`: two at once would write over each other.
    """

    def __init__(self, run: Run, config: Config, model: Model, device: torch.device, display: Display) -> None:
        self.run = run
        self.config = config
        self.device = device
        self.display = display
        self.model = model
        self.data = build_training_data(config, device)
        self.predictor = Predictor(self.model, self.data.task, source_eos=config.model.source_eos, device=device)
        self.step = TrainingStep(self.model, config, device)
        self.progress = Progress()
        run.checkpoint("last").parent.mkdir(exist_ok=True)  # a copy of a run may lack it
        for folder in (run.path, run.checkpoint("last").parent):
            remove_leftovers(folder)
        self._positions = self._restore()

    # ---- the loop ----

    def train(self, request: StopRequest | None = None, *, profile: bool = False) -> int | None:
        """Train to the end, to the target, or to a signal. Returns the signal's number if one stopped it.

        With `request`, the caller handles signals and asks to stop by it. `profile` leaves a trace of some steps
        (`profiled_steps`) in the run.
        """
        with stop_on_signals() if request is None else contextlib.nullcontext(request) as stop:
            self.recorder = Recorder(self.run, self.config, self._positions)
            try:
                with profiled_steps(self.run.profile_file if profile else None) as stepped:
                    self._loop(stop, stepped)
                self._save("interrupted" if stop.signal and not self.finished else "finished")
            except Diverged:
                self._write_status("failed")
                raise
            finally:
                self.recorder.close()
        return None if self.finished else stop.signal

    def _loop(self, request: StopRequest, stepped: Callable[[], None]) -> None:
        training = self.config.training
        tokens, since = torch.zeros((), dtype=torch.int64, device=self.device), time.perf_counter()
        batches = self.data.batches(self.progress.step)
        while not self.finished and request.signal is None:
            batch = next(batches)
            rate = learning_rate(training, self.progress.step)
            result = self.step.gradients(batch, self.progress.step)
            if self.device.type == "cpu":  # elsewhere asking would make the device wait at each step
                self._check_finite(self.progress.step + 1, float(result.total), float(result.norm))
            self.step.update(rate)
            stepped()
            self.progress.step = step = self.progress.step + 1
            tokens = tokens + batch.target_lengths.sum() + len(batch.target_lengths)
            if step % training.log_every == 0 or step == training.steps:
                now = time.perf_counter()
                values = {
                    **{name: float(loss) for name, loss in result.losses.items()},
                    "accuracy": float(token_accuracy(result.decoded.logits, batch)),
                    "gradient_norm": float(result.norm),
                    "learning_rate": rate,
                    "tokens_per_second": float(tokens) / (now - since),
                }
                tokens, since = torch.zeros_like(tokens), now
                self._check_finite(step, values["loss"], values["gradient_norm"])
                self.recorder.step(step, values)
                report = StepReport(
                    step, training.steps, values["loss"], values["accuracy"], values["tokens_per_second"]
                )
                with stop_on_broken_pipe(request):
                    self.display.step(report)
            if step % training.evaluate_every == 0 or step == training.steps:
                before = time.perf_counter()
                results = self._evaluate()
                self._save("training")
                with stop_on_broken_pipe(request):
                    self.display.evaluation(step, results)
                since += time.perf_counter() - before  # tokens/s is of training alone

    @property
    def finished(self) -> bool:
        """Whether all steps are done or the target is reached."""
        return self.progress.step >= self.config.training.steps or self.progress.reached_target

    def _check_finite(self, step: int, loss: float, norm: float) -> None:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise Diverged(step, loss, norm, saved=self.run.checkpoint("last").exists())

    # ---- evaluation ----

    def _evaluate(self) -> list[LengthResult]:
        config = self.config
        self.model.eval()
        results = evaluate(
            self.predictor,
            config.evaluation_lengths,
            samples=config.training.validation_samples,
            seed=VALIDATION_SEED,
        )
        summary = summarise(results)
        self.progress.summary = summary.to_json()
        target = config.training.target
        self.progress.reached_target = target is not None and summary.worst.exact_match.value >= target
        self.recorder.evaluation(self.progress.step, results, self.progress.summary)
        self._record_attention()
        rank = self._rank(summary)
        if rank >= self.progress.best:  # of equals the later one: it has trained for longer
            self.progress.best = rank
            self._write_checkpoint("best")
        return results

    def _rank(self, summary: Summary) -> list[float]:
        """What makes one evaluation better than another, most important first."""
        return [summary.worst.exact_match.value, summary.exact_match, summary.teacher_forced]

    def _record_attention(self) -> None:
        """Record the attention on the same strings at each evaluation, or at fewer if there are very many."""
        step = self.progress.step
        if not self._is_one_of(step, MAPS):
            return
        maps = self.predictor.attention_maps(self._watched())
        if maps:
            self.recorder.attention(step, maps, draw=self._is_one_of(step, IMAGES))

    def _is_one_of(self, step: int, most: int) -> bool:
        """Whether the evaluation after `step` is among about `most` evenly spread ones: the first and the last are."""
        training = self.config.training
        stride = math.ceil(math.ceil(training.steps / training.evaluate_every) / most)
        return (step // training.evaluate_every - 1) % stride == 0 or self.finished

    def _watched(self) -> list[str]:
        """The strings whose attention is drawn: the same in every run of a task."""
        task = self.data.task
        vocabulary = task.source_vocabulary
        middle = (task.min_length + task.max_length + 1) // 2
        texts = ["hello"] if task.is_trained(5) and set("hello") <= set(vocabulary.symbols) else []
        for length in sorted({middle, task.max_length}):
            examples = task.examples(generator(torch.device("cpu"), "watched", length), 1, length)
            texts.append(vocabulary.decode(examples.source[0].tolist()))
        return [text for text in texts if output_bound(task, len(text)) < LARGEST_SIDE]

    # ---- saving and resuming ----

    def _save(self, state: str) -> None:
        self._write_checkpoint("last")
        self._write_status(state)

    def _write_checkpoint(self, which: str) -> None:
        tensors = {MODEL + name: tensor for name, tensor in self.model.state_dict().items()}
        if which == "last":
            tensors |= {OPTIMISER + name: tensor for name, tensor in self.step.state().items()}
        state = {
            "step": self.progress.step,
            "best": self.progress.best,
            "summary": self.progress.summary,
            "reached_target": self.progress.reached_target,
        }
        if which == "last":  # what resuming needs
            state["positions"] = self.recorder.positions()
        save_checkpoint(self.run.checkpoint(which), tensors, state)

    def mend_status(self) -> None:
        """Write status.json of a finished run if a fault prevented that after the last checkpoint."""
        if self.finished and self.run.status().get("state") != "finished":
            self._write_status("finished")

    def _write_status(self, state: str) -> None:
        write_json(
            self.run.status_file,
            {
                "state": state,
                "step": self.progress.step,
                "steps": self.config.training.steps,
                "task": self.config.task.name,
                "score": self.config.score_name,
                "seed": self.config.seed,
                **self.progress.summary,
            },
        )

    def _restore(self) -> dict[str, int] | None:
        """Continue from `last`, if there is one. Returns how long the records were then."""
        path = self.run.checkpoint("last")
        if not path.exists():
            return None
        checkpoint = load_checkpoint(path)
        load_weights(path, checkpoint, self.model)
        self._restore_optimiser(path, checkpoint)
        state = checkpoint.state
        keys = ("step", "best", "summary", "reached_target", "positions")
        kinds = {"best": list, "summary": dict, "reached_target": bool, "positions": dict}
        wrong = [key for key in keys if key not in state or not isinstance(state[key], kinds.get(key, int))]
        if not wrong:
            numbers = [*state["best"], *state["summary"].values()]
            if not all(map(is_number, numbers)) or not all(map(is_count, state["positions"].values())):
                wrong = ["best, summary or positions"]
        if wrong:
            raise _cannot_resume(path, f"its state has no usable {wrong[0]}")
        self.progress = Progress(state["step"], state["best"], state["summary"], state["reached_target"])
        positions: dict[str, int] = state["positions"]
        return positions

    def _restore_optimiser(self, path: Path, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.part(OPTIMISER)
        if checkpoint.state["step"] > 0:  # before the first step it has none
            kept = {}
            for name, expected in self.step.expected_state().items():
                if name not in tensors:
                    raise _cannot_resume(path, f"it lacks {OPTIMISER}{name}")
                kept[name] = tensors.pop(name)
                check_tensor(path, OPTIMISER + name, kept[name], expected)
            self.step.load_state(kept)
        if tensors:
            raise _cannot_resume(path, f"it has unexpected {OPTIMISER}{min(tensors)}")


def _cannot_resume(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be resumed: {reason}")


class Diverged(Seq2AttnError):
    """The loss or the gradients are not finite."""

    def __init__(self, step: int, loss: float, norm: float, *, saved: bool) -> None:
        before = "The last checkpoint is from before. " if saved else ""
        super().__init__(
            f"training diverged at step {step}: loss {loss}, gradient norm {norm}",
            hint=f"{before}Try a smaller training.learning_rate, or a warm-up.",
            exit_code=1,
        )
