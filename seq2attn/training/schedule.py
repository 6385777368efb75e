"""How long a training is, in optimiser steps, the learning rate of each, and after which ones
attention is recorded.
"""

import math
from dataclasses import dataclass

from seq2attn.config import TrainingConfig
from seq2attn.data.stream import EpochData, TrainingData
from seq2attn.errors import Seq2AttnError


def learning_rate(training: TrainingConfig, step: int, steps: int) -> float:
    """Return the learning rate of step `step` (from 0) of the `steps` of a training.

    In the first `warmup` steps it rises linearly; the last of these has the full rate. Then it
    follows the schedule: it is constant, or falls towards 0, linearly or as half a cosine
    (annealing without restarts: Loshchilov & Hutter 2017, eq. 5).
    """
    if step < training.warmup:
        return training.learning_rate * (step + 1) / training.warmup
    progress = (step - training.warmup) / (steps - training.warmup)  # from 0 to below 1
    shares = {  # of the full rate
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
    """Return the length of this training on these data.

    Raises `Seq2AttnError` if the config counts epochs and the data have none, or epochs turn out
    to have fewer steps than the warm-up.
    """
    if training.epochs is None:
        assert training.steps is not None, "rules.py refuses both to be null"
        return Span(training.steps, training.evaluate_every)
    if not isinstance(data, EpochData):  # only a finite training set has epochs
        raise Seq2AttnError(
            "training.epochs: the task draws its examples without end; set training.steps instead"
        )
    per_epoch = data.per_epoch
    steps = training.epochs * per_epoch
    if training.warmup > steps:  # known only now; rules.py checks a config that counts steps
        raise Seq2AttnError(
            f"training.warmup: {training.warmup:,} is above the {steps:,} steps of training: "
            f"{training.epochs:,} epochs of {per_epoch:,} batches"
        )
    # `evaluate_every` then counts epochs, too
    return Span(steps, training.evaluate_every * per_epoch, per_epoch)


def snapshot_steps(steps: int, count: int) -> frozenset[int]:
    """Return the steps after which attention is recorded: about `count` evenly spaced ones, of
    which `steps` is the last; and for more of the start, before the first of these, 0 and the
    powers of 2. Without any if `count` is 0.

    >>> sorted(snapshot_steps(100, 5))
    [0, 1, 2, 4, 8, 16, 20, 40, 60, 80, 100]
    """
    if count == 0:
        return frozenset()
    spacing = math.ceil(steps / count)
    early = (2**power for power in range((spacing - 1).bit_length()))  # 1, 2, 4, ... < spacing
    return frozenset({0, *early, *range(spacing, steps, spacing), steps})
