"""Decoders: the order of attention and recurrence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.recurrence import attentive_gru_recurrence, gru_recurrence, step_sizes, token_gates


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
        cell, embedding = self.cell, self.embedding.embedding_dim
        token_weight, context_weight = cell.weight_ih[:, :embedding], cell.weight_ih[:, embedding:]
        gates = token_gates(tokens.t(), self.embedding, token_weight, cell.bias_ih, cell.bias_hh)  # (L, B, 3D)
        recurrent = (gates, state, cell.weight_hh, cell.bias_hh[2 * cell.hidden_size :])
        rows, steps = tokens.shape
        sizes = [rows] * steps if lengths is None else step_sizes(lengths, steps)
        if isinstance(self.attention, NoAttention):
            states = gru_recurrence(*recurrent, sizes)  # (L, B, D)
            return Decoded(self.output(states.transpose(0, 1)), None)
        states, weights = attentive_gru_recurrence(
            *recurrent,
            sizes,
            score=self.attention.score,
            keys=memory.keys,
            gate_values=F.linear(memory.values, context_weight),  # (B, S, 3D)
            excluded=_excluded(memory.valid, gates.dtype),
        )
        weights = weights.transpose(0, 1)  # (B, L, S)
        features = torch.cat([states.transpose(0, 1), weights @ memory.values], dim=2)  # (B, L, D + Dv)
        return Decoded(self.output(features), weights)

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


def _excluded(valid: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """True/False -> 0/the lowest number, to be added to scores."""
    if valid is None:
        return None
    return torch.zeros(valid.shape, dtype=dtype, device=valid.device).masked_fill_(~valid, torch.finfo(dtype).min)
