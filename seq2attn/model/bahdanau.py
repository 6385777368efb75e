"""`bahdanau`: attend, then step."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from seq2attn.kernels.packing import pack
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.attentive_recurrence import attentive_gru_recurrence
from seq2attn.model.decoder import Decoder, DecoderState
from seq2attn.model.interface import Decoded
from seq2attn.model.recurrence import GRUWeights, gru_recurrence


class BahdanauDecoder(Decoder):
    """Attend with the previous state, then step (Bahdanau et al. 2015).

    c_t = attention(s_{t-1});  s_t = GRU([emb(y_{t-1}); c_t], s_{t-1});  logits = W_o [s_t; c_t] + b
    """

    def __init__(self, vocabulary_size: int, embedding: int, hidden: int, attention: Attention | NoAttention) -> None:
        super().__init__(vocabulary_size, embedding, attention, hidden + attention.context_width)
        self.cell = nn.GRUCell(embedding + attention.context_width, hidden)

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory) -> Decoded:
        if tokens.device.type == "cpu" and self.attention.is_plain:
            return self._forward_at_once(tokens, lengths, state.hidden, memory)
        return self.forward_by_steps(tokens, state, memory)

    def _forward_at_once(self, tokens: Tensor, lengths: Tensor | None, hidden: Tensor, memory: Memory) -> Decoded:
        """The same numbers as `forward_by_steps`, with all but the recurrence itself outside the loop."""
        packing = pack(tokens, lengths)
        cell = self.cell
        gru = GRUWeights(self.embedding.weight, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        if isinstance(self.attention, NoAttention):
            return Decoded(self.output(gru_recurrence(tokens, gru, hidden, packing)[0]), None)
        features, weights = attentive_gru_recurrence(tokens, gru, hidden, packing, self.attention.score, memory)
        return Decoded(self.output(features), weights, packing)  # (N, D + Dv) -> (N, V)

    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        attended = self.attention(state.hidden.unsqueeze(1), memory, state.past, state.position)
        context = attended.context.squeeze(1)  # (B, Dv)
        hidden = self.cell(torch.cat([embedded, context], dim=1), state.hidden)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        state = replace(state, hidden=hidden, past=attended.past, position=state.position + 1)
        return state, torch.cat([hidden, context], dim=1), weights
