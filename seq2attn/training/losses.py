"""The losses that training minimises, and token accuracy."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.config import TrainingConfig
from seq2attn.data.batches import Batch
from seq2attn.data.vocabulary import PAD
from seq2attn.model.interface import Decoded


def token_cross_entropy(logits: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy summed over the real output tokens (`<eos>` counted) and divided by their
    number; nats.

    logits (B, L, V). Padding never counts. With label smoothing e, the target distribution is 1 - e
    on the right token, plus e / V on each of the V tokens (Szegedy et al. 2016, section 7).
    """
    targets = batch.decoder_output.flatten()
    return F.cross_entropy(
        logits.flatten(0, 1), targets, ignore_index=PAD, label_smoothing=label_smoothing
    )


def coverage_loss(weights: Tensor, batch: Batch) -> Tensor:
    """sum_j min(alpha_tj, C_tj), C_t the sum of the weights before t, per real output token (See et
    al. 2017, eq. 12).

    weights (B, L, S). It is the weight spent on positions attended to before: 0 if no position is
    attended to twice.
    """
    covered = weights.cumsum(dim=1) - weights  # (B, L, S)
    repeated = torch.minimum(weights, covered).sum(dim=2)  # (B, L)
    real = batch.decoder_output != PAD
    return repeated.where(real, 0).sum() / real.sum()


class Losses(NamedTuple):
    """Scalars, in nats per token."""

    parts: dict[str, Tensor]
    """`loss`, the cross-entropy, and `coverage_loss` where there is one"""
    total: Tensor
    """their weighted sum, which is differentiated"""


def training_losses(decoded: Decoded, batch: Batch, training: TrainingConfig) -> Losses:
    """The losses of a batch whose outputs are `decoded`."""
    parts = {"loss": token_cross_entropy(decoded.logits, batch, training.label_smoothing)}
    total = parts["loss"]
    if training.coverage_weight and decoded.weights is not None:
        parts["coverage_loss"] = coverage_loss(decoded.weights, batch)
        total = total + training.coverage_weight * parts["coverage_loss"]
    return Losses(parts, total)


def token_accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """Share of the real output tokens (`<eos>` counted) whose largest logit is right; logits (B, L,
    V).
    """
    real = batch.decoder_output != PAD
    right = (logits.argmax(dim=2) == batch.decoder_output) & real
    return right.sum() / real.sum()
