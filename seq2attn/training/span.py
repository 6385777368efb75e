"""How long a training is, in optimiser steps."""

from __future__ import annotations

from dataclasses import dataclass

from seq2attn.config import TrainingConfig
from seq2attn.config.rules import MOST_RECORDS
from seq2attn.data.batches import TrainingData
from seq2attn.data.epochs import EpochData
from seq2attn.errors import Seq2AttnError

MOST_STEPS = 100_000_000


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
        return f"step {step:,}" if self.per_epoch is None else f"epoch {self._epochs(step)}"

    def place_of_all(self, step: int) -> str:
        """`step 500 of 1,500`, `epoch 3.25 of 60`."""
        return f"{self.place(step)} of {f'{self.steps:,}' if self.per_epoch is None else self._epochs(self.steps)}"

    def done(self, step: int) -> str:
        """How much is done: `500 of 1,500 steps`, `3.25 of 60 epochs`."""
        if self.per_epoch is None:
            return f"{step:,} of {self.steps:,} steps"
        return f"{self._epochs(step)} of {self._epochs(self.steps)} epochs"

    def _epochs(self, step: int) -> str:
        assert self.per_epoch is not None
        return f"{step / self.per_epoch:,.2f}".rstrip("0").rstrip(".")


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
        raise Seq2AttnError(
            f"training.warmup: {training.warmup:,} is above the {span.steps:,} steps of training: {counted}"
        )
    if span.steps > training.log_every * MOST_RECORDS:
        least = -(-span.steps // MOST_RECORDS)
        raise Seq2AttnError(f"training.log_every: {counted}, which makes too many records; set it to {least:,} or more")
    return span
