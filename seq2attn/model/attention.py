"""Attention: scores -> weights -> context, with the mask in one place."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from seq2attn.masks import masked_softmax
from seq2attn.scores import Score


@dataclass(frozen=True)
class Memory:
    """The source as the decoder sees it, prepared once a sequence."""

    keys: Tensor
    """(B, S, ...) what the score made of the encoder's states"""
    values: Tensor
    """(B, S, Dv) what contexts are averages of"""
    valid: Tensor | None
    """(B, 1, S) True = real token; None: everything may be attended to"""


@dataclass(frozen=True)
class Attended:
    """The result of attending with L queries."""

    context: Tensor
    """(B, L, Dv) weighted averages of the values"""
    weights: Tensor | None
    """(B, L, S) non-negative; rows sum to 1, or to 0 where there was nothing to attend to; None without attention"""
    scores: Tensor | None
    """(B, L, S) before mask and softmax; None without attention"""


class Attention(nn.Module):
    """softmax over the source of score(query, key), and the average of the values under it.

    mask_padding: give padding the weight 0. False repeats a common mistake, for study.
    """

    def __init__(self, score: Score, *, mask_padding: bool = True) -> None:
        super().__init__()
        self.score = score
        self.mask_padding = mask_padding
        self.context_width = score.key_width

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        """states (B, S, key_width) and valid (B, S), True = real token -> what `forward` attends to."""
        return Memory(
            keys=self.score.project(states),
            values=states,
            valid=valid.unsqueeze(1) if self.mask_padding else None,
        )

    def forward(self, query: Tensor, memory: Memory) -> Attended:
        """query (B, L, query_width) -> contexts, weights and scores of each of the L queries."""
        scores = self.score(query, memory.keys)  # (B, L, S)
        weights = masked_softmax(scores, memory.valid)  # (B, L, S)
        return Attended(context=weights @ memory.values, weights=weights, scores=scores)


class NoAttention(nn.Module):
    """The fixed-vector bottleneck: contexts of width 0, so that a decoder needs no special case (`score: none`)."""

    context_width = 0

    def prepare(self, states: Tensor, valid: Tensor) -> Memory:
        nothing = states[..., :0]
        return Memory(keys=nothing, values=nothing, valid=None)

    def forward(self, query: Tensor, memory: Memory) -> Attended:
        return Attended(context=query[..., :0], weights=None, scores=None)
