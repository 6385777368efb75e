"""The decoder's initial state, computed from the encoder's output. Each is constructed as `InitialState(encoder, cell)`."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from seq2attn.model.cells import Cell, State
from seq2attn.model.encoder import Encoded, Encoder
from seq2attn.parts import INITIAL_STATES


class InitialState(nn.Module):
    """Maps `Encoded` to the first state of the decoder's `cell`, `cell.parts` tensors (B, D)."""

    registry: ClassVar = INITIAL_STATES

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__()
        self.parts = cell.parts
        self.width = cell.width

    @abstractmethod
    def forward(self, encoded: Encoded) -> State: ...


class Zeros(InitialState):
    """s_0 = 0."""

    def forward(self, encoded: Encoded) -> State:
        rows = encoded.states.size(0)
        return tuple(encoded.states.new_zeros(rows, self.width) for _ in range(self.parts))


class Last(InitialState):
    """s_0 = the encoder's final state, layer by layer; the widths must be equal."""

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__(encoder, cell)
        if encoder.width != cell.width:
            raise ValueError(f"initial state 'last': the encoder is {encoder.width} wide, the decoder {cell.width}")

    def forward(self, encoded: Encoded) -> State:
        return encoded.final


class Bridge(InitialState):
    """s_0 = tanh(W h + b), h the top layer's final hidden state; one W for all tensors of s_0 together.

    With a bidirectional encoder, h is the backward state at position 1 (Bahdanau et al. 2015, appendix A.2.2): it has
    read the whole source, last token first.
    """

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__(encoder, cell)
        self.top = -encoder.top.parts
        self.map = nn.Linear(encoder.top.width, cell.parts * cell.width)

    def forward(self, encoded: Encoded) -> State:
        mapped: Tensor = torch.tanh(self.map(encoded.final[self.top]))  # (B, parts * D)
        return mapped.chunk(self.parts, dim=1)
