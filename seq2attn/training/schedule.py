"""How long a training is, in optimiser steps, and the learning rate of each: functions of the step alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seq2attn.config import TrainingConfig
from seq2attn.config.rules import MOST_RECORDS
from seq2attn.data.batches import EpochData, TrainingData
from seq2attn.errors import Seq2AttnError

MOST_STEPS = 100_000_000


def learning_rate(training: TrainingConfig, step: int, steps: int) -> float:
    """The rate of step `step` (from 0) of `steps`: linear warm-up, then the schedule.

    Cosine annealing without restarts: Loshchilov & Hutter 2017, eq. 5.
    """
    if step < training.warmup:
        return training.learning_rate * (step + 1) / training.warmup
    progress = (step - training.warmup) / max(1, steps - training.warmup)
    if training.schedule.name == "cosine":
        return training.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
    if training.schedule.name == "linear":
        return training.learning_rate * (1 - progress)
    return training.learning_rate


@dataclass(frozen=True)
class Span:
    """The length of a training, in steps, and how it is counted for a user."""

    steps: int
    evaluate_every: int
    """steps between two evaluations"""
    per_epoch: int | None = None
    """steps of an epoch; None if the training is counted in steps"""

    def place(self, step: int) -> str:
        """After which step, or epoch: `step 500`, `epoch 3`, `epoch 3.25`."""
        return f"{'step' if self.per_epoch is None else 'epoch'} {self._count(step)}"

    def place_of_all(self, step: int) -> str:
        """`step 500 of 1,500`, `epoch 3.25 of 60`."""
        return f"{self.place(step)} of {self._count(self.steps)}"

    def done(self, step: int) -> str:
        """How much is done: `500 of 1,500 steps`, `3.25 of 60 epochs`."""
        unit = "steps" if self.per_epoch is None else "epochs"
        return f"{self._count(step)} of {self._count(self.steps)} {unit}"

    def _count(self, step: int) -> str:
        return f"{step:,}" if self.per_epoch is None else f"{step / self.per_epoch:,.2f}".rstrip("0").rstrip(".")


def training_span(training: TrainingConfig, data: TrainingData) -> Span:
    """The length of this training on these data. Raises `Seq2AttnError` where it cannot be counted in epochs."""
    if training.epochs is None:
        assert training.steps is not None, "rules.py refuses both to be null"
        return Span(training.steps, training.evaluate_every)
    if not isinstance(data, EpochData):
        raise Seq2AttnError("training.epochs: the task draws its examples without end; set training.steps instead")
    span = Span(training.epochs * data.per_epoch, training.evaluate_every * data.per_epoch, data.per_epoch)
    counted = f"{training.epochs:,} epochs of {data.per_epoch:,} batches are {span.steps:,} steps"
    if span.steps > MOST_STEPS:
        raise Seq2AttnError(f"training.epochs: {counted}; at most {MOST_STEPS:,} are allowed")
    if training.warmup > span.steps:
        problem = f"training.warmup: {training.warmup:,} is above the {span.steps:,} steps of training: {counted}"
        raise Seq2AttnError(problem)
    if span.steps > training.log_every * MOST_RECORDS:
        least = -(-span.steps // MOST_RECORDS)
        raise Seq2AttnError(f"training.log_every: {counted}, which makes too many records; set it to {least:,} or more")
    return span
