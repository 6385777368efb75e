"""`cosine`: s.h / (|s| |h|)"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.scores.base import Score


class Cosine(Score):
    """s.h / (|s| |h|), times a strength (after Graves et al. 2014, eq. 5 and 6, where the controller emits the strength at
    each step; here it is one learned number). Needs equal widths.

    A cosine lies between -1 and 1, too little for a sharp softmax.

    learned_strength: multiply by exp(b), b learned (the inverse of a temperature); initially it is sqrt(D), which gives
        scores of random vectors variance 1. False: the bare cosine.
    """

    def __init__(self, query_width: int, key_width: int, *, learned_strength: bool = True) -> None:
        super().__init__(query_width, key_width)
        self.log_strength = nn.Parameter(torch.tensor(0.5 * math.log(query_width))) if learned_strength else None

    def project(self, keys: Tensor) -> Tensor:
        return F.normalize(keys, dim=2)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = torch.bmm(F.normalize(query, dim=2), keys.mT)  # (B, L, D) x (B, D, S) -> (B, L, S)
        return scores if self.log_strength is None else scores * self.log_strength.exp()
