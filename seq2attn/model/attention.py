"""Attention: scores -> weights -> context, with the mask in one place."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2attn import kernels
from seq2attn.model.histories import History
from seq2attn.model.intervention import Intervention
from seq2attn.model.masks import masked_softmax
from seq2attn.model.scores import Score
from seq2attn.model.windows import Window


class Memory(NamedTuple):
    """The encoded source, prepared once per sequence."""

    keys: Tensor
    """(B, S, ...) the encoder's states, as `Score.project` returns them"""
    values: Tensor
    """(B, S, Dv) contexts are weighted averages of these"""
    source: Tensor | None
    """(B, S) ids of the source's tokens, where they are known"""
    valid: Tensor | None
    """(B, 1, S) True = real token; None: all keys are allowed"""
    lengths: Tensor | None = None
    """(B,) real tokens of each source; None without a window"""
    scale: Tensor | None = None
    """(B, 1, 1) the factor of scores before the softmax; None: 1"""
    intervention: Intervention | None = None
    """what a person changes at the next position; None: nothing"""


class Attended(NamedTuple):
    """The result of attending with L queries."""

    context: Tensor
    """(B, L, Dv) weighted averages of the values"""
    weights: Tensor | None
    """(B, L, S) non-negative; rows sum to 1, or to 0 if no key is allowed (`local_p`: to 1 at most); None
    without attention"""
    scores: Tensor | None
    """(B, L, S) before window, mask and softmax; None without attention, and where the history left them no influence"""
    past: Tensor | None = None
    """(B, C, S) input of the history in the next step; None without a history"""
    softmax: Tensor | None = None
    """(B, L, S) the weights before a window's factor, a history or an intervention changes them; None without attention"""


class Attention(nn.Module):
    """weights = softmax over the source of score(query, key); context = the values, averaged with these weights.

    window: which keys may be attended to; None: all (`global`).
    history: what the score knows of past weights; None: nothing. With a history, queries come one at a time.
    scalable_softmax: scores times ln n, n the number of keys that a query may attend to (Nakanishi 2025, eq. 2, with the
        learned factor at 1). The same scores give a flatter softmax over more keys; this factor compensates, so that
        attention stays sharp on sources far longer than those trained on.
    mask_padding: give padding the weight 0. False repeats a common mistake, for study.
    """

    kernel = "softmax"

    def __init__(
        self,
        score: Score,
        *,
        window: Window | None = None,
        history: History | None = None,
        scalable_softmax: bool = False,
        mask_padding: bool = True,
    ) -> None:
        super().__init__()
        self.score = score
        self.window = window
        self.history = history
        self.scalable_softmax = scalable_softmax
        self.mask_padding = mask_padding
        self.context_width = score.value_width + (0 if history is None else history.read_width)

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        """states (B, S, key_width), valid (B, S), True = real token, source ids (B, S) -> what `forward` attends to."""
        allowed = valid.unsqueeze(1) if self.mask_padding else None  # (B, 1, S)
        return Memory(
            keys=self.score.project(states),
            values=self.score.values(states),
            source=source,
            valid=allowed,
            lengths=None if self.window is None else valid.sum(dim=1),
            scale=log_count(allowed, states) if self.scalable_softmax else None,
        )

    def begin(self, memory: Memory) -> Tensor | None:
        """The `past` of the first step: zeros (B, C, S); None without a history."""
        if self.history is None:
            return None
        rows, width = memory.values.shape[:2]
        return memory.values.new_zeros(rows, self.history.channels, width)

    def forward(self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0) -> Attended:
        """query (B, L, query_width) of output positions first, ..., first + L - 1 -> contexts, weights and scores of each.

        With a history, L is 1 and `past` comes from `begin` or from the previous step.
        """
        history, change = self.history, memory.intervention
        if history is not None and past is None:
            raise ValueError("attention with a history needs the past weights: `begin` gives those of the first step")
        softmax: Tensor | None = None
        scores: Tensor | None = None
        if self.window is None and change is None and past is not None and _is_settled(history, past):
            weights, allowed = torch.zeros_like(past[:, :1]), memory.valid
        else:
            features = None if history is None else history(past)
            softmax, weights, scores, allowed = self._by_content(query, memory, features, first)
        if history is not None and past is not None:
            weights = history.combine(weights, past, memory.valid, allowed)
        if change is not None:
            weights = change.set_weights(weights)
        context = self._context(weights, memory.values)
        if history is not None and past is not None:
            if history.read_width:
                context = torch.cat([context, history.read(weights, past)], dim=2)
            past = history.update(past, weights.squeeze(1))
        return Attended(context, weights, scores, past, softmax)

    def _by_content(
        self, query: Tensor, memory: Memory, features: Tensor | None, first: Tensor | int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The softmax of the scores (B, L, S), the same with the window's factor, the scores, and the keys allowed.

        features: of a history, (B, 1, S, feature_width), if there is one.
        """
        keys, allowed, scale, factor, change = memory.keys, memory.valid, memory.scale, None, memory.intervention
        scores = self.score(query, keys) if features is None else self.score.with_features(query, keys, features)
        logits = scores
        if change is not None:
            allowed, logits = change.allowed(allowed), scores / change.temperature
        if self.window is not None:
            assert memory.lengths is not None
            view = self.window(query, memory.lengths, scores.size(2), first)
            allowed = view.allowed if allowed is None else view.allowed & allowed  # (B, L, S)
            factor = view.factor
        if scale is not None:
            if allowed is not memory.valid:
                scale = log_count(allowed, scores)
            logits = logits * scale
        softmax = masked_softmax(logits, allowed)
        return softmax, softmax if factor is None else softmax * factor, scores, allowed

    def _context(self, weights: Tensor, values: Tensor) -> Tensor:
        """The values (B, S, Dv), averaged with weights (B, L, S): (B, L, Dv)."""
        fast = kernels.sparse_context(weights, values)
        return torch.bmm(weights, values) if fast is None else fast


class NoAttention(nn.Module):
    """`score: none`, the fixed-vector bottleneck: contexts have width 0, so decoders need no special case."""

    kernel = "none"
    context_width = 0

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        empty = states[..., :0]
        return Memory(keys=empty, values=empty, source=source, valid=None)

    def begin(self, memory: Memory) -> None:
        return None

    def forward(self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0) -> Attended:
        return Attended(context=query[..., :0], weights=None, scores=None)


def _is_settled(history: History | None, past: Tensor) -> bool:
    """Whether the next weights do not depend on the scores, as far as that may be asked."""
    return history is not None and kernels.may_branch(past) and history.is_settled(past)


def log_count(allowed: Tensor | None, like: Tensor) -> Tensor:
    """ln n, n the number of allowed keys: (B, L, S) -> (B, L, 1); None allows all S keys of `like` (B, S, ...)."""
    if allowed is None:
        return like.new_full((like.size(0), 1, 1), like.size(1)).log()
    return allowed.sum(dim=2, keepdim=True).clamp(min=1).to(like.dtype).log()
