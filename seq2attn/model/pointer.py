"""`pointer`: a decoder that writes a symbol of its own or copies one of the source."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.attention import Memory
from seq2attn.model.cells import Cells
from seq2attn.model.decoder import LuongDecoder
from seq2attn.model.heads import Attends
from seq2attn.model.interface import Decoded


class PointerDecoder(LuongDecoder):
    """`pointer`: `luong`, and a learned share of each step that copies what is attended to (See et
    al. 2017, eq. 8 and 9).

    g_t = sigmoid(w_c c_t + w_s s_t + w_x emb(y_{t-1}) + b)
    P(v) = g_t softmax(W_o a_t + b_o)_v + (1 - g_t) sum_j alpha_tj, over the positions j whose
    symbol is v.  logits = log P

    `same` says which symbols of the source and the target are the same. What the target's
    vocabulary lacks counts as its `<unk>`; where it has none, as where weights sum to less than 1,
    the rest of 1 - g_t goes to the softmax.
    """

    needs_attention = True
    copies = True

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attends,
        cells: Cells,
        *,
        input_feeding: bool = False,
    ) -> None:
        super().__init__(vocabulary_size, embedding, attention, cells, input_feeding=input_feeding)
        width = attention.context_width + cells.width + embedding
        self.generate = nn.Linear(width, 1)  # w_c, w_s, w_x and b
        self.register_buffer("same", torch.eye(vocabulary_size), persistent=False)
        self.same: Tensor
        """(V of the source, V) 1 where both are the same symbol"""

    def features(self, context: Tensor, states: Tensor, embedded: Tensor) -> Tensor:
        """Compute the attentional vectors, followed by the logit of g_t: (B, L, D + 1)."""
        gates = self.generate(torch.cat([context, states, embedded], dim=2))
        return torch.cat([super().features(context, states, embedded), gates], dim=2)

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        assert weights is not None
        assert memory.source is not None
        vectors, gates = features[..., :-1], features[..., -1:]  # (B, L, D) and (B, L, 1)
        own = super().decode(vectors, weights, memory).logits.softmax(dim=2)  # (B, L, V)
        same = F.embedding(memory.source, self.same)  # (B, S, V)
        copied = weights @ same  # (B, L, V)
        copied = copied / weights.sum(dim=2, keepdim=True).clamp(min=1)  # (weights may sum to more)
        pointed = torch.sigmoid(-gates) * copied  # 1 - g_t of each
        mixed = pointed + (1 - pointed.sum(dim=2, keepdim=True)) * own
        return Decoded(mixed.clamp(min=torch.finfo(mixed.dtype).tiny).log(), weights)
