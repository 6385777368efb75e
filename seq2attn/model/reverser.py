"""The Reverser: encoder, first state, decoder."""

from __future__ import annotations

from torch import Tensor, nn

from seq2attn.masks import valid_mask
from seq2attn.model.attention import Memory
from seq2attn.model.decoder import BahdanauDecoder, Decoded
from seq2attn.model.encoder import Encoder


class Reverser(nn.Module):
    """A GRU encoder-decoder with attention. Every result is the same whatever the batch's padding (unless its attention
    was told not to mask padding).
    """

    def __init__(self, encoder: Encoder, initial_state: nn.Module, decoder: BahdanauDecoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.initial_state = initial_state
        self.decoder = decoder

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, Tensor]:
        """source (B, S), right-padded, lengths (B,) -> what the decoder attends to, and its first state (B, D)."""
        encoded = self.encoder(source, lengths)
        valid = valid_mask(lengths, source.size(1))
        return self.decoder.attention.prepare(encoded.states, valid), self.initial_state(encoded)

    def forward(
        self, source: Tensor, lengths: Tensor, decoder_input: Tensor, decoder_lengths: Tensor | None = None
    ) -> Decoded:
        """Teacher forcing: source (B, S), lengths (B,), decoder_input (B, L), decoder_lengths (B,), by default all L.

        Returns logits (B, L, V) and weights (B, L, S); past a row's end they mean nothing. Batches whose rows come longest
        first are computed fastest: rows that have ended take no part.
        """
        memory, state = self.encode(source, lengths)
        decoded: Decoded = self.decoder(decoder_input, decoder_lengths, state, memory)
        return decoded

    def step(self, tokens: Tensor, state: Tensor, memory: Memory) -> tuple[Decoded, Tensor]:
        """One output position: the last tokens (B,) -> logits (B, 1, V), weights (B, 1, S), and the next state."""
        return self.decoder.step(tokens, state, memory)
