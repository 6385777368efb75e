"""The training loop: batches in, checkpoints and records out; it can be stopped and resumed at any step."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from seq2attn.build import build_training_data
from seq2attn.config import Config
from seq2attn.config.plugin_errors import check_hint, plugin_error
from seq2attn.data.batches import Batch, TrainingData
from seq2attn.display.progress import Display
from seq2attn.errors import CheckpointError, Seq2AttnError
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
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
from seq2attn.runs.run import Run
from seq2attn.runs.status import Status, is_summary
from seq2attn.training.compiling import CannotCompile
from seq2attn.training.objective import token_accuracy
from seq2attn.training.recorder import Recorder
from seq2attn.training.schedule import learning_rate
from seq2attn.training.signals import StopRequest, stop_on_broken_pipe, stop_on_signals
from seq2attn.training.snapshots import Snapshots
from seq2attn.training.span import training_span
from seq2attn.training.step import StepResult, TrainingStep
from seq2attn.training.watching import Culprit, find_culprit

VALIDATION_SEED = "validation"  # other strings than `eval` draws


@dataclass
class Progress:
    """The state of training: with weights and optimiser, all that resuming needs."""

    step: int = 0
    """optimiser steps done"""
    best: list[float] = field(default_factory=list)
    """of the best evaluation so far: worst and mean exact match, teacher-forced accuracy; of pairs: minus word error rate,
    minus loss. Compared in this order"""
    summary: dict[str, float] = field(default_factory=dict)
    """of the last evaluation"""
    reached_target: bool = False
    stale: int = 0
    """evaluations since the last one that was better than all before it"""


class Trainer:
    """Trains `model`, just built from `config` and on `device`, from the start or from the run's last checkpoint.

    Same seed, same machine, same threads: bit-identical weights, interrupted or not. Construct and use it only while holding
    `lock.training_lock(run)`.
    """

    def __init__(
        self,
        run: Run,
        config: Config,
        model: Model,
        device: torch.device,
        display: Display,
        data: TrainingData | None = None,
    ) -> None:
        self.run = run
        self.config = config
        self.device = device
        self.display = display
        self.model = model
        self.data = data or build_training_data(config, device)
        self.span = training_span(config.training, self.data)
        self.predictor = Predictor(self.model, self.data.task, source_eos=config.model.source_eos, device=device)
        self.snapshots = Snapshots(run, config, self.predictor, self.span.steps)
        self.step = TrainingStep(self.model, config, device)
        self.progress = Progress()
        run.checkpoints.mkdir(exist_ok=True)  # a copy of a run may lack it
        for folder in (run.path, run.checkpoints):
            remove_leftovers(folder)
        self._positions = self._restore()

    # ---- the loop ----

    def train(self, request: StopRequest | None = None) -> int | None:
        """Train to the end, to the target, or to a signal. Returns the signal's number if one stopped it.

        With `request`, the caller handles signals and sets it to stop.
        """
        if self.finished:
            if self.run.status().state != "finished":  # a crash came between the last checkpoint and this file
                self._write_status("finished")
            return None
        with (
            stop_on_signals() if request is None else contextlib.nullcontext(request) as stop,
            self.recording(stop),
        ):
            while self.goes_on(stop):
                batch = self.next_batch()
                try:
                    result = self.step.gradients(batch, self.progress.step)
                except CannotCompile:
                    if stop.signal is None:
                        raise
                    break  # Ctrl-C reached the C compiler too
                rate = self.checked_rate(batch, result)
                self.step.update(rate)
                self.updated(batch, result, rate, stop)
        return None if self.finished else stop.signal

    # ---- the parts of the loop, which trainers of several seeds go through together (`stacking.py`) ----

    @contextlib.contextmanager
    def recording(self, request: StopRequest) -> Iterator[None]:
        """In this context batches are drawn and steps recorded; at its end everything is saved."""
        self.recorder = Recorder(self.run, self.config, self._positions)
        self._batches = self.data.batches(self.progress.step)
        self._tokens, self._since = torch.zeros((), dtype=torch.int64, device=self.device), time.perf_counter()
        try:
            if self._positions is None and 0 in self.snapshots.steps:
                self.snapshots.take(0, self.recorder)
            yield
            self._save("interrupted" if request.signal and not self.finished else "finished")
        except Exception as error:
            if isinstance(error, Diverged) or plugin_error(error):
                self._write_status("failed")
            raise
        finally:
            self.recorder.close()

    def goes_on(self, request: StopRequest) -> bool:
        """Whether there is another step to do."""
        return not self.finished and request.signal is None

    def next_batch(self) -> Batch:
        """The batch of the next step."""
        return next(self._batches)

    def checked_rate(self, batch: Batch, result: StepResult) -> float:
        """The learning rate of the step with this result. Raises `Diverged` if that is not finite, on a CPU at once."""
        if self.device.type == "cpu":  # on other devices this would synchronise at every step
            self._check_finite(batch, self.progress.step + 1, float(result.total), float(result.norm))
        return learning_rate(self.config.training, self.progress.step, self.span.steps)

    def updated(self, batch: Batch, result: StepResult, rate: float, request: StopRequest) -> None:
        """Count the step that changed the weights, and when it is time, record, evaluate and save."""
        training, steps = self.config.training, self.span.steps
        self.progress.step = step = self.progress.step + 1
        self._tokens = self._tokens + batch.target_lengths.sum() + len(batch.target_lengths)
        if step % training.log_every == 0 or step == steps:
            now = time.perf_counter()
            values = {
                **{name: float(loss) for name, loss in result.losses.items()},
                "accuracy": float(token_accuracy(result.logits, batch)),
                "gradient_norm": float(result.norm),
                "learning_rate": rate,
                "tokens_per_second": float(self._tokens) / (now - self._since),
            }
            self._tokens, self._since = torch.zeros_like(self._tokens), now
            self._check_finite(batch, step, values["loss"], values["gradient_norm"])
            self.recorder.step(step, values)
            with stop_on_broken_pipe(request):
                self.display.step(self.run.name, step, f"{self.span.place_of_all(step)}: {describe_step(values)}")
        before = time.perf_counter()
        results = self._evaluate() if step % self.span.evaluate_every == 0 or step == steps else None
        if step in self.snapshots.steps or (self.finished and self.snapshots.steps):
            self.snapshots.take(step, self.recorder)
        if results is not None:
            self._save("training")
            with stop_on_broken_pipe(request):
                self.display.evaluation(self.run.name, f"{self.span.place(step)}: {results.describe()}")
        self._since += time.perf_counter() - before  # tokens/s counts neither evaluations nor snapshots

    @property
    def finished(self) -> bool:
        """Whether all steps are done, the target is reached, or patience has run out."""
        return self.progress.step >= self.span.steps or self.progress.reached_target or self.stalled

    @property
    def stalled(self) -> bool:
        """Whether as many evaluations as `training.patience` allows have brought no improvement."""
        patience = self.config.training.patience
        return patience is not None and self.progress.stale >= patience

    def _check_finite(self, batch: Batch, step: int, loss: float, norm: float) -> None:
        """Raise `Diverged` unless loss and gradients of this step (from 1) are finite."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            dtype = torch.get_default_dtype()
            culprit = find_culprit(self.model, dtype, lambda: self.step.gradients(batch, step - 1, watched=True))
            first = f"; {culprit.tensor} is the first tensor that is not finite" if culprit else ""
            raise self._diverged(step, f"loss {loss}, gradient norm {norm}{first}", culprit)

    def _diverged(self, step: int, found: str, culprit: Culprit | None = None) -> Diverged:
        return Diverged(step, found, culprit, saved=self.run.checkpoint("last").exists())

    # ---- evaluation ----

    def _evaluate(self) -> Evaluation:
        training, progress = self.config.training, self.progress
        self.model.eval()
        results, rank, exact_match = self._measure()
        progress.reached_target = training.target is not None and exact_match >= training.target
        self.recorder.evaluation(progress.step, results)
        progress.stale = 0 if rank > progress.best else progress.stale + 1
        if rank >= progress.best:  # on a tie the later one, which has trained for longer
            progress.best = rank
            self._write_checkpoint("best")
        return results

    def _measure(self) -> tuple[Evaluation, list[float], float]:
        """The evaluation, its rank among evaluations (the highest is the best), and the exact match that a target is for."""
        training, progress = self.config.training, self.progress
        if self.data.task.dev_set:
            results = evaluate_pairs(self.predictor, self.data.task.dev_set, resamples=0)
            wer, loss = results.get("wer"), results.get("loss")
            if wer is None or loss is None:
                raise self._diverged(progress.step, "the loss on the dev set is not a number")
            progress.summary = results.summary()
            return results, [-wer.value, -loss.value], 1 - wer.value
        lengths, samples = self.config.evaluation_lengths, training.validation_samples
        results = evaluate(self.predictor, lengths, samples=samples, seed=VALIDATION_SEED)
        progress.summary = results.summary()
        worst = results.lowest().value
        means = [results.mean(metric) or 0.0 for metric in ("exact_match", "teacher_forced")]
        return results, [worst, *means], worst

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
            "stale": self.progress.stale,
        }
        if which == "last":  # what resuming needs
            state["positions"] = self.recorder.positions()
        save_checkpoint(self.run.checkpoint(which), tensors, state)

    def _write_status(self, state: str) -> None:
        status = Status(
            state=state,
            step=self.progress.step,
            steps=self.span.steps,
            task=self.config.task.name,
            score=self.config.score_name,
            seed=self.config.seed,
            **self.progress.summary,  # type: ignore[arg-type]
        )
        write_json(self.run.status_file, status.to_json())

    def _restore(self) -> dict[str, int] | None:
        """Load checkpoint `last`, if there is one. Returns the lengths of the records at that time."""
        path = self.run.checkpoint("last")
        if not path.exists():
            return None
        checkpoint = load_checkpoint(path)
        load_weights(path, checkpoint, self.model)
        self._restore_optimiser(path, checkpoint)
        state = checkpoint.state
        kinds = {"best": list, "summary": dict, "reached_target": bool, "positions": dict}
        wrong = [key for key, kind in kinds.items() if not isinstance(state.get(key), kind)]
        if not wrong:
            counts = [*state["positions"].values(), state.get("stale", 0)]  # release 0.1 counted no stale evaluations
            known = all(map(is_number, state["best"])) and all(map(is_count, counts)) and is_summary(state["summary"])
            wrong = [] if known else ["best, summary or positions"]
        if wrong:
            raise _cannot_resume(path, f"its state has no usable {wrong[0]}")
        progress = (state["step"], state["best"], state["summary"], state["reached_target"], state.get("stale", 0))
        self.progress = Progress(*progress)
        positions: dict[str, int] = state["positions"]
        return positions

    def _restore_optimiser(self, path: Path, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.part(OPTIMISER)
        if checkpoint.state["step"] > 0:  # there is no optimiser state before the first step
            kept = {}
            for name, expected in self.step.expected_state().items():
                if name not in tensors:
                    raise _cannot_resume(path, f"it lacks {OPTIMISER}{name}")
                kept[name] = tensors.pop(name)
                check_tensor(path, OPTIMISER + name, kept[name], expected)
            self.step.load_state(kept)
        if tensors:
            raise _cannot_resume(path, f"it has unexpected {OPTIMISER}{min(tensors)}")


def describe_step(values: Mapping[str, float]) -> str:
    """`loss 0.1234, accuracy 0.987, 25,000 tokens/s`, of target tokens."""
    rate = f"{values['tokens_per_second']:,.0f} tokens/s"
    return f"loss {values['loss']:.4f}, accuracy {values['accuracy']:.3f}, {rate}"


def _cannot_resume(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be resumed: {reason}")


class Diverged(Seq2AttnError):
    """The loss or the gradients are not finite, or the loss on the dev set is beyond all measure."""

    def __init__(self, step: int, found: str, culprit: Culprit | None, *, saved: bool) -> None:
        before = "The last checkpoint is from before the divergence. " if saved else ""
        advice = "Try a smaller training.learning_rate, or a warm-up."
        if culprit and culprit.part:
            advice = f"{check_hint([culprit.part])}\nIf it passes: {advice[0].lower()}{advice[1:]}"
        super().__init__(
            f"training diverged at step {step}: {found}",
            hint=f"{before}{advice}",
            exit_code=1,
        )
