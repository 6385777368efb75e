"""Differential attention (Ye et al. 2024): what a second softmax finds, too, is taken away."""

import torch
from torch import nn

from seq2attn import History, register


@register("differential", formula="alpha - lambda softmax(s W h / sqrt(D))")
class Differential(History):
    """Takes a second attention's weights, which see noise alone, from the first's.

    start: lambda at first
    """

    signed = True
    channels = 0

    def __init__(self, *widths, start: float = 0.5):
        super().__init__(*widths)
        self.map = nn.Linear(self.key_width, self.query_width, bias=False)
        self.strength = nn.Parameter(torch.tensor(start))

    def prepare(self, keys):  # (B, S, D)
        return self.map(keys) / self.query_width**0.5  # (B, S, query_width)

    def combine(self, weights, logits, step):  # (B, 1, S)
        scores = (step.query @ step.prepared.mT).masked_fill(~step.allowed, -torch.inf)
        return weights - self.strength * torch.softmax(scores, dim=2).nan_to_num(0.0)

    def update(self, weights, step):
        return step.past
