"""The training loop: batches in, records and checkpoints out; it can be stopped and resumed at any
step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import ValidationError
from torch import Tensor

from seq2attn.config import Config
from seq2attn.data.batches import Batch, TrainingData
from seq2attn.display.progress import Display
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
from seq2attn.runs.checkpoint import (
    OPTIMISER,
    check_tensors,
    load_checkpoint,
    load_weights,
    model_tensors,
    save_checkpoint,
)
from seq2attn.runs.files import remove_leftovers, write_json
from seq2attn.runs.records import Progress, Status, reason_of
from seq2attn.runs.run import Run
from seq2attn.training.losses import Losses, token_accuracy, training_losses
from seq2attn.training.recorder import Recorder, watched_strings
from seq2attn.training.schedule import learning_rate, snapshot_steps, training_span
from seq2attn.training.signals import StopRequest
from seq2attn.training.step import TrainingStep, is_due

VALIDATION_SEED = "validation"  # other strings than `eval` draws


class Diverged(Seq2AttnError):
    """The loss or the gradients are not finite, or the loss on the dev set is beyond all measure."""

    def __init__(self, step: int, reason: str) -> None:
        hint = "Try a smaller training.learning_rate, or a warm-up."
        super().__init__(f"training diverged at step {step}: {reason}", hint=hint, exit_code=1)


@dataclass
class Trainer:
    """Trains `model`, just built from `config` and on `device`, from the start or from the run's
    last checkpoint.

    Same seed, same machine, same threads: bit-identical weights, interrupted or not. Construct and
    use it only while holding `training_lock(run)`.
    """

    run: Run
    config: Config
    model: Model
    device: torch.device
    display: Display
    data: TrainingData
    formulas: bool = False  # from the first step on

    def __post_init__(self) -> None:
        config, run, task = self.config, self.run, self.data.task
        self.span = training_span(config.training, self.data)
        self.predictor = Predictor(
            self.model, task, source_eos=config.model.source_eos, device=self.device
        )
        self.step = TrainingStep(self.model, config, self.device)
        self._snapshot_steps = snapshot_steps(self.span.steps, config.training.snapshots)
        self._watched = watched_strings(config, task)
        run.checkpoints.mkdir(exist_ok=True)  # a copy of a run may lack it
        remove_leftovers(run.path)
        self.progress = self._restore()
        self.progress.formulas |= self.formulas
        if self.progress.formulas:
            self.step.use_formulas()

    def train(self, stop: StopRequest | None = None) -> int | None:
        """Train to the end, to the target, or until the caller sets `stop`. Returns the signal that
        did.
        """
        stop = stop or StopRequest()
        if self.finished:
            self.write_status(
                "finished"
            )  # a crash may have come between the last checkpoint and this file
            return None
        training, progress = self.config.training, self.progress
        self._recorder = Recorder(self.run, progress.positions)
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            if progress.positions is None and self._snapshot_steps:
                self._take_snapshot()
            self._start_clock()
            batches = self.data.batches(progress.step)
            while not self.finished and stop.signal is None:
                batch = next(batches)
                if is_due(progress.step):
                    self.step.prove(batch, progress.step)
                decoded = self.step.forward(batch, progress.step)
                losses = training_losses(decoded, batch, training)
                norm = self.step.gradients(losses.total)
                rate = learning_rate(training, progress.step, self.span.steps)
                self.step.update(rate)
                progress.step += 1
                self._record(batch, decoded.logits.detach(), losses, norm, rate)
                self._look(batch)
            if progress.step and not self.finished:
                self.step.prove(next(batches), progress.step)
            self._save("finished" if self.finished else "interrupted")
        return None if self.finished else stop.signal

    @property
    def ending(self) -> str | None:
        """Why training is finished, for a user; empty if all steps are done, None if it is not
        finished.
        """
        training, progress = self.config.training, self.progress
        if training.target is not None and progress.best and progress.best[0] >= training.target:
            return "reached the target"
        if training.patience is not None and progress.stale >= training.patience:
            return "training.patience evaluations in a row brought no improvement"
        return "" if progress.step >= self.span.steps else None

    @property
    def finished(self) -> bool:
        """Whether all steps are done, the target is reached, or patience has run out."""
        return self.ending is not None

    def _start_clock(self) -> None:
        """Count tokens and time from now on; neither evaluations nor snapshots are part of them."""
        self._tokens, self._since = (
            torch.zeros((), dtype=torch.int64, device=self.device),
            time.perf_counter(),
        )

    def _record(
        self, batch: Batch, logits: Tensor, losses: Losses, norm: Tensor, rate: float
    ) -> None:
        """Every `log_every` steps, and after the last one, record and show the numbers of the step
        just done.

        Raises `Diverged` unless loss and gradients are finite.
        """
        step, steps = self.progress.step, self.span.steps
        self._tokens += batch.decoder_lengths.sum()
        logged = step % self.config.training.log_every == 0 or step == steps
        looks = logged or self.device.type == "cpu"  # elsewhere it would synchronise at every step
        if looks and not (math.isfinite(losses.total.item()) and math.isfinite(norm.item())):
            raise Diverged(step, f"loss {losses.total.item()}, gradient norm {norm.item()}")
        if not logged:
            return
        speed = float(self._tokens) / (time.perf_counter() - self._since)
        self._start_clock()
        values = {name: part.item() for name, part in losses.parts.items()}
        values |= {"accuracy": float(token_accuracy(logits, batch)), "gradient_norm": norm.item()}
        values |= {"learning_rate": rate, "tokens_per_second": speed}
        self._recorder.step(step, values)
        said = (
            f"loss {values['loss']:.4f}, accuracy {values['accuracy']:.3f}, {speed:,.0f} tokens/s"
        )
        self.display.step("", step, f"{self.span.place_of_all(step)}: {said}")

    def _look(self, batch: Batch) -> None:
        """After the steps at which they are due: evaluate and save, and take a snapshot of the
        attention.
        """
        step = self.progress.step
        evaluates = step % self.span.evaluate_every == 0 or step == self.span.steps
        if not evaluates and step not in self._snapshot_steps:
            return
        self.step.prove(batch, step)  # no checkpoint without a proof
        results = self._evaluate() if evaluates else None
        if step in self._snapshot_steps or (self.finished and self._snapshot_steps):
            self._take_snapshot()
        if results is not None:
            self._save("training")
            self.display.evaluation("", f"{self.span.place(step)}: {results.describe()}")
        self._start_clock()

    def _evaluate(self) -> Evaluation:
        """Measure the model, and write checkpoint `best` if none was better."""
        training, progress, task = self.config.training, self.progress, self.data.task
        self.model.eval()
        if task.dev_set:
            results = evaluate_pairs(self.predictor, task.dev_set)
            wer, loss = results.get("wer"), results.get("loss")
            if wer is None or loss is None:
                raise Diverged(progress.step, "the loss on the dev set is not a number")
            rank = [1 - wer.value, -loss.value]
        else:
            lengths, samples = (
                self.config.evaluation.lengths or task.trained_lengths,
                training.validation_samples,
            )
            results = evaluate(self.predictor, lengths, samples=samples, seed=VALIDATION_SEED)
            means = [results.mean(metric) or 0.0 for metric in ("exact_match", "teacher_forced")]
            rank = [results.lowest().value, *means]
        progress.summary = Status.model_validate(results.summary())
        self._recorder.evaluation(progress.step, results)
        progress.stale = 0 if rank > progress.best else progress.stale + 1
        if rank >= progress.best:  # on a tie the later one, which has trained for longer
            progress.best = rank
            self._write_checkpoint("best", progress.model_copy(update={"positions": None}), {})
        return results

    def _take_snapshot(self) -> None:
        """Record the attention on the watched strings, and keep the weights if the config asks for
        them.
        """
        step = self.progress.step
        self.model.eval()
        predictions = self.predictor.predict(self._watched, keep_weights=True)
        maps = [prediction.map for prediction in predictions if prediction.map is not None]
        if maps:
            self._recorder.attention(step, maps)
        if self.config.training.snapshot_weights:
            self._write_checkpoint(f"step-{step}", Progress(step=step), {})

    # ---- saving and resuming ----

    def _save(self, state: str) -> None:
        progress = self.progress.model_copy(update={"positions": self._recorder.positions()})
        self._write_checkpoint("last", progress, self.step.state)
        self.write_status(state)

    def _write_checkpoint(
        self, which: str, progress: Progress, optimiser: Mapping[str, Tensor]
    ) -> None:
        """Only `last`, to resume from, has the optimiser and the sizes of the records, which change
        with interruptions.
        """
        tensors = model_tensors(self.model) | {
            OPTIMISER + name: tensor for name, tensor in optimiser.items()
        }
        save_checkpoint(self.run.checkpoint(which), tensors, progress.model_dump(exclude_none=True))

    def write_status(self, state: str) -> None:
        """Write status.json: training is in this state, after so many steps."""
        config, progress = self.config, self.progress
        known = {"state": state, "step": progress.step, "steps": self.span.steps}
        known |= {"task": config.task.name, "score": config.score_name, "seed": config.seed}
        write_json(self.run.status_file, known | progress.summary.model_dump(exclude_none=True))

    def _restore(self) -> Progress:
        """Load checkpoint `last`, if there is one."""
        path = self.run.checkpoint("last")
        if not path.exists():
            return Progress()
        checkpoint = load_checkpoint(path, self.model)
        load_weights(path, checkpoint, self.model)
        moments = checkpoint.part(OPTIMISER)
        check_tensors(path, moments, self.step.state, finite=moments)
        for name, tensor in moments.items():
            self.step.state[name].copy_(tensor)
        try:
            return Progress.model_validate(checkpoint.state)
        except ValidationError as error:
            raise Seq2AttnError(
                f"{path}: cannot be resumed: its state has {reason_of(error)}"
            ) from None
