"""`luong`: step, then attend."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from seq2attn.kernels.packing import pack
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.decoder import Decoder, DecoderState
from seq2attn.model.interface import Decoded
from seq2attn.model.recurrence import GRUWeights, gru_recurrence


class LuongDecoder(Decoder):
    """Step, then attend with the new state (Luong et al. 2015, eq. 5 and 6).

    s_t = GRU(emb(y_{t-1}), s_{t-1});  c_t = attention(s_t);  a_t = tanh(W_c [c_t; s_t]);  logits = W_o a_t + b

    input_feeding: the GRU also reads the previous attentional vector, [emb(y_{t-1}); a_{t-1}], zeros at first (section 3.3).
        Without it no state depends on what was attended to, so that teacher forcing runs the GRU over all positions first,
        and attends with all its states at once.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        hidden: int,
        attention: Attention | NoAttention,
        *,
        input_feeding: bool = False,
    ) -> None:
        super().__init__(vocabulary_size, embedding, attention, hidden)
        self.input_feeding = input_feeding
        self.gru = nn.GRU(embedding + hidden * input_feeding, hidden, batch_first=True)
        self.combine = nn.Linear(attention.context_width + hidden, hidden, bias=False)  # W_c

    def begin(self, hidden: Tensor, memory: Memory) -> DecoderState:
        state = super().begin(hidden, memory)
        return replace(state, attentional=torch.zeros_like(hidden)) if self.input_feeding else state

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory) -> Decoded:
        if self.input_feeding:
            return self.forward_by_steps(tokens, state, memory)
        states = self._states(tokens, lengths, state.hidden)  # (B, L, D)
        if state.past is None:
            attended = self.attention(states, memory, None, state.position)
            return Decoded(self.output(self._combine(attended.context, states)), attended.weights)
        contexts, weights, past = [], [], state.past
        for index, query in enumerate(states.unbind(1)):  # (B, D) each
            attended = self.attention(query.unsqueeze(1), memory, past, state.position + index)
            past = attended.past
            contexts.append(attended.context)
            weights.append(attended.weights)
        return Decoded(self.output(self._combine(torch.cat(contexts, dim=1), states)), torch.cat(weights, dim=1))

    def _states(self, tokens: Tensor, lengths: Tensor | None, hidden: Tensor) -> Tensor:
        """The GRU over all positions: tokens (B, L), hidden (B, D) -> (B, L, D)."""
        if tokens.device.type != "cpu":
            states: Tensor = self.gru(self.embedding(tokens), hidden.unsqueeze(0))[0]
            return states
        packing = pack(tokens, lengths)
        return gru_recurrence(tokens, GRUWeights.of(self.embedding, self.gru), hidden, packing)[0]

    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        given = embedded if state.attentional is None else torch.cat([embedded, state.attentional], dim=1)
        query, hidden = self.gru(given.unsqueeze(1), state.hidden.unsqueeze(0))  # (B, 1, D), (1, B, D)
        attended = self.attention(query, memory, state.past, state.position)
        vector = self._combine(attended.context, query).squeeze(1)  # (B, D)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        fed = vector if self.input_feeding else None
        return DecoderState(hidden.squeeze(0), attended.past, fed, state.position + 1), vector, weights

    def _combine(self, context: Tensor, states: Tensor) -> Tensor:
        """The attentional vectors of contexts (B, L, Dv) and states (B, L, D): (B, L, D)."""
        return torch.tanh(self.combine(torch.cat([context, states], dim=2)))
