"""The Reverser: encoder, initial state, decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Memory
from seq2attn.model.decoder import Decoder, DecoderState
from seq2attn.model.encoder import Encoder, InitialState
from seq2attn.model.interface import Decoded, Model, Resets, draw_reset

if TYPE_CHECKING:
    from seq2attn.data.batches import Batch


class Reverser(Model):
    """A recurrent encoder-decoder with attention."""

    def __init__(self, encoder: Encoder, initial_state: InitialState, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.initial_state = initial_state
        self.decoder = decoder

    def encode(self, source: Tensor, lengths: Tensor, resets: Resets | None = None) -> tuple[Memory, DecoderState]:
        encoded = self.encoder(source, lengths, resets)
        valid = valid_mask(lengths, source.size(1))
        memory = self.decoder.attention.prepare(encoded.states, valid, source)
        return memory, self.decoder.begin(self.initial_state(encoded), memory)

    def forward(self, batch: Batch, resets: Resets | None = None) -> Decoded:
        memory, state = self.encode(batch.source, batch.source_lengths, resets)
        reset = None if resets is None else resets.decoder
        decoded: Decoded = self.decoder(batch.decoder_input, state, memory, reset)[0]
        return decoded

    def step(self, tokens: Tensor, state: DecoderState, memory: Memory) -> tuple[Decoded, DecoderState]:
        decoded, state = self.decoder(tokens.unsqueeze(1), state, memory)
        return decoded, state

    def draw_resets(
        self, random: torch.Generator, source: Tensor, decoder_input: Tensor, *, encoder: float, decoder: float
    ) -> Resets:
        """Resets of a batch, source (B, S) and decoder_input (B, L), with these probabilities for each state.

        Nothing is drawn where the probability is 0, nor for a direction that the encoder does not read in.
        """
        backward = encoder if self.encoder.bidirectional else 0.0
        read, written = self.encoder.state_width, self.decoder.recurrent.parts * self.decoder.recurrent.width
        return Resets(
            forward=draw_reset(random, source, read, encoder),
            backward=draw_reset(random, source, read, backward),
            decoder=draw_reset(random, decoder_input, written, decoder),
        )
