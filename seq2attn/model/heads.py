"""Several attentions at once, the heads of multi-head attention, each with its own score, window
and history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.model.attention import Attended, Attention, Memory, NoAttention


class Heads(nn.Module):
    """head_i = attention_i(W_q^i s, W_k^i h) over the values W_v^i h; the context is [head_1; ...;
    head_H]; no biases (Vaswani et al. 2017, section 3.2.2; in recurrent decoders Chen et al. 2018,
    section 3.3).

    The decoder's next layer is linear in the context and takes the place of W_o. Used like
    `Attention`, whose memory is that of each head in `prepared`; the weights that it returns are
    the mean over heads.
    """

    def __init__(self, query_width: int, key_width: int, attentions: Sequence[Attention]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(attentions)
        queries, keys = (
            sum(getattr(one.score, name) for one in attentions)
            for name in ("query_width", "key_width")
        )
        self.query_map = nn.Linear(query_width, queries, bias=False)
        self.key_map = nn.Linear(key_width, keys, bias=False)
        self.value_map = nn.Linear(key_width, keys, bias=False)
        self.value_width = key_width  # of the memory
        self.context_width = sum(one.context_width for one in attentions)
        self.mask_padding = attentions[0].mask_padding

    def prepare(self, states: Tensor, valid: Tensor, source: Tensor | None = None) -> Memory:
        """As `Attention.prepare`."""
        keys, values = (
            self._split(one(states)) for one in (self.key_map, self.value_map)
        )  # H times (B, S, d)
        memories = tuple(
            head.prepare(own_keys, valid, source)._replace(values=head.score.values(own_values))
            for head, own_keys, own_values in zip(self._heads(), keys, values, strict=True)
        )
        return Memory(states, states, source, memories[0].valid, prepared=memories)

    def begin(self, memory: Memory) -> Tensor | None:
        """As `Attention.begin`: the channels of one head after those of the other (B, H C, S)."""
        return _joined(
            [head.begin(own) for head, own in zip(self._heads(), memory.prepared, strict=True)]
        )

    def forward(
        self, query: Tensor, memory: Memory, past: Tensor | None = None, first: Tensor | int = 0
    ) -> Attended:
        """As `Attention.forward`."""
        heads = self._heads()
        pasts = [None] * len(heads) if past is None else past.chunk(len(heads), dim=1)
        queries = self._split(self.query_map(query))  # H times (B, L, d)
        attended = [
            head(one, own, before, first)
            for head, one, own, before in zip(heads, queries, memory.prepared, pasts, strict=True)
        ]
        weights = torch.stack([cast(Tensor, one.weights) for one in attended]).mean(
            dim=0
        )  # (H, B, L, S) -> (B, L, S)
        context = torch.cat([one.context for one in attended], dim=2)
        return Attended(context, weights, _joined([one.past for one in attended]))

    def _heads(self) -> list[Attention]:
        return cast(list[Attention], list(self.heads))

    def _split(self, mapped: Tensor) -> tuple[Tensor, ...]:
        """(B, n, H d) -> H times (B, n, d)"""
        return mapped.chunk(len(self.heads), dim=2)


Attends = Attention | Heads | NoAttention
"""what a decoder may attend with"""


def _joined(past: Sequence[Tensor | None]) -> Tensor | None:
    """The past of all heads, (B, C, S) each -> (B, H C, S); None without a history."""
    known = [one for one in past if one is not None]
    return torch.cat(known, dim=1) if known else None
