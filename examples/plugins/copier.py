"""A decoder that writes a letter, or copies the one that it attends to.

`pointer`, which is built in, does this for two vocabularies.
"""

import torch
from torch import nn

from seq2attn import register
from seq2attn.model.decoder import BahdanauDecoder
from seq2attn.model.interface import Decoded


@register(
    "copier",
    formula="p(y) = g p_vocabulary(y) + (1 - g) sum of alpha_j where x_j = y",
    source="See et al. 2017",
)
class Copier(BahdanauDecoder):
    """Writes or copies, with a learned share g."""

    needs_attention = True
    needs_one_vocabulary = True

    def __init__(self, vocabulary_size, embedding, attention, cells):
        super().__init__(vocabulary_size, embedding, attention, cells)
        self.gate = nn.Linear(self.output.in_features, 1)

    def decode(self, features, weights, memory):  # (B, L, F), (B, L, S), memory.source (B, S)
        written = super().decode(features, weights, memory).logits.softmax(2)  # (B, L, V)
        symbols = memory.source.unsqueeze(1).expand(weights.shape)  # (B, L, S)
        copied = torch.zeros_like(written).scatter_add(2, symbols, weights)  # (B, L, V)
        share = torch.sigmoid(self.gate(features))  # (B, L, 1)
        return Decoded((share * written + (1 - share) * copied).clamp(min=1e-12).log(), weights)
