"""Contextual position encoding (Golovneva et al. 2024), for attention to the source."""

import torch
from torch import nn

from seq2attn import Score, register


@register("cope", formula="s.h/sqrt(D) + s.E[p_j], p_j = sum_{i >= j} g_i", equal_widths=True)
class CoPE(Score):
    """Counts from the end those keys that the query lets through, and embeds the count.

    positions: how many counts have an embedding; between two of them it is interpolated
    """

    limits = {"positions": (2, 512)}

    def __init__(self, query_width, key_width, *, positions: int = 16):
        super().__init__(query_width, key_width)
        self.embedding = nn.Parameter(0.1 * torch.randn(query_width, positions))

    def forward(self, query, keys, now):
        content = query @ keys.mT / self.query_width**0.5  # (B, L, S)
        gates = torch.sigmoid(content) * now.allowed
        counts = gates.flip(2).cumsum(2).flip(2).clamp(max=self.embedding.size(1) - 1)
        low, high = counts.floor().long(), counts.ceil().long()
        of_counts = query @ self.embedding  # (B, L, positions)
        at_low, at_high = of_counts.gather(2, low), of_counts.gather(2, high)
        return content + torch.lerp(at_low, at_high, counts - low)
