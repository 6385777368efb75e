"""The losses that training minimises, and token accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.config import TrainingConfig
from seq2attn.data.batches import Batch
from seq2attn.data.vocabulary import PAD
from seq2attn.model.interface import Decoded
from seq2attn.model.resets import Resets


def token_cross_entropy(logits: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy summed over the real output tokens (`<eos>` counted) and divided by their number; nats.

    logits (B, L, V). Padding never counts. With label smoothing e, the target distribution is 1 - e on the right token, plus
    e / V on each of the V tokens (Szegedy et al. 2016, section 7).
    """
    targets = batch.decoder_output.flatten()
    return F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=PAD, label_smoothing=label_smoothing)


def coverage_loss(weights: Tensor, batch: Batch) -> Tensor:
    """sum_j min(alpha_tj, C_tj), C_t the sum of the weights before t, per real output token (See et al. 2017, eq. 12).

    weights (B, L, S). It is the weight spent on positions attended to before: 0 if no position is attended to twice.
    """
    covered = weights.cumsum(dim=1) - weights  # (B, L, S)
    repeated = torch.minimum(weights, covered).sum(dim=2)  # (B, L)
    real = batch.decoder_output != PAD
    return repeated.where(real, 0).sum() / real.sum()


class Objective(NamedTuple):
    """What a step differentiates, and what is recorded of it."""

    logits: Tensor
    """(B, L, V) the model's outputs, without their graph"""
    losses: dict[str, Tensor]
    """scalars by name: `loss`, and `coverage_loss` where there is one; nats per token; without their graph"""
    total: Tensor
    """scalar, the weighted sum of the losses, which is differentiated"""


def objective(
    model: Callable[..., Decoded], batch: Batch, resets: Resets | None, training: TrainingConfig
) -> Objective:
    """The objective of one batch; `resets` is an argument of models that have recurrent states."""
    decoded = model(*batch.inputs) if resets is None else model(*batch.inputs, resets)
    losses, total = training_losses(decoded, batch, training)
    return Objective(decoded.logits.detach(), {name: loss.detach() for name, loss in losses.items()}, total)


def training_losses(decoded: Decoded, batch: Batch, training: TrainingConfig) -> tuple[dict[str, Tensor], Tensor]:
    """The losses by name, `loss` and where there is one `coverage_loss`; and their weighted sum, which is differentiated.

    All are scalars, in nats per token.
    """
    losses = {"loss": token_cross_entropy(decoded.logits, batch, training.label_smoothing)}
    total = losses["loss"]
    if training.coverage_weight and decoded.weights is not None:
        losses["coverage_loss"] = coverage_loss(decoded.weights, batch)
        total = total + training.coverage_weight * losses["coverage_loss"]
    return losses, total


def token_accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """Share of the real output tokens (`<eos>` counted) whose largest logit is right; logits (B, L, V)."""
    real = batch.decoder_output != PAD
    right = (logits.argmax(dim=2) == batch.decoder_output) & real
    return right.sum() / real.sum()
