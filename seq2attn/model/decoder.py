"""What every decoder arrangement shares: its state, its results, and decoding one position after another."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn import kernels
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.cells import Cell, Cells, State
from seq2attn.model.interface import Decoded
from seq2attn.model.resets import Reset
from seq2attn.parts import DECODERS


class DecoderState(NamedTuple):
    """The state between two positions; passed explicitly, never stored on a module."""

    cell: State
    """the recurrent cell's, (B, D) each"""
    position: Tensor
    """() number of output positions so far"""
    past: Tensor | None = None
    """(B, C, S) input of the attention's history; None without a history"""
    attentional: Tensor | None = None
    """(B, D) the attentional vector for input feeding; None without it"""


class Decoder(nn.Module):
    """Embedding, recurrent layers, attention and an output layer; an arrangement defines their order (`advance`).

    Every arrangement is made the same way, `Decoder(vocabulary_size, embedding, attention, cells, **options)`. It makes its
    recurrent layers under the name that checkpoints use; `recurrent` returns them.
    """

    registry: ClassVar = DECODERS
    needs_attention: ClassVar[bool] = False
    """whether it works only with attention; configs with `score: none` are then refused"""
    needs_one_vocabulary: ClassVar[bool] = False
    """whether it works only where source and target have the same symbols, as for copying ids of the source"""

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attention | NoAttention,
        cells: Cells,
        *,
        output_width: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.attention = attention
        self.output = nn.Linear(output_width, vocabulary_size)
        self.dropout = nn.Dropout(cells.dropout)

    @property
    @abstractmethod
    def recurrent(self) -> Cell:
        """The recurrent layers."""

    @property
    def _combination(self) -> nn.Linear | None:
        """W_c of decoders that step, then attend, as `luong` does."""
        return None

    @abstractmethod
    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        """One position: embedded (B, E) -> next state, features for the output layer (B, output_width), weights (B, S)."""

    def begin(self, first: State, memory: Memory) -> DecoderState:
        """The state before the first position, from the cell's first state."""
        position = torch.zeros((), dtype=torch.int64, device=memory.keys.device)
        return DecoderState(first, position, self.attention.begin(memory))

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory) -> Decoded:
        """Teacher forcing: tokens (B, L), right-padded, lengths (B,) real ones (None: all).

        Past a row's end the result is undefined.
        """
        return self.forward_in_order(tokens, lengths, state, memory)

    def forward_in_order(
        self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> Decoded:
        """Teacher forcing, in order of positions: by `kernels.recurrence` or, where it cannot, by `advance`."""
        compiled = self._compiled(tokens, lengths, state, memory, reset)
        return self.forward_by_steps(tokens, state, memory, reset) if compiled is None else compiled

    def _compiled(
        self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> Decoded | None:
        fast = kernels.recurrence(
            self,
            tokens,
            lengths,
            self.recurrent,
            state.cell,
            self.attention,
            memory,
            past=state.past,
            combine=self._combination,
            fed=state.attentional,
            reset=reset,
        )
        return None if fast is None else self.decode(*fast, memory)

    def forward_by_steps(
        self, tokens: Tensor, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> Decoded:
        """Teacher forcing, one position after another, by `advance`."""
        features: list[Tensor] = []
        weights: list[Tensor] = []
        for position, embedded in enumerate(self.embed(tokens).unbind(1)):  # (B, E) each
            if reset is not None:
                state = state._replace(cell=reset(state.cell, position))
            state, feature, weight = self.advance(embedded, state, memory)
            features.append(feature)
            if weight is not None:
                weights.append(weight)
        all_weights = torch.stack(weights, dim=1) if weights else None  # (B, L, S)
        return self.decode(torch.stack(features, dim=1), all_weights, memory)

    def step(self, tokens: Tensor, state: DecoderState, memory: Memory) -> tuple[Decoded, DecoderState]:
        """One position: tokens (B,) -> logits (B, 1, V), weights (B, 1, S), and the next state."""
        state, feature, weight = self.advance(self.embed(tokens), state, memory)
        return self.decode(feature.unsqueeze(1), None if weight is None else weight.unsqueeze(1), memory), state

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (...) -> (..., E)"""
        embedded: Tensor = self.dropout(self.embedding(tokens))
        return embedded

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        """features (B, L, output_width), weights (B, L, S) -> logits (B, L, V): where a pointer would mix in the source."""
        return Decoded(self.output(self.dropout(features)), weights)
