"""What every decoder arrangement shares: its state, its results, and decoding one position after another."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.interface import Decoded
from seq2attn.model.resets import Reset


@dataclass(frozen=True)
class DecoderState:
    """All that a decoder knows of the positions before: handed on, never kept on a module."""

    hidden: Tensor
    """(B, D) the GRU's state"""
    past: Tensor | None = None
    """(B, C, S) what the attention's history looks at; None without one"""
    attentional: Tensor | None = None
    """(B, D) the attentional vector that input feeding hands on; None without"""
    position: int = 0
    """output positions done"""


class Decoder(nn.Module):
    """Embedding, a GRU, attention and an output layer; an arrangement says in what order (`advance`)."""

    def __init__(
        self, vocabulary_size: int, embedding: int, attention: Attention | NoAttention, output_width: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.attention = attention
        self.output = nn.Linear(output_width, vocabulary_size)

    def begin(self, hidden: Tensor, memory: Memory) -> DecoderState:
        """The state before the first position: hidden (B, D) from the initial state."""
        return DecoderState(hidden, self.attention.begin(memory))

    @abstractmethod
    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        """One position: embedded (B, E) -> next state, what the output layer reads (B, output_width), weights (B, S)."""

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory) -> Decoded:
        """Teacher forcing: tokens (B, L), right-padded, lengths (B,) real ones (None: all).

        What stands past a row's end means nothing. An arrangement that has a faster way takes it here.
        """
        return self.forward_by_steps(tokens, state, memory)

    def forward_by_steps(
        self, tokens: Tensor, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> Decoded:
        """Teacher forcing as the formulas say it: one position after another."""
        features: list[Tensor] = []
        weights: list[Tensor] = []
        for position, embedded in enumerate(self.embedding(tokens).unbind(1)):  # (B, E) each
            if reset is not None:
                state = replace(state, hidden=reset(state.hidden, position))
            state, feature, weight = self.advance(embedded, state, memory)
            features.append(feature)
            if weight is not None:
                weights.append(weight)
        logits = self.output(torch.stack(features, dim=1))  # (B, L, output_width) -> (B, L, V)
        return Decoded(logits, torch.stack(weights, dim=1) if weights else None)

    def step(self, tokens: Tensor, state: DecoderState, memory: Memory) -> tuple[Decoded, DecoderState]:
        """One position: tokens (B,) -> logits (B, 1, V), weights (B, 1, S), and the next state."""
        state, feature, weight = self.advance(self.embedding(tokens), state, memory)
        logits = self.output(feature).unsqueeze(1)
        return Decoded(logits, None if weight is None else weight.unsqueeze(1)), state
