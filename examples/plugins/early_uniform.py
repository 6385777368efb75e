"""Attention that is held near uniform early in training, and then let go."""

import torch

from seq2attn import Loss, register


@register("early_uniform", formula="max(0, 1 - step / until) KL(alpha || uniform)")
class EarlyUniform(Loss):
    """Keeps attention spread for the first steps.

    until: the step from which it costs nothing
    """

    needs_attention = True

    def __init__(self, *, weight: float = 1.0, until: int = 300):
        super().__init__(weight=weight)
        self.until = until

    def forward(self, decoded, batch, step):
        counts = batch.source_lengths.view(-1, 1)  # (B, 1)
        weights = decoded.weights  # (B, L, S), 0 on padding
        terms = weights * weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        divergence = counts.log() + terms.sum(dim=2)  # (B, L)
        real = batch.decoder_output != 0
        return max(0.0, 1 - step / self.until) * divergence[real].mean()
