"""`dot`: s.h"""

from torch import Tensor

from seq2attn.scores.base import Score


class Dot(Score):
    """s.h (Luong et al. 2015, eq. 8). Widths are equal; no parameters.

    For components of variance 1 the score's variance is D, which saturates the softmax at large D.
    """

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, L, D) x (B, D, S) -> (B, L, S)
