"""The training loop: batches in, records and checkpoints out; it can be stopped and resumed at any
step.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.data.batches import Batch
from seq2attn.data.stream import TrainingData
from seq2attn.display.console import Display
from seq2attn.errors import Seq2AttnError
from seq2attn.files import remove_leftovers, write_json
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.model.interface import Model
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.checkpoint import (
    MODEL,
    OPTIMISER,
    check_tensors,
    load_checkpoint,
    not_finite,
    save_checkpoint,
)
from seq2attn.runs.records import Progress, Status
from seq2attn.runs.run import Run
from seq2attn.training.proof import KernelsDiffer, is_due, prove
from seq2attn.training.recorder import Recorder, watched_strings
from seq2attn.training.step import (
    TrainingStep,
    learning_rate,
    snapshot_steps,
    token_accuracy,
    training_span,
)

VALIDATION_SEED = "validation"  # other strings than `eval` draws


class Diverged(Seq2AttnError):
    """The loss or the gradients are not finite, or the dev set's loss is beyond all measure."""

    def __init__(self, step: int, reason: str) -> None:
        hint = "Try a smaller training.learning_rate, or a warm-up."
        super().__init__(f"training diverged at step {step}: {reason}", hint=hint, exit_code=1)


@dataclass
class Trainer:
    """Trains `model`, just built from `config`, from the start or from the run's last checkpoint.

    Same seed, same machine, same threads: bit-identical weights, interrupted or not. Construct and
    use it only while holding `training_lock(run)`.
    """

    run: Run
    config: Config
    model: Model
    device: torch.device
    display: Display
    data: TrainingData

    def __post_init__(self) -> None:
        """Prepare the training step, and restore weights, optimiser and progress from the run's
        checkpoint `last`, if there is one.
        """
        config, run, task = self.config, self.run, self.data.task

        self.span = training_span(config.training, self.data)  # how many steps
        self.predictor = Predictor(self.model, task, config.model.source_eos, self.device)
        self.step = TrainingStep(self.model, config, self.device)
        # the steps after which attention is recorded, and the strings on which it is
        self._snapshot_steps = snapshot_steps(self.span.steps, config.training.snapshots)
        self._watched = watched_strings(config, task)
        run.checkpoints.mkdir(exist_ok=True)  # a copy of a run may lack it
        # the temporary files of a process that was killed
        remove_leftovers(run.path, "*")
        remove_leftovers(run.checkpoints, "*")

        self.progress = self._restore()
        # before the run was interrupted, the kernels were found to be wrong: train without them
        if self.progress.formulas:
            self.step.faster_form = None

    def train(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Train until all steps are done, the target is reached or patience has run out, or until
        `should_stop`, called before each step, returns True; then save checkpoint `last`.

        If the kernels turn out to differ from the model's formulas, training says so, and goes back
        to the last checkpoint, or to the start if there is none yet; from there it trains by the
        formulas alone, in a resumed run too. Raises `Diverged` if the loss, gradients or weights
        are not finite, or the dev set's loss is beyond all measure.
        """
        try:
            self._train(should_stop)
        except KernelsDiffer as difference:
            self.display.say(f"{difference} Continuing from the last checkpoint without them.")
            self.model = build_model(self.config, self.data.task).to(self.device)
            self.__post_init__()  # restores `progress`, too
            self.progress.formulas = True  # which checkpoints keep
            self.step.faster_form = None
            self._train(should_stop)  # nothing is left to prove, and to differ

    def _train(self, should_stop: Callable[[], bool]) -> None:
        """Train as `train` says, but raise `KernelsDiffer` if the kernels differ from the formulas:
        the checkpoint is then that of the last evaluation, if there was one.
        """
        if self.finished:  # a crash may have come between the last checkpoint and status.json
            self.write_status("finished")
            return
        progress = self.progress
        # cuts off what was recorded after the checkpoint
        self._recorder = Recorder(self.run, progress.positions)
        # each step seeds torch's generators; at the end, they are again as the caller had them
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            if progress.positions is None and self._snapshot_steps:
                self._take_snapshot()  # of a new run, before its first step
            self._start_clock()
            batches = self.data.batches(progress.step)
            while not self.finished and not should_stop():
                batch = next(batches)
                if is_due(progress.step):
                    prove(self.step, batch, progress.step)  # that the kernels are right
                decoded = self.step.forward(batch, progress.step)
                losses = self.step.losses(decoded, batch, progress.step)
                norm = self.step.gradients(losses["loss"])
                rate = learning_rate(self.config.training, progress.step, self.span.steps)
                self.step.update(rate)
                progress.step += 1
                self._record(batch, decoded.logits.detach(), losses, norm, rate)
                self._evaluate_and_save(batch)

            self._need_finite()
            # A training that was stopped will go on from this checkpoint: prove that the kernels
            # are still right. At step 0 nothing was computed yet.
            if progress.step and not self.finished:
                prove(self.step, next(batches), progress.step)
            self._save("finished" if self.finished else "interrupted")

    @property
    def ending(self) -> str | None:
        """Why training is over, in words for a user, if it ends early: the target is reached, or
        patience has run out. "" if all steps are done; None if it goes on.
        """
        training, progress = self.config.training, self.progress
        target, last = training.target, progress.summary  # of the last evaluation
        # drawn strings are measured by the exact match of their worst length, pairs of a file by
        # their word error rate (`wer`); all are None before the first evaluation
        exact_match = last.exact_match_worst if last.wer is None else 1 - last.wer
        if target is not None and exact_match is not None and exact_match >= target:
            return "reached the target"
        fruitless = progress.evaluations_without_improvement
        if training.patience is not None and fruitless >= training.patience:
            return "training.patience evaluations in a row brought no improvement"
        return "" if progress.step >= self.span.steps else None

    @property
    def finished(self) -> bool:
        """True if all steps are done, the target is reached, or patience has run out."""
        return self.ending is not None

    def _start_clock(self) -> None:
        """Count tokens and time from now on; neither evaluations nor snapshots are part of them."""
        self._tokens = torch.zeros((), dtype=torch.int64, device=self.device)
        self._since = time.perf_counter()

    def _record(
        self, batch: Batch, logits: Tensor, losses: dict[str, Tensor], norm: Tensor, rate: float
    ) -> None:
        """Record and show the numbers of the step just done, if it is logged: every `log_every`
        steps, and the last one.

        logits: (B, L, V), for the accuracy. losses: by name, () each; `loss` is what is minimised.
        norm: of the gradients before they were clipped, (). rate: the learning rate.

        Raises `Diverged` if the loss or the gradients are not finite: on a CPU after any step, on a
        GPU after a logged one.
        """
        step = self.progress.step
        self._tokens += batch.decoder_lengths.sum()
        logged = step % self.config.training.log_every == 0 or step == self.span.steps
        # on a GPU only if it is logged: reading the two numbers waits until they are computed
        if logged or self.device.type == "cpu":
            loss, gradient_norm = losses["loss"].item(), norm.item()
            if not math.isfinite(loss + gradient_norm):  # one of the two is not
                raise Diverged(step, f"loss {loss}, gradient norm {gradient_norm}")
        if not logged:
            return

        accuracy = float(token_accuracy(logits, batch))
        # since the last logged step, or the last evaluation or snapshot
        speed = float(self._tokens) / (time.perf_counter() - self._since)
        self._start_clock()

        numbers = {
            **{name: loss.item() for name, loss in losses.items()},
            "accuracy": accuracy,
            "gradient_norm": gradient_norm,
            "learning_rate": rate,
            "tokens_per_second": speed,
        }

        self._recorder.step(step, numbers)
        text = f"loss {numbers['loss']:.4f}, accuracy {accuracy:.3f}, {speed:,.0f} tokens/s"
        # "": the name of a trial, which a training alone does not have
        self.display.step("", step, f"{self.span.place_of_all(step)}: {text}")

    def _evaluate_and_save(self, batch: Batch) -> None:
        """Evaluate and save checkpoint `last` every `evaluate_every` steps and after the last one;
        record the attention after each of `_snapshot_steps`, and where training ends early.

        batch: of the step just done, for the proof that the kernels are right.

        Raises `Diverged` if a weight is not finite, or the dev set's loss is beyond all measure;
        `KernelsDiffer` if the proof fails.
        """
        step = self.progress.step
        evaluates = step % self.span.evaluate_every == 0 or step == self.span.steps
        if not evaluates and step not in self._snapshot_steps:
            return
        self._need_finite()
        if evaluates:
            prove(self.step, batch, step)  # before a checkpoint is written to go on from
            results = self._evaluate()
        # this evaluation may have ended training, as by reaching the target; without any snapshot
        # steps, the config wants no attention recorded
        if step in self._snapshot_steps or (self.finished and self._snapshot_steps):
            self._take_snapshot()
        if evaluates:
            self._save("training")
            self.display.say(f"{self.span.place(step)}: {results.describe()}")
        self._start_clock()  # what was done here is no time of training

    def _need_finite(self) -> None:
        """Raise `Diverged` if a weight is not finite: no checkpoint of it could be loaded."""
        if name := not_finite(dict(self.model.named_parameters())):
            raise Diverged(self.progress.step, f"{name} holds values that are not finite")

    def _evaluate(self) -> Evaluation:
        """Measure the model, record and return the results, and write checkpoint `best` unless an
        earlier model was better.

        Models are ranked by a list of numbers, higher being better, of which the next counts where
        the ones before are equal: on a dev set by minus the rate that `training.select` names, then
        minus the loss; on drawn strings by exact match at the worst length, then on average,
        then the share of tokens that are right under teacher forcing.

        Raises `Diverged` if the loss on the dev set is not a number.
        """
        training, progress, task = self.config.training, self.progress, self.data.task
        if task.dev_set:
            results = evaluate_pairs(self.predictor, task.dev_set)
            rate = results.get(training.select)
            loss = results.get("loss")
            if rate is None or loss is None:  # evaluations leave out an impossible number
                raise Diverged(progress.step, "the loss on the dev set is not a number")
            rank = [-rate.value, -loss.value]
        else:
            results = evaluate(
                self.predictor,
                self.config.evaluation.lengths or task.trained_lengths,
                samples=training.validation_samples,
                seed=VALIDATION_SEED,
            )
            # (0.0 for the type checker: both are always measured)
            means = [results.mean(metric) or 0.0 for metric in ("exact_match", "teacher_forced")]
            rank = [results.lowest().value, *means]

        progress.summary = Status.model_validate(results.summary())
        self._recorder.evaluation(progress.step, results)
        progress.evaluations_without_improvement += 1
        # `best` is empty at first, which any rank exceeds
        if rank > progress.best:
            progress.evaluations_without_improvement = 0
        if rank >= progress.best:  # on a tie the later one, which has trained for longer
            progress.best = rank
            self._write_checkpoint("best", progress)
        return results

    def _take_snapshot(self) -> None:
        """Record the attention on the watched strings, if the model has attention. If the config
        says so, keep the model's weights as checkpoint `step-N`, too.
        """
        step = self.progress.step
        answers = self.predictor.predict(self._watched, keep_weights=True)  # of attention
        maps = [answer.map for answer in answers if answer.map is not None]
        if maps:
            self._recorder.attention(step, maps)
        if self.config.training.snapshot_weights:
            # no training goes on from this checkpoint, so that of the progress only the step counts
            self._write_checkpoint(f"step-{step}", Progress(step=step))

    # ---- saving and resuming ----

    def save_trained(self, step: int, losses: Mapping[int, dict[str, float]], state: str) -> None:
        """Save the model as a loop of the user's own has trained it, with the losses that it
        logged, an evaluation, and, unless `training.snapshots` is 0, a record of the attention.

        step: how many steps the loop did.
        losses: step -> its losses by name.
        state: what status.json then says of the run, such as `saved`.
        """
        self.progress.step = step
        self.span = replace(self.span, steps=step)  # the loop need not do as many as the config has
        self.step.state = {}  # no optimiser is saved: the loop has its own, not known here
        self._recorder = Recorder(self.run)
        for number, numbers in sorted(losses.items()):
            self._recorder.step(number, numbers)

        if self._snapshot_steps:
            self._take_snapshot()
        self._evaluate()
        self._save(state)

    def _save(self, state: str) -> None:
        """Write what a resumed run goes on from; state: what status.json says of the run."""
        self._write_checkpoint("last", self.progress)
        self.write_status(state)

    def _write_checkpoint(self, which: str, progress: Progress) -> None:
        """Write checkpoint `which`: `last`, `best` or `step-N`.

        Only `last` has what resuming needs besides: the optimiser's state, and the sizes of the
        files of records (`positions`). These sizes differ if a run was interrupted; the other
        checkpoints are the same, bit by bit, interrupted or not.
        """
        tensors = self.model.state_dict(prefix=MODEL)
        state = progress.model_dump(exclude={"positions"}, exclude_none=True)
        if which == "last":
            state["positions"] = self._recorder.positions()  # file name -> bytes
            for name, tensor in self.step.state.items():
                tensors[OPTIMISER + name] = tensor
        save_checkpoint(self.run.checkpoint(which), tensors, state)

    def write_status(self, state: str) -> None:
        """Write status.json: how far training is, and its last evaluation.

        state: `training`, `finished`, `interrupted`, `failed`, or what `save_trained` was given.
        """
        config, progress = self.config, self.progress
        status = {
            "state": state,
            "step": progress.step,
            "steps": self.span.steps,
            "task": config.task.name,
            "score": config.score_name,
            "seed": config.seed,
            **progress.summary.model_dump(exclude_none=True),
        }
        write_json(self.run.status_file, status)

    def _restore(self) -> Progress:
        """Load the weights and the optimiser's state from checkpoint `last`, and return the
        progress of the run. Without such a checkpoint, nothing is loaded: it begins at step 0.

        Raises `Seq2AttnError` if the checkpoint is damaged, or does not fit the config.
        """
        path = self.run.checkpoint("last")
        if not path.exists():
            return Progress(step=0)
        checkpoint = load_checkpoint(path, self.model)
        self.model.load_state_dict(checkpoint.part(MODEL))
        saved = checkpoint.part(OPTIMISER)
        # finite: the names of those that must be, here all
        check_tensors(path, saved, self.step.state, finite=saved)
        for name, tensor in saved.items():
            self.step.state[name].copy_(tensor)
        return Progress.model_validate(checkpoint.state)
