"""Attention: scores -> weights -> context; of one head, of several, or none.

Shapes: B strings of a batch, S source positions, padding included, L output positions, one query
each, Dv the width of a value, H heads, C the numbers that a history keeps for each key.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.histories import AttentionStep, History, NoHistory
from seq2attn.model.normalisers import Normaliser, Softmax, Window, log_count
from seq2attn.model.points import Point
from seq2attn.model.scores import Score


class Memory(NamedTuple):
    """The encoded source, prepared once per sequence."""

    keys: Tensor
    """(B, S, ...) the encoder's states, as `Score.project` returns them"""
    values: Tensor
    """(B, S, Dv) contexts are weighted averages of these"""
    source: Tensor | None
    """(B, S) ids of the source's tokens, where they are known"""
    valid: Tensor
    """(B, 1, S) True = real token; all are True where padding is not masked"""
    lengths: Tensor | None = None
    """(B,) real tokens of each source; None without a window"""
    prepared: Any = None
    """what `History.prepare` returns"""


class Attended(NamedTuple):
    """The result of attending with L queries."""

    context: Tensor
    """(B, L, context_width) weighted averages of the values, Dv wide, then what a history adds"""
    weights: Tensor | None
    """(B, L, S) non-negative; rows sum to 1, or to 0 if no key is allowed (`local_p`: to 1 at most;
    `sigmoid`: to anything); None without attention"""
    past: Tensor | None = None
    """(B, C, S) input of the history in the next step; None without a history"""


class AttentionPoints(nn.Module):
    """The hook points that every attention has.

    each: what distinguishes the points that share these names in a model: `head`, or `layer`.
    head_axes: `head`, if one call computes all heads, as in a Transformer: the values of most
        points then have an axis H after that of the batch. Nothing, if a call computes one head.
    """

    def __init__(self, each: str, *head_axes: str) -> None:
        """Make the points; the string below each says which values pass it."""
        super().__init__()
        point = partial(Point, each=each)
        # the axes after the batch of what is (B, L, S) below; with head_axes (B, H, L, S)
        matrix = (*head_axes, "step", "source")
        self.query = point("query", *head_axes, "step", "width")
        """(B, L, ...) what is compared with the keys; with head_axes (B, H, L, ...)"""
        self.keys = point("keys", "source", "width")
        """(B, S, ...) as `Score.project` returns them, once a sequence; never with an axis H"""
        self.valid = point("valid")  # a mask: without axes, so that no cache keeps it
        """(B, 1, S) True = real token, or padding that is not masked"""
        self.allowed = point("allowed", *matrix)
        """(B, L, S) True = valid, and inside the window"""
        self.scores = point("scores", *matrix)
        """(B, L, S) of the score function"""
        self.logits = point("logits", *matrix)
        """(B, L, S) what the normaliser gets: the scores, with `scalable_softmax` times ln n"""
        self.normalised = point("normalised", *matrix)
        """(B, L, S) the normaliser's weights, before a window's factor and a history change them"""
        self.weights = point("weights", *matrix)
        """(B, L, S) what the values are averaged with"""
        self.context = point("context", "step", "width")
        """(B, L, context_width) of all heads that the call computes, joined"""


class Attention(AttentionPoints):
    """weights = softmax over the source of score(query, key); context = the values, averaged with
    these weights.

    normaliser: what makes weights of scores; None: the softmax.
    window: which keys may be attended to; None: all (`global`).
    history: what the score knows of past weights; None: nothing. With a history, queries come one
        at a time.
    scalable_softmax: scores times ln n, n the number of keys that a query may attend to (Nakanishi
        2025, eq. 2, with the learned factor at 1). The same scores give a flatter softmax over more
        keys; this factor compensates, so that attention stays sharp on sources far longer than
        those trained on.
    mask_padding: give padding the weight 0. False repeats a common mistake, for study.
    """

    def __init__(
        self,
        score: Score,
        *,
        normaliser: Normaliser | None = None,
        window: Window | None = None,
        history: History | None = None,
        scalable_softmax: bool = False,
        mask_padding: bool = True,
    ) -> None:
        """Put the parts together; the docstring of the class describes them."""
        super().__init__("head")  # each head of `Heads` is an Attention, with points of its own
        self.score = score
        self.normaliser = normaliser or Softmax()
        self.window = window
        self.history = history or NoHistory(score.query_width, score.key_width, score.feature_width)
        self.scalable_softmax = scalable_softmax
        self.mask_padding = mask_padding
        self.value_width = score.value_width
        # a history may append numbers to the average of the values
        self.context_width = score.value_width + self.history.extra_width

    def prepare(
        self,
        states: Tensor,
        valid: Tensor,
        source: Tensor | None = None,
        values: Tensor | None = None,
    ) -> Memory:
        """Prepare what `forward` attends to.

        states (B, S, key_width), of the encoder; valid (B, S), True = real token; source (B, S)
        ids; values (B, S, key_width), what a head averages; None: the states. A score may make
        values of its own of them, such as the W_v h of `key_value`.
        """
        # without the mask, padding counts as real
        unmasked = valid if self.mask_padding else torch.ones_like(valid)
        return Memory(
            keys=self.keys(self.score.project(states)),
            values=self.score.values(states if values is None else values),
            source=source,
            valid=unmasked.unsqueeze(1),  # (B, 1, S)
            lengths=None if self.window is None else valid.sum(dim=1),  # only windows read it
            prepared=self.history.prepare(states),
        )

    def begin(self, memory: Memory) -> Tensor | None:
        """Return the `past` of the first step (B, C, S); None without a history."""
        return self.history.begin(memory.values)

    def forward(
        self, query: Tensor, memory: Memory, past: Any = None, first: Tensor | int = 0
    ) -> Attended:
        """Attend with query (B, L, query_width), of output positions first, ..., first + L - 1:
        contexts (B, L, context_width), weights (B, L, S) and, with a history, the next `past`.

        With a history, L is 1 and `past` comes from `begin` or from the previous step; otherwise it
        is None. `self.query`, `self.valid` and so on are points, which return what they are given,
        unless a hook changes it. first: in an exported graph a tensor ().
        """
        query = self.query(query)
        allowed = self.valid(memory.valid).expand(-1, query.size(1), -1)  # (B, L, S)
        factor = None  # (B, L, S) of a window that weakens weights inside it, as `local_p` does
        if self.window is not None:
            assert memory.lengths is not None  # as `prepare` makes them for a window
            inside, factor = self.window(query, memory.lengths, memory.values.size(1), first)
            allowed = inside & allowed
        allowed = self.allowed(allowed)
        # `memory.valid`, which no hook has changed: a history counts the source's tokens by it
        step = AttentionStep(query, past, memory.prepared, memory.valid, allowed, first)

        logits = self.scores(self._scores(step, memory.keys))  # (B, L, S)
        if self.scalable_softmax:
            logits = logits * log_count(allowed, logits)
        logits = self.logits(logits)
        weights = self.normalised(self.normaliser(logits, allowed))
        if factor is not None:
            weights = weights * factor
        weights = self.weights(self.history.combine(weights, logits, step))

        context = torch.bmm(weights, memory.values)  # (B, L, S) x (B, S, Dv) -> (B, L, Dv)
        if self.history.extra_width:
            context = torch.cat([context, self.history.extra_context(weights, step)], dim=2)
        return Attended(self.context(context), weights, self.history.update(weights, step))

    def _scores(self, step: AttentionStep, keys: Tensor) -> Tensor:
        """Return the history's own scores (B, L, S), or those of the score function, with the
        history's features.
        """
        scores = self.history.scores(step)
        if scores is not None:
            return scores
        features = self.history(step)  # (B, 1, S, feature_width)
        # only a score that has the parameter `now` gets the step, by that name
        now = {"now": step} if self.score.sees_now else {}
        if features is None:  # no history, or one that changes the weights instead
            return self.score(step.query, keys, **now)
        return self.score.with_features(step.query, keys, features, **now)


class Heads(nn.Module):
    """head_i = attention_i(W_q^i s, W_k^i h) over the values W_v^i h; the context is
    [head_1; ...; head_H]; no biases (Vaswani et al. 2017, section 3.2.2; in recurrent decoders Chen
    et al. 2018, section 3.3).

    Each head has its own score, window and history. The decoder's next layer is linear in the
    context and takes the place of W_o. Used like `Attention`; its memory has that of each head in
    `prepared`, and its weights are the mean over the heads.
    """

    def __init__(self, query_width: int, key_width: int, heads: Sequence[Attention]) -> None:
        """Make the maps W_q, W_k and W_v, from states of the decoder (query_width) and of the
        encoder (key_width) to queries, keys and values of all heads.

        heads: each an attention over queries and keys of its own widths.
        """
        super().__init__()
        self.heads: Any = nn.ModuleList(heads)
        all_queries = sum(head.score.query_width for head in heads)
        all_keys = sum(head.score.key_width for head in heads)
        # the maps of all heads in one: W_q^1, ..., W_q^H below each other
        self.query_map = nn.Linear(query_width, all_queries, bias=False)
        self.key_map = nn.Linear(key_width, all_keys, bias=False)
        self.value_map = nn.Linear(key_width, all_keys, bias=False)  # values as wide as keys
        self.value_width = key_width  # of the memory's values, which are the states
        self.context_width = sum(head.context_width for head in heads)
        self.mask_padding = heads[0].mask_padding  # the same for all

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        """Prepare what `forward` attends to: a memory whose `prepared` has a memory for each head.

        states (B, S, key_width), of the encoder; valid (B, S), True = real token; source (B, S)
        ids. A head attends to its own memory alone. The `keys` and `values` of the returned memory
        are the states themselves, for decoders that read these, such as `hard_monotonic`.
        """
        # equal parts, as all heads have keys of one width d
        keys = self.key_map(states).chunk(len(self.heads), dim=2)  # H times (B, S, d)
        values = self.value_map(states).chunk(len(self.heads), dim=2)
        parts = zip(self.heads, keys, values, strict=True)
        memories = tuple(head.prepare(own, valid, source, value) for head, own, value in parts)
        return Memory(
            keys=states,
            values=states,
            source=source,
            valid=memories[0].valid,  # the same for all heads
            prepared=memories,
        )

    def begin(self, memory: Memory) -> Tensor | None:
        """As `Attention.begin`: the C channels of each head, one head after the other: (B, H C, S);
        None without a history.
        """
        memories = zip(self.heads, memory.prepared, strict=True)
        return _joined([head.begin(own) for head, own in memories])

    def forward(
        self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0
    ) -> Attended:
        """Attend with query (B, L, query_width), of output positions first, ..., first + L - 1:
        each head with its part of the mapped query and of `past`, which is as `begin` or the
        previous step returned it, to its memory. Contexts are joined, (B, L, context_width);
        weights (B, L, S) are the mean over the heads.
        """
        count = len(self.heads)
        # equal parts, as all heads have queries of one width d
        queries = self.query_map(query).chunk(count, dim=2)  # H times (B, L, d)
        pasts = [None] * count if past is None else past.chunk(count, dim=1)  # H times (B, C, S)
        parts = zip(self.heads, queries, memory.prepared, pasts, strict=True)
        attended = [head(*own, first) for head, *own in parts]  # its own query, memory and past
        contexts, weights, next_pasts = zip(*attended, strict=True)
        mean = torch.stack(weights).mean(dim=0)  # (H, B, L, S) -> (B, L, S)
        # the next past (B, H C, S), or None without a history
        return Attended(torch.cat(contexts, dim=2), mean, _joined(next_pasts))


def _joined(pasts: Any) -> Tensor | None:
    """Join the past of all heads, (B, C, S) each, to (B, H C, S); None without a history."""
    return None if pasts[0] is None else torch.cat(pasts, dim=1)


class NoAttention(nn.Module):
    """`score: none`, the fixed-vector bottleneck: contexts have width 0, so decoders need no
    special case.
    """

    value_width = context_width = 0
    mask_padding = True

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        """As `Attention.prepare`, with keys and values of width 0."""
        empty = states[..., :0]
        return Memory(keys=empty, values=empty, source=source, valid=valid.unsqueeze(1))

    def begin(self, memory: Memory) -> None:
        """There is no history."""

    def forward(
        self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0
    ) -> Attended:
        """As `Attention.forward`: contexts (B, L, 0), and no weights."""
        return Attended(context=query[..., :0], weights=None)


Attends = Attention | Heads | NoAttention
"""what a decoder may attend with"""
