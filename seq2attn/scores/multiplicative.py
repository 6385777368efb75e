"""What dot, scaled, general and scaled_general share: a dot product on projected keys."""

from torch import Tensor

from seq2attn.scores.base import Score


class MultiplicativeScore(Score):
    """s.k, k being what `project` makes of a key, once a sequence, in the query's width."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, L, D) x (B, D, S) -> (B, L, S)
