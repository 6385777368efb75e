"""The base class of dot, scaled, general, scaled_general and key_value: a dot product with projected keys."""

import torch
from torch import Tensor

from seq2attn.model.scores.base import Score


class MultiplicativeScore(Score):
    """s.k, on keys k of the query's width that `project` computes once per sequence."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.mT)  # (B, L, D) x (B, D, S) -> (B, L, S)
