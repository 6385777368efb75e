"""What dot, scaled, general and scaled_general share: a dot product on projected keys."""

from __future__ import annotations

from torch import Tensor

from seq2attn.scores.base import Score
from seq2attn.scores.gradient import ScoreGradient


class MultiplicativeScore(Score):
    """s.k on keys k that `project` made, once a sequence, of the width of the query."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, L, D) x (B, D, S) -> (B, L, S)

    def gradient(self, keys: Tensor) -> ScoreGradient:
        return MultiplicativeGradient(self, keys)


class MultiplicativeGradient(ScoreGradient):
    """d(s.k): the keys' gradient is one product over all steps."""

    def __init__(self, score: Score, keys: Tensor) -> None:
        self.score = score
        self.keys = keys

    def step(self, query: Tensor, grad_scores: Tensor) -> Tensor:
        return grad_scores @ self.keys[: len(query)]  # (B, 1, S) x (B, S, D)

    def finish(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor | None]:
        return [grad_scores.mT @ queries, *(None for _ in self.score.parameters())]
