"""What every architecture is to the rest of the project: read a source, then say one output position after another."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from seq2attn.kernels.packing import Packing


@dataclass(frozen=True)
class Decoded:
    """What a model says at L output positions."""

    scored: Tensor
    """(N, V) logits of the positions that `packing` names; without one (B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""
    packing: Packing | None = None

    @cached_property
    def logits(self) -> Tensor:
        """(B, L, V)"""
        return self.scored if self.packing is None else self.packing.unpack(self.scored)


class Model(nn.Module):
    """An encoder-decoder. Every result is the same whatever the batch's padding (unless its attention was told not to mask
    padding).

    What `encode` returns is the model's own affair: nobody else looks inside memory and state.
    """

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        """source (B, S), right-padded, lengths (B,) -> memory, what the decoder attends to, and state, its first one."""

    @abstractmethod
    def forward(
        self, source: Tensor, lengths: Tensor, decoder_input: Tensor, decoder_lengths: Tensor | None = None
    ) -> Decoded:
        """Teacher forcing: source (B, S), lengths (B,), decoder_input (B, L), decoder_lengths (B,), by default all L.

        Returns logits (B, L, V) and weights (B, L, S); past a row's end they mean nothing.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """One output position: the last tokens (B,) -> logits (B, 1, V), weights (B, 1, S), and the next state."""
