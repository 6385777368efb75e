"""Decoders: the order of attention and recurrence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.packing import pack_all, pack_lengths
from seq2attn.model.recurrence import attentive_gru_recurrence, gru_recurrence, token_gates


@dataclass(frozen=True)
class Decoded:
    """What a decoder says at L output positions."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""


class BahdanauDecoder(nn.Module):
    """Attend with the previous state, then step (Bahdanau et al. 2015).

    c_t = attention(s_{t-1});  s_t = GRU([emb(y_{t-1}); c_t], s_{t-1});  logits = W_o [s_t; c_t] + b
    """

    def __init__(self, vocabulary_size: int, embedding: int, hidden: int, attention: Attention | NoAttention) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.attention = attention
        self.cell = nn.GRUCell(embedding + attention.context_width, hidden)
        self.output = nn.Linear(hidden + attention.context_width, vocabulary_size)

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: Tensor, memory: Memory) -> Decoded:
        """Teacher forcing: tokens (B, L), right-padded, lengths (B,) real ones (None: all), first state (B, D).

        What stands past a row's end means nothing.
        """
        if tokens.device.type == "cpu":
            return self._forward_at_once(tokens, lengths, state, memory)
        return self.forward_by_steps(tokens, state, memory)

    def _forward_at_once(self, tokens: Tensor, lengths: Tensor | None, state: Tensor, memory: Memory) -> Decoded:
        """The same numbers as `forward_by_steps`, with all but the recurrence itself outside the loop."""
        rows, steps = tokens.shape
        packing = pack_all(rows, steps, tokens.device) if lengths is None else pack_lengths(lengths, steps)
        cell, embedding = self.cell, self.embedding.embedding_dim
        token_weight, context_weight = cell.weight_ih[:, :embedding], cell.weight_ih[:, embedding:]
        gates = token_gates(packing.pack(tokens), self.embedding, token_weight, cell.bias_ih, cell.bias_hh)  # (N, 3D)
        recurrent = (gates, state, cell.weight_hh, cell.bias_hh[2 * cell.hidden_size :], packing)
        if isinstance(self.attention, NoAttention):
            return Decoded(packing.unpack(self.output(gru_recurrence(*recurrent))), None)
        states, contexts, weights = attentive_gru_recurrence(
            *recurrent, context_weight=context_weight, score=self.attention.score, memory=memory
        )
        logits = self.output(torch.cat([states, contexts], dim=1))  # (N, D + Dv) -> (N, V)
        return Decoded(packing.unpack(logits), packing.unpack(weights))

    def forward_by_steps(self, tokens: Tensor, state: Tensor, memory: Memory) -> Decoded:
        """Teacher forcing as the formulas say it: one step after another."""
        features: list[Tensor] = []
        weights: list[Tensor] = []
        for embedded in self.embedding(tokens).unbind(1):  # (B, E) each
            state, feature, weight = self._advance(embedded, state, memory)
            features.append(feature)
            if weight is not None:
                weights.append(weight)
        logits = self.output(torch.stack(features, dim=1))  # (B, L, D + Dv) -> (B, L, V)
        return Decoded(logits, torch.stack(weights, dim=1) if weights else None)

    def step(self, tokens: Tensor, state: Tensor, memory: Memory) -> tuple[Decoded, Tensor]:
        """One position: tokens (B,), state (B, D) -> logits (B, 1, V), weights (B, 1, S), and the next state."""
        state, feature, weight = self._advance(self.embedding(tokens), state, memory)
        logits = self.output(feature).unsqueeze(1)
        return Decoded(logits, None if weight is None else weight.unsqueeze(1)), state

    def _advance(self, embedded: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
        """embedded (B, E), state (B, D) -> next state (B, D), [s_t; c_t] (B, D + Dv), weights (B, S)."""
        attended = self.attention(state.unsqueeze(1), memory)
        context = attended.context.squeeze(1)  # (B, Dv)
        state = self.cell(torch.cat([embedded, context], dim=1), state)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        return state, torch.cat([state, context], dim=1), weights
