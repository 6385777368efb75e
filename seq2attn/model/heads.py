"""Multi-head attention: several attentions at once, each with its own score, window and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.model.attention import Attended, Attention, Memory, NoAttention


class Heads(nn.Module):
    """head_i = attention_i(W_q^i s, W_k^i h) over the values W_v^i h; the context is
    [head_1; ...; head_H]; no biases (Vaswani et al. 2017, section 3.2.2; in recurrent decoders Chen
    et al. 2018, section 3.3).

    The decoder's next layer is linear in the context and takes the place of W_o. Used like
    `Attention`; its memory has that of each head in `prepared`, and its weights are the mean over
    the heads.
    """

    def __init__(self, query_width: int, key_width: int, heads: Sequence[Attention]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        scores = [head.score for head in heads]
        queries = sum(score.query_width for score in scores)
        keys = sum(score.key_width for score in scores)
        self.query_map = nn.Linear(query_width, queries, bias=False)
        self.key_map = nn.Linear(key_width, keys, bias=False)
        self.value_map = nn.Linear(key_width, keys, bias=False)
        self.value_width = key_width  # of the memory
        self.context_width = sum(head.context_width for head in heads)
        self.mask_padding = heads[0].mask_padding

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        """As `Attention.prepare`."""
        keys = self._split(self.key_map(states))  # H times (B, S, d)
        values = self._split(self.value_map(states))
        memories = []
        for head, head_keys, head_values in zip(self._heads(), keys, values, strict=True):
            memory = head.prepare(head_keys, valid, source)
            memories.append(memory._replace(values=head.score.values(head_values)))
        return Memory(states, states, source, memories[0].valid, prepared=tuple(memories))

    def begin(self, memory: Memory) -> Tensor | None:
        """As `Attention.begin`: the channels of one head after those of the other (B, H C, S)."""
        pasts = []
        for head, head_memory in zip(self._heads(), memory.prepared, strict=True):
            pasts.append(head.begin(head_memory))
        return _joined(pasts)

    def forward(
        self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0
    ) -> Attended:
        """As `Attention.forward`."""
        heads = self._heads()
        queries = self._split(self.query_map(query))  # H times (B, L, d)
        pasts = [None] * len(heads) if past is None else past.chunk(len(heads), dim=1)
        inputs = zip(heads, queries, memory.prepared, pasts, strict=True)
        attended = [head(*head_inputs, first) for head, *head_inputs in inputs]
        weights = torch.stack([cast(Tensor, head.weights) for head in attended])  # (H, B, L, S)
        context = torch.cat([head.context for head in attended], dim=2)
        return Attended(context, weights.mean(dim=0), _joined([head.past for head in attended]))

    def _heads(self) -> list[Attention]:
        return cast(list[Attention], list(self.heads))

    def _split(self, mapped: Tensor) -> tuple[Tensor, ...]:
        """Split (B, n, H d) into H times (B, n, d)."""
        return mapped.chunk(len(self.heads), dim=2)


Attends = Attention | Heads | NoAttention
"""what a decoder may attend with"""


def _joined(pasts: Sequence[Tensor | None]) -> Tensor | None:
    """Join the past of all heads, (B, C, S) each, to (B, H C, S); None without a history."""
    known = [past for past in pasts if past is not None]
    return torch.cat(known, dim=1) if known else None
