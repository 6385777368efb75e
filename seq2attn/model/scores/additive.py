"""`additive`: v.tanh(W [s;h])"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from seq2attn.model.scores.base import Score

AT_ONCE = 2**22  # largest hidden layer (B, L, S, D_a) kept for the backward pass; a larger one is recomputed per step


class Additive(Score):
    """v.tanh(W [s;h]) (Bahdanau et al. 2015, appendix A.1.2; "concat" in Luong et al. 2015).

    W is split into W_s and W_h, since W [s;h] = W_s s + W_h h exactly: W_h h is computed once per sequence, and no
    tensor of width D_s + D_h is built. No biases.

    width: D_a, the width of the hidden layer; None: the query's width.
    """

    kernel = "additive"

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

    def forward(self, query: Tensor, keys: Tensor, features: Tensor | None = None) -> Tensor:
        rows, steps, _ = query.shape
        if steps > 1 and torch.is_grad_enabled() and rows * steps * keys[0].numel() > AT_ONCE:
            by_step = [checkpoint(self.forward, one, keys, use_reentrant=False) for one in torch.split(query, 1, dim=1)]
            return torch.cat(by_step, dim=1)
        total = self.query_map(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, L, 1, D_a) + (B, 1, S, D_a)
        scores: Tensor = self.v(torch.tanh(total if features is None else total + features)).squeeze(3)
        return scores

    def with_features(self, query: Tensor, keys: Tensor, features: Tensor) -> Tensor:
        """v.tanh(W [s;h] + f): inside the tanh (Chorowski et al. 2015, eq. 9; See et al. 2017, eq. 11)."""
        scores: Tensor = self(query, keys, features)
        return scores
