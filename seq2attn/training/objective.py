"""What training makes small."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from seq2attn.data import Batch
from seq2attn.vocab import PAD


def token_cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy summed over the real output tokens (`<eos>` counted) and divided by their number; nats.

    logits (B, L, V). Padding never counts.
    """
    return F.cross_entropy(logits.flatten(0, 1), batch.decoder_output.flatten(), ignore_index=PAD)


def token_accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """Share of the real output tokens (`<eos>` counted) whose largest logit is right; logits (B, L, V)."""
    real = batch.decoder_output != PAD
    right = (logits.argmax(dim=2) == batch.decoder_output) & real
    return right.sum() / real.sum()
