"""`scaled`: s.h / sqrt(D)"""

import math

from torch import Tensor

from seq2attn.scores.base import Score


class Scaled(Score):
    """s.h / sqrt(D) (Vaswani et al. 2017, eq. 1). Widths are equal; no parameters."""

    def project(self, keys: Tensor) -> Tensor:
        return keys / math.sqrt(self.key_width)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, L, D) x (B, D, S) -> (B, L, S)
