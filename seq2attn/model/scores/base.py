"""The base class of scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from seq2attn.parts import SCORES
from seq2attn.registry import Registry


class Score(nn.Module):
    """e(s, h) for all queries and keys of a batch at once.

    Every score is constructed as `Score(query_width, key_width, **options)`. `Attention` adds mask, softmax and contexts.
    """

    registry: ClassVar[Registry] = SCORES

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.value_width = key_width
        """width of `values`"""
        self.feature_width = 1
        """width of the features in `with_features`"""

    def project(self, keys: Tensor) -> Tensor:
        """The part of the score that depends only on the keys, computed once per sequence.

        keys (B, S, key_width) -> (B, S, ...), passed to `forward` as `keys`. The default: the keys.
        """
        return keys

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, L, query_width), keys (B, S, ...) from `project` -> scores (B, L, S)."""

    def values(self, states: Tensor) -> Tensor:
        """The values that contexts average: states (B, S, key_width) -> (B, S, value_width). The default: the states."""
        return states

    def with_features(self, query: Tensor, keys: Tensor, features: Tensor) -> Tensor:
        """`forward` with features (B, L, S, feature_width) for each key. The default: added to the scores."""
        scores: Tensor = self(query, keys)
        return scores + features.squeeze(3)
