"""`architecture: transformer`: the same tasks on a Transformer encoder-decoder (Vaswani et al. 2017).

Attention is used three times: the encoder's positions attend to each other, the decoder's to those before them, and the
decoder's to the encoder's (cross-attention, whose weights are those shown). The layers are PyTorch's own, with the
normalisation before each sublayer (Xiong et al. 2020), which trains without a long warm-up.

Shapes besides B, S, L, V: H heads, D = model width, d = D / H.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Attended
from seq2attn.model.interface import Decoded, Intervention, Model, Resets
from seq2attn.model.normalisers import masked_softmax


class TransformerMemory(NamedTuple):
    """The encoded source."""

    layers: tuple[Tensor, ...]
    """(B, S, 2D) keys beside values of each decoder layer's cross-attention"""
    valid: Tensor
    """(B, 1, 1, S) True = real token"""
    intervention: Intervention | None = None
    """what a person changes at the next position; None: nothing"""


TransformerState = tuple[Tensor, ...]
"""the output so far: (B, positions so far, 2D) keys beside values of each decoder layer's self-attention"""


class Transformer(Model):
    """Embeddings with sinusoidal positions, encoder layers, decoder layers, an output layer.

    dropout draws from torch's default generator; the training loop seeds it at each step.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        width: int,
        *,
        layers: int,
        heads: int,
        feedforward: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.source_embedding = nn.Embedding(source_size, width)
        self.target_embedding = nn.Embedding(target_size, width)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=width**-0.5)  # x sqrt(D): variance 1, as the positions' is about 1/2
        sizes = (width, heads, feedforward, dropout)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, target_size)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[TransformerMemory, TransformerState]:
        valid = valid_mask(lengths, source.size(1))  # (B, S)
        states = self._embed(self.source_embedding, source, 0)  # (B, S, D)
        for layer in self.encoder:
            states = layer(states, src_key_padding_mask=~valid)
        states = self.encoder_norm(states)
        layers = tuple(project(layer.multihead_attn, states) for layer in self._decoder_layers())
        return TransformerMemory(layers, valid[:, None, None]), tuple(one[:, :0] for one in layers)

    def forward(self, batch: Batch, resets: Resets | None = None) -> Decoded:
        memory, state = self.encode(batch.source, batch.source_lengths)
        return self.decode_attended(batch.decoder_input, state, memory)[0]

    def step(
        self, tokens: Tensor, state: TransformerState, memory: TransformerMemory
    ) -> tuple[Decoded, TransformerState]:
        decoded, _, state = self.decode_attended(tokens.unsqueeze(1), state, memory)
        return decoded, state

    def decode_attended(
        self, tokens: Tensor, state: TransformerState, memory: TransformerMemory
    ) -> tuple[Decoded, Attended, TransformerState]:
        """tokens (B, L) that follow those of `state` -> logits (B, L, V), weights (B, L, S), and the state after them.

        Between them the cross-attention of the last layer, whose weights and scores are (B, H, L, S).
        """
        first = state[0].size(1)
        positions = torch.arange(first + tokens.size(1), device=tokens.device)
        earlier = positions <= positions[first:].unsqueeze(1)  # (L, first + L) True = not in the future
        states = self._embed(self.target_embedding, tokens, first)  # (B, L, D)
        kept = []
        for layer, past, source in zip(self._decoder_layers(), state, memory.layers, strict=True):
            normed = layer.norm1(states)
            kept.append(torch.cat([past, project(layer.self_attn, normed)], dim=1))  # (B, first + L, 2D)
            states = states + layer.dropout1(attend(layer.self_attn, normed, kept[-1], earlier).context)
            normed = layer.norm2(states)
            attended = attend(layer.multihead_attn, normed, source, memory.valid, memory.intervention)
            states = states + layer.dropout2(attended.context)
            inner = layer.dropout(F.relu(layer.linear1(layer.norm3(states))))  # (B, L, feedforward)
            states = states + layer.dropout3(layer.linear2(inner))
        logits = self.output(self.decoder_norm(states))  # (B, L, D) -> (B, L, V)
        assert attended.weights is not None
        decoded = Decoded(logits, attended.weights.mean(dim=1))  # of the last layer, averaged over its heads
        return decoded, attended, tuple(kept)

    def _decoder_layers(self) -> list[nn.TransformerDecoderLayer]:
        return cast(list[nn.TransformerDecoderLayer], list(self.decoder))

    def _embed(self, embedding: nn.Embedding, tokens: Tensor, first: int) -> Tensor:
        """tokens (B, L) at positions first, first + 1, ... -> (B, L, D)"""
        positions = sinusoids(first, tokens.size(1), self.width).to(embedding.weight)
        return embedding(tokens) * math.sqrt(self.width) + positions


def sinusoids(first: int, count: int, width: int) -> Tensor:
    """Positions first, ..., first + count - 1 as sines and cosines, (count, width) (Vaswani et al. 2017, section 3.5)."""
    positions = torch.arange(first, first + count, dtype=torch.float64).unsqueeze(1)
    places = torch.arange(width, dtype=torch.float64)
    angles = positions / 10_000 ** ((places - places % 2) / width)
    return torch.where(places % 2 == 0, angles.sin(), angles.cos())


def project(attention: nn.MultiheadAttention, states: Tensor) -> Tensor:
    """Keys beside values of states: (B, S, D) -> (B, S, 2D)."""
    width = attention.embed_dim
    return F.linear(states, attention.in_proj_weight[width:], attention.in_proj_bias[width:])


def attend(
    attention: nn.MultiheadAttention,
    query: Tensor,
    projected: Tensor,
    allowed: Tensor,
    change: Intervention | None = None,
) -> Attended:
    """The same as `attention` itself, for keys and values that are already projected, (B, S, 2D).

    query (B, L, D); allowed broadcasts to (B, H, L, S);
    change: applied in every head. Returns contexts (B, L, D), and weights and scores of each head (B, H, L, S).
    """
    width = attention.embed_dim
    mapped = F.linear(query, attention.in_proj_weight[:width], attention.in_proj_bias[:width])
    parts = (mapped, *projected.chunk(2, dim=2))  # (B, L, D), (B, S, D), (B, S, D)
    queries, keys, values = (part.view(*part.shape[:2], attention.num_heads, -1).transpose(1, 2) for part in parts)
    logits = scores = queries @ keys.mT / math.sqrt(keys.size(3))  # (B, H, L, S)
    if change is not None:
        change = change.for_heads()
        logits, allowed = scores / change.temperature, change.allowed(allowed)
    softmax = weights = masked_softmax(logits, allowed)
    if change is not None:
        weights = change.set_weights(weights)
    mixed = F.dropout(weights, attention.dropout, attention.training) @ values
    mixed = mixed.transpose(1, 2).flatten(2)  # (B, H, L, d) -> (B, L, D)
    return Attended(attention.out_proj(mixed), weights, scores, softmax=softmax, query=queries)
