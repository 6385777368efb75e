"""Score functions e(s, h): how well a query s matches a key h.

docs/plugins.md shows how to add one in a file of your own. Shapes: B strings of a batch, L queries,
S keys, padding included, D the width of a query and of a key where these are equal.
"""

import inspect
import math
from abc import abstractmethod
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.histories import AttentionStep
from seq2attn.parts import SCORES


class Score(nn.Module):
    """A score function e(s, h), for all queries and keys of a batch at once.

    Every score is constructed as `Score(query_width, key_width, **options)`. `Attention` adds mask,
    softmax and contexts. A score sees what queries and keys contain, not where they stand: the
    index of a query among L is not its output position. Where `forward` has a parameter named
    `now`, it gets the `AttentionStep`: mask, first position, and what a history remembers.
    """

    registry = SCORES

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.value_width = key_width
        """width of `values`"""
        self.feature_width = 1
        """width of the features in `with_features`"""

    def project(self, keys: Tensor) -> Tensor:
        """Compute what depends on the keys (B, S, key_width) alone, once per sequence.

        `forward` gets the result (B, S, ...) as its `keys`. The default: the keys as they are.
        """
        return keys

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Score query (B, L, query_width) with keys (B, S, ...) from `project`: (B, L, S)."""

    @cached_property
    def sees_now(self) -> bool:
        """True if `forward` has a parameter named `now`."""
        return "now" in inspect.signature(self.forward).parameters

    def values(self, states: Tensor) -> Tensor:
        """Compute the values (B, S, value_width) that contexts average, from states (B, S,
        key_width). The default: the states.
        """
        return states

    def with_features(
        self, query: Tensor, keys: Tensor, features: Tensor, **now: AttentionStep
    ) -> Tensor:
        """Score as `forward` does, with features (B, L, S, feature_width) of each key from a
        history.

        By default one feature (feature_width 1), which is added to the score. now: the
        `AttentionStep` by that name if `sees_now`, else nothing.
        """
        return self(query, keys, **now) + features.squeeze(3)


class Dot(Score):
    """`dot`: s.h (Luong et al. 2015, eq. 8). Needs equal widths; has no parameters.

    For components of variance 1 the score's variance is D, which saturates the softmax at large D.
    The base class of all scores that are dot products with projected keys.
    """

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.mT)  # (B, L, D) x (B, D, S) -> (B, L, S)


class Scaled(Dot):
    """`scaled`: s.h / sqrt(D) (Vaswani et al. 2017, eq. 1). Equal widths; no parameters."""

    def project(self, keys: Tensor) -> Tensor:
        return keys / math.sqrt(self.key_width)


class General(Dot):
    """`general`: s W h (Luong et al. 2015, eq. 8); W is (query_width, key_width), no bias. Computed
    as s.(W h).

    initial_std: standard deviation of a normal initialisation of W; None: PyTorch's default for
    Linear.
    """

    def __init__(
        self, query_width: int, key_width: int, *, initial_std: float | None = None
    ) -> None:
        super().__init__(query_width, key_width)
        self.map = nn.Linear(key_width, query_width, bias=False)
        if initial_std is not None:
            nn.init.normal_(self.map.weight, std=initial_std)

    def project(self, keys: Tensor) -> Tensor:
        return self.map(keys)  # (B, S, query_width) W h


class ScaledGeneral(General):
    """`scaled_general`: s W h / sqrt(D), D the query's width: `general` with the factor of Vaswani
    et al. 2017.
    """

    def project(self, keys: Tensor) -> Tensor:
        return super().project(keys) / math.sqrt(self.query_width)


class KeyValue(Dot):
    """`key_value`: (W_q s).(W_k h) / sqrt(d_k), contexts averaged over W_v h (Vaswani et al. 2017,
    section 3.2.2, one head).

    No biases. Computed as s.(W_q^T W_k h), so that what depends on the keys alone is computed
    once per sequence.

    d_k is the query's width, d_v the key's.
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        """Make W_q, W_k and W_v, with outputs of d_k, d_k and d_v numbers."""
        super().__init__(query_width, key_width)
        self.query_map = nn.Linear(query_width, query_width, bias=False)
        self.key_map = nn.Linear(key_width, query_width, bias=False)
        self.value_map = nn.Linear(key_width, key_width, bias=False)

    def project(self, keys: Tensor) -> Tensor:
        mapped = self.key_map(keys) / math.sqrt(self.query_width)  # (B, S, d_k)
        return F.linear(mapped, self.query_map.weight.t())  # (B, S, query_width) W_q^T W_k h

    def values(self, states: Tensor) -> Tensor:
        return self.value_map(states)  # (B, S, d_v)


class Cosine(Score):
    """`cosine`: s.h / (|s| |h|), times a strength (after Graves et al. 2014, eq. 5 and 6, where the
    controller emits the strength at each step; here it is one learned number). Needs equal widths.

    A cosine lies between -1 and 1, too little for a sharp softmax.

    The strength is exp(b), b learned (the inverse of a temperature); initially it is sqrt(D), which
    gives scores of random vectors variance 1.
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.log_strength = nn.Parameter(torch.tensor(0.5 * math.log(query_width)))  # b

    def project(self, keys: Tensor) -> Tensor:
        return F.normalize(keys, dim=2)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = torch.bmm(F.normalize(query, dim=2), keys.mT)  # (B, L, D) x (B, D, S) -> (B, L, S)
        return scores * self.log_strength.exp()


class Additive(Score):
    """`additive`: v.tanh(W [s;h]) (Bahdanau et al. 2015, appendix A.1.2; "concat" in Luong et al.
    2015). No biases.

    W is split into W_s and W_h, since W [s;h] = W_s s + W_h h exactly: W_h h is computed once per
    sequence, and no tensor of width D_s + D_h is built.

    width: D_a, the width of the hidden layer; None: the query's width.
    """

    def __init__(self, query_width: int, key_width: int, *, width: int | None = None) -> None:
        super().__init__(query_width, key_width)
        self.feature_width = width or query_width
        self.query_map = nn.Linear(query_width, self.feature_width, bias=False)
        self.key_map = nn.Linear(key_width, self.feature_width, bias=False)
        self.v = nn.Linear(self.feature_width, 1, bias=False)

    def project(self, keys: Tensor) -> Tensor:
        return self.key_map(keys)  # (B, S, D_a)

    def forward(self, query: Tensor, keys: Tensor, features: Tensor | None = None) -> Tensor:
        hidden = self.query_map(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, L, S, D_a)
        if features is not None:
            hidden = hidden + features
        return self.v(torch.tanh(hidden)).squeeze(3)  # (B, L, S)

    def with_features(
        self, query: Tensor, keys: Tensor, features: Tensor, **now: AttentionStep
    ) -> Tensor:
        """Score with v.tanh(W [s;h] + f), the features f (B, L, S, D_a) inside the tanh (Chorowski
        et al. 2015, eq. 9; See et al. 2017, eq. 11). now: nothing, since `forward` lacks it.
        """
        return self(query, keys, features)
