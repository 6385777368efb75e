"""`additive`: v.tanh(W [s;h])"""

import torch
from torch import Tensor, nn

from seq2attn.scores.base import Score


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

    def project(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_map(keys)  # (B, S, D_a)
        return projected

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        hidden = self.query_map(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, L, 1, D_a) + (B, 1, S, D_a)
        scores: Tensor = self.v(torch.tanh(hidden)).squeeze(-1)  # (B, L, S, 1) -> (B, L, S)
        return scores
