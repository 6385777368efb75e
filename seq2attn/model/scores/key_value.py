"""`key_value`: (W_q s).(W_k h) / sqrt(d_k), values W_v h"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.scores.multiplicative import MultiplicativeScore


class KeyValue(MultiplicativeScore):
    """(W_q s).(W_k h) / sqrt(d_k), contexts averaged over W_v h (Vaswani et al. 2017, section 3.2.2, one head). No biases.

    Computed as s.(W_q^T W_k h): a dot product on keys that are projected once per sequence.

    key_size: d_k; None: the query's width. value_size: d_v; None: the key's width.
    """

    kernel = "product"

    def __init__(
        self, query_width: int, key_width: int, *, key_size: int | None = None, value_size: int | None = None
    ) -> None:
        super().__init__(query_width, key_width)
        self.key_size = query_width if key_size is None else key_size
        self.value_width = key_width if value_size is None else value_size
        self.query_map = nn.Linear(query_width, self.key_size, bias=False)
        self.key_map = nn.Linear(key_width, self.key_size, bias=False)
        self.value_map = nn.Linear(key_width, self.value_width, bias=False)

    def project(self, keys: Tensor) -> Tensor:
        mapped = self.key_map(keys) / math.sqrt(self.key_size)  # (B, S, d_k)
        return F.linear(mapped, self.query_map.weight.t())  # (B, S, query_width)

    def values(self, states: Tensor) -> Tensor:
        mapped: Tensor = self.value_map(states)  # (B, S, d_v)
        return mapped
