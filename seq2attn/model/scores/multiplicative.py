"""What dot, scaled, general and scaled_general share: a dot product on projected keys."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.model.scores.base import Score
from seq2attn.model.scores.stepwise import StepwiseScore


class MultiplicativeScore(Score):
    """s.k on keys k that `project` made, once a sequence, of the width of the query."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, L, D) x (B, D, S) -> (B, L, S)

    def stepwise(self, keys: Tensor) -> StepwiseScore:
        return StepwiseProduct(self, keys)


class StepwiseProduct(StepwiseScore):
    """The keys' gradient is one product over all steps."""

    def __init__(self, score: Score, keys: Tensor) -> None:
        self.score = score
        self.keys = keys
        self.keys_t = keys.mT  # (B, D, S)

    def scores(self, query: Tensor) -> Tensor:
        return torch.bmm(query, self.keys_t[: query.size(0)])  # (b, 1, D) x (b, D, S)

    def grad_query(self, query: Tensor, grad_scores: Tensor) -> Tensor:
        return torch.bmm(grad_scores, self.keys[: query.size(0)])  # (b, 1, S) x (b, S, D)

    def finish(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor | None]:
        return [grad_scores.mT @ queries, *(None for _ in self.score.parameters())]
