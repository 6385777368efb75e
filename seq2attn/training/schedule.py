"""The learning rate as a function of the step alone, so that resuming needs no scheduler state."""

from __future__ import annotations

import math

from seq2attn.config import TrainingConfig


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
