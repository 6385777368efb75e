"""The training loop: batches in, records and checkpoints out; it can be stopped and resumed at any step."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping

import torch
from pydantic import ValidationError
from torch import Tensor

from seq2attn.build import build_training_data
from seq2attn.config import Config
from seq2attn.config.plugins import plugin_error
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
    check_names,
    check_tensor,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from seq2attn.runs.files import remove_leftovers, write_json
from seq2attn.runs.records import Progress, Status, Summary, reason_of
from seq2attn.runs.run import Run
from seq2attn.training.leaf import is_due
from seq2attn.training.losses import Losses, token_accuracy, training_losses
from seq2attn.training.recorder import Recorder
from seq2attn.training.schedule import learning_rate, training_span
from seq2attn.training.signals import StopRequest, stop_on_broken_pipe
from seq2attn.training.snapshots import Snapshots
from seq2attn.training.step import TrainingStep

VALIDATION_SEED = "validation"  # other strings than `eval` draws


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
        *,
        formulas: bool = False,
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
        run.checkpoints.mkdir(exist_ok=True)  # a copy of a run may lack it
        for folder in (run.path, run.checkpoints):
            remove_leftovers(folder)
        restored = self._restore()
        self.progress = restored or Progress(
            step=0, best=[], summary=Summary(), reached_target=False, stale=0, formulas=formulas, positions={}
        )
        self._resumed = restored is not None
        self.progress.formulas |= formulas
        if self.progress.formulas:
            self.step.use_formulas()

    def train(self, stop: StopRequest | None = None) -> int | None:
        """Train to the end, to the target, or until the caller sets `stop`. Returns the signal that did."""
        stop = stop or StopRequest()
        if self.finished:
            if self.run.status().state != "finished":  # a crash came between the last checkpoint and this file
                self._write_status("finished")
            return None
        training, progress = self.config.training, self.progress
        with (
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
            self._recording(),
        ):
            batches = self.data.batches(progress.step)
            while not self.finished and stop.signal is None:
                batch = next(batches)
                if is_due(progress.step):
                    self.step.prove(batch, progress.step)
                decoded = self.step.forward(batch, progress.step)
                losses = training_losses(decoded, batch, training)
                norm = self.step.gradients(losses.total)
                if self.device.type == "cpu":  # elsewhere this would synchronise at every step
                    self._check_finite(progress.step + 1, losses.total, norm)
                rate = learning_rate(training, progress.step, self.span.steps)
                self.step.update(rate)
                progress.step += 1
                self._tokens += batch.decoder_lengths.sum()
                self._record(batch, decoded.logits.detach(), losses, norm, rate, stop)
                self._look(batch, stop)
            if progress.step and not self.finished:
                self.step.prove(next(batches), progress.step)
        return None if self.finished else stop.signal

    @property
    def finished(self) -> bool:
        """Whether all steps are done, the target is reached, or patience has run out."""
        return self.progress.step >= self.span.steps or self.progress.reached_target or self.stalled

    @property
    def stalled(self) -> bool:
        """Whether as many evaluations as `training.patience` allows have brought no improvement."""
        patience = self.config.training.patience
        return patience is not None and self.progress.stale >= patience

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        """In this context steps are recorded; at its end everything is saved."""
        self.recorder = Recorder(self.run, self.config, self.progress.positions if self._resumed else None)
        self._tokens, self._since = torch.zeros((), dtype=torch.int64, device=self.device), time.perf_counter()
        try:
            if not self._resumed and 0 in self.snapshots.steps:
                self.snapshots.take(0, self.recorder)
            yield
            self._save("finished" if self.finished else "interrupted")
        except Exception as error:
            if isinstance(error, Diverged) or plugin_error(error):
                self._write_status("failed")
            raise
        finally:
            self.recorder.close()

    def _record(
        self, batch: Batch, logits: Tensor, losses: Losses, norm: Tensor, rate: float, stop: StopRequest
    ) -> None:
        """Every `log_every` steps, and after the last one, record and show the numbers of the step just done."""
        step, steps = self.progress.step, self.span.steps
        if step % self.config.training.log_every and step != steps:
            return
        self._check_finite(step, losses.total, norm)
        now = time.perf_counter()
        values = {
            **{name: loss.item() for name, loss in losses.parts.items()},
            "accuracy": float(token_accuracy(logits, batch)),
            "gradient_norm": norm.item(),
            "learning_rate": rate,
            "tokens_per_second": float(self._tokens) / (now - self._since),
        }
        self._tokens, self._since = torch.zeros_like(self._tokens), now
        self.recorder.step(step, values)
        with stop_on_broken_pipe(stop):
            self.display.step(self.run.name, step, f"{self.span.place_of_all(step)}: {describe_step(values)}")

    def _look(self, batch: Batch, stop: StopRequest) -> None:
        """After the steps at which they are due: evaluate and save, and take a snapshot of the attention."""
        step = self.progress.step
        before = time.perf_counter()
        due = step % self.span.evaluate_every == 0 or step == self.span.steps
        if due or step in self.snapshots.steps:
            self.step.prove(batch, step)  # no checkpoint without a proof
        results = self._evaluate() if due else None
        if step in self.snapshots.steps or (self.finished and self.snapshots.steps):
            self.snapshots.take(step, self.recorder)
        if results is not None:
            self._save("training")
            with stop_on_broken_pipe(stop):
                self.display.evaluation(self.run.name, f"{self.span.place(step)}: {results.describe()}")
        self._since += time.perf_counter() - before  # tokens/s counts neither evaluations nor snapshots

    def _check_finite(self, step: int, total: Tensor, norm: Tensor) -> None:
        """Raise `Diverged` unless loss and gradients of this step (from 1) are finite."""
        if not (math.isfinite(total.item()) and math.isfinite(norm.item())):
            raise self._diverged(step, f"loss {total.item()}, gradient norm {norm.item()}")

    def _diverged(self, step: int, reason: str) -> Diverged:
        return Diverged(step, reason, saved=self.run.checkpoint("last").exists())

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
            progress.summary = Summary(**results.summary())
            return results, [-wer.value, -loss.value], 1 - wer.value
        lengths, samples = self.config.evaluation_lengths, training.validation_samples
        results = evaluate(self.predictor, lengths, samples=samples, seed=VALIDATION_SEED)
        progress.summary = Summary(**results.summary())
        worst = results.lowest().value
        means = [results.mean(metric) or 0.0 for metric in ("exact_match", "teacher_forced")]
        return results, [worst, *means], worst

    # ---- saving and resuming ----

    def _save(self, state: str) -> None:
        self._write_checkpoint("last")
        self._write_status(state)

    def _write_checkpoint(self, which: str) -> None:
        tensors = {MODEL + name: tensor for name, tensor in self.model.state_dict().items()}
        state = self.progress.model_dump(exclude_none=True, exclude={"positions"})
        if which == "last":  # what resuming needs
            tensors |= {OPTIMISER + name: tensor for name, tensor in self.step.state.items()}
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
            **self.progress.summary.model_dump(),
        )
        write_json(self.run.status_file, status.model_dump(exclude_none=True))

    def _restore(self) -> Progress | None:
        """Load checkpoint `last`, if there is one."""
        path = self.run.checkpoint("last")
        if not path.exists():
            return None
        checkpoint = load_checkpoint(path)
        load_weights(path, checkpoint, self.model)
        optimiser = checkpoint.part(OPTIMISER)
        check_names(path, optimiser, self.step.state, OPTIMISER)
        for name, tensor in optimiser.items():
            check_tensor(path, OPTIMISER + name, tensor, self.step.state[name])
            self.step.state[name].copy_(tensor)
        try:
            return Progress.model_validate(checkpoint.state)
        except ValidationError as error:
            raise CheckpointError(f"{path}: cannot be resumed: its state has {reason_of(error)}") from None


def describe_step(values: Mapping[str, float]) -> str:
    """`loss 0.1234, accuracy 0.987, 25,000 tokens/s`, of target tokens."""
    rate = f"{values['tokens_per_second']:,.0f} tokens/s"
    return f"loss {values['loss']:.4f}, accuracy {values['accuracy']:.3f}, {rate}"


class Diverged(Seq2AttnError):
    """The loss or the gradients are not finite, or the loss on the dev set is beyond all measure."""

    def __init__(self, step: int, reason: str, *, saved: bool) -> None:
        before = "The last checkpoint is from before the divergence. " if saved else ""
        advice = "Try a smaller training.learning_rate, or a warm-up."
        super().__init__(f"training diverged at step {step}: {reason}", hint=f"{before}{advice}", exit_code=1)
