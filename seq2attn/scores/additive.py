"""`additive`: v.tanh(W [s;h])"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from seq2attn.scores.base import Score
from seq2attn.scores.gradient import ScoreGradient


class Additive(Score):
    """v.tanh(W [s;h]) (Bahdanau et al. 2015, appendix A.1.2; "concat" in Luong et al. 2015).

    W is split into W_s and W_h, since W [s;h] = W_s s + W_h h exactly: W_h h is computed once a sequence, and nothing
    of width D_s + D_h is ever built. No biases.

    width: D_a, the width of the hidden layer; None is the query's width.
    """

    def __init__(self, query_width: int, key_width: int, *, width: int | None = None) -> None:
        super().__init__(query_width, key_width)
        width = query_width if width is None else width
        self.query_map = nn.Linear(query_width, width, bias=False)
        self.key_map = nn.Linear(key_width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)
        self.feature_width = width

    def project(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_map(keys)  # (B, S, D_a)
        return projected

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        hidden = self.query_map(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, L, 1, D_a) + (B, 1, S, D_a)
        return self._score(hidden)

    def with_features(self, query: Tensor, keys: Tensor, features: Tensor) -> Tensor:
        """v.tanh(W [s;h] + f): inside the tanh (Chorowski et al. 2015, eq. 9; See et al. 2017, eq. 11)."""
        return self._score(self.query_map(query).unsqueeze(2) + keys.unsqueeze(1) + features)

    def _score(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.v(torch.tanh(hidden)).squeeze(3)  # (B, L, S, D_a) -> (B, L, S)
        return scores

    def gradient(self, keys: Tensor) -> ScoreGradient:
        return AdditiveGradient(self, keys)


class AdditiveGradient(ScoreGradient):
    """The hidden layer of one step at a time: (B, S, D_a) is computed again, (B, L, S, D_a) never stored."""

    def __init__(self, score: Additive, keys: Tensor) -> None:
        self.query_map, self.v = score.query_map, score.v.weight
        self.keys = keys
        self.grad_keys = torch.zeros_like(keys)
        self.grad_v = torch.zeros_like(self.v)  # (1, D_a)
        self.grad_queries: list[Tensor] = []  # of W_s s, last step first

    def step(self, query: Tensor, grad_scores: Tensor) -> Tensor:
        rows = len(query)
        hidden = torch.tanh(self.query_map(query) + self.keys[:rows])  # (b, 1, D_a) + (b, S, D_a)
        self.grad_v += grad_scores.reshape(1, -1) @ hidden.flatten(0, 1)
        grad_hidden = grad_scores.mT * self.v  # (b, S, 1) * (1, D_a)
        grad_hidden = torch.ops.aten.tanh_backward(grad_hidden, hidden)
        self.grad_keys[:rows] += grad_hidden
        self.grad_queries.append(grad_hidden.sum(dim=1))  # (b, D_a)
        return (self.grad_queries[-1] @ self.query_map.weight).unsqueeze(1)

    def finish(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor | None]:
        grad_queries = pad_sequence(self.grad_queries[::-1], batch_first=True)  # (L, B, D_a)
        grad_query_map = grad_queries.flatten(0, 1).t() @ queries.transpose(0, 1).flatten(0, 1)
        return [self.grad_keys, grad_query_map, None, self.grad_v]
