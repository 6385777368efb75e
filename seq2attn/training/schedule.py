"""How long a training is, in optimiser steps, the learning rate of each, and after which ones
attention is recorded.
"""

import math
from dataclasses import dataclass

from seq2attn.config import TrainingConfig
from seq2attn.data.batches import EpochData, TrainingData
from seq2attn.errors import Seq2AttnError


def learning_rate(training: TrainingConfig, step: int, steps: int) -> float:
    """Return the rate of step `step` (from 0, below `steps`): linear warm-up, whose last step has
    the full rate, then the schedule.

    Cosine annealing without restarts: Loshchilov & Hutter 2017, eq. 5.
    """
    if step < training.warmup:
        return training.learning_rate * (step + 1) / training.warmup
    progress = (step - training.warmup) / (steps - training.warmup)  # from 0 to below 1
    shares = {
        "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        "linear": 1 - progress,
        "constant": 1.0,
    }
    return training.learning_rate * shares[training.schedule.name]


@dataclass(frozen=True)
class Span:
    """The length of a training, in steps, and how it is counted for a user."""

    steps: int
    evaluate_every: int
    """steps between two evaluations"""
    per_epoch: int | None = None
    """steps of an epoch; None if the training is counted in steps"""

    def place(self, step: int) -> str:
        """Return how far training is after a step: `step 500`, `epoch 3`, `epoch 3.25`."""
        return f"{'step' if self.per_epoch is None else 'epoch'} {self._count(step)}"

    def place_of_all(self, step: int) -> str:
        """Return the same with the end: `step 500 of 1,500`, `epoch 3.25 of 60`."""
        return f"{self.place(step)} of {self._count(self.steps)}"

    def _count(self, step: int) -> str:
        # g: without the zeros after the point; 15 digits, or it would write a million as 1e+06
        return f"{round(step / (self.per_epoch or 1), 2):,.15g}"


def training_span(training: TrainingConfig, data: TrainingData) -> Span:
    """Return the length of this training on these data. Raises `Seq2AttnError` if it cannot be
    counted in epochs.
    """
    if training.epochs is None:
        assert training.steps is not None, "rules.py refuses both to be null"
        return Span(training.steps, training.evaluate_every)
    if not isinstance(data, EpochData):
        raise Seq2AttnError(
            "training.epochs: the task draws its examples without end; set training.steps instead"
        )
    per_epoch = data.per_epoch
    steps = training.epochs * per_epoch
    if training.warmup > steps:
        raise Seq2AttnError(
            f"training.warmup: {training.warmup:,} is above the {steps:,} steps of training: "
            f"{training.epochs:,} epochs of {per_epoch:,} batches"
        )
    return Span(steps, training.evaluate_every * per_epoch, per_epoch)


def snapshot_steps(steps: int, count: int) -> frozenset[int]:
    """Return the steps after which attention is recorded: 0, the powers of 2 up to the first of
    `count` evenly spaced steps, and those, the last of which is `steps`.

    >>> sorted(snapshot_steps(100, 5))
    [0, 1, 2, 4, 8, 16, 20, 40, 60, 80, 100]
    """
    if count == 0:
        return frozenset()
    spacing = math.ceil(steps / count)
    # as many powers as lie below `spacing`
    early = (2**power for power in range((spacing - 1).bit_length()))
    return frozenset({0, *early, *range(spacing, steps, spacing), steps})
