"""The decoder's first state, from what the encoder read. Each maps `Encoded` -> (B, D)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2attn.model.encoder import Encoded, Encoder


class Zeros(nn.Module):
    """s_0 = 0."""

    def __init__(self, encoder: Encoder, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    def forward(self, encoded: Encoded) -> Tensor:
        return encoded.final.new_zeros(len(encoded.final), self.hidden)


class Last(nn.Module):
    """s_0 = the encoder's final state; its width must be the decoder's."""

    def __init__(self, encoder: Encoder, hidden: int) -> None:
        super().__init__()
        if encoder.width != hidden:
            raise ValueError(f"initial state 'last': the encoder is {encoder.width} wide, the decoder {hidden}")

    def forward(self, encoded: Encoded) -> Tensor:
        return encoded.final


class Bridge(nn.Module):
    """s_0 = tanh(W h + b), h the encoder's final state.

    Of a bidirectional encoder, h is the backward state at position 1 (Bahdanau et al. 2015, appendix A.2.2): it has
    read the whole source, last token first.
    """

    def __init__(self, encoder: Encoder, hidden: int) -> None:
        super().__init__()
        self.read = encoder.hidden
        self.map = nn.Linear(encoder.hidden, hidden)

    def forward(self, encoded: Encoded) -> Tensor:
        return torch.tanh(self.map(encoded.final[:, -self.read :]))
