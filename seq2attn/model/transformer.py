"""`architecture: transformer`: a Transformer encoder-decoder (Vaswani et al. 2017).

Attention is used three times: the encoder's positions attend to each other, the decoder's to those
before them, and the decoder's to the encoder's: cross-attention, whose weights an answer shows.
The layers are PyTorch's own, with the normalisation before each sublayer (Xiong et al. 2020), which
trains without a long warm-up.

Shapes: B strings of a batch, S source positions, padding included, L output positions, V symbols of
the target, H heads, D = model width, d = D / H.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import valid_mask
from seq2attn.model.attention import AttentionPoints
from seq2attn.model.interface import Decoded, Model, at_least_float32
from seq2attn.model.normalisers import masked_softmax
from seq2attn.model.points import Point, set_position

KeysAndValues = tuple[Tensor, Tensor]
"""(B, S, D) each, of one attention"""


class TransformerMemory(NamedTuple):
    """The encoded source."""

    layers: tuple[KeysAndValues, ...]
    """(B, S, D) of each decoder layer's cross-attention"""
    valid: Tensor
    """(B, 1, S) True = real token"""


TransformerState = tuple[KeysAndValues, ...]
"""(B, positions so far, D) of each decoder layer's self-attention"""


class Transformer(Model):
    """Embeddings with sinusoidal positions, encoder layers, decoder layers, an output layer.

    layers: of the encoder, and of the decoder. feedforward: width of the hidden layer in each.
    dropout: a probability, in training; it draws from torch's default generator, which the training
        loop seeds at each step.
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
        """Make PyTorch's layers, and the points of cross-attention, where hooks get its values.

        source_size, target_size: of the vocabularies; width: D.
        """
        super().__init__()
        self.width = width
        self.heads = heads
        self.source_embedding = nn.Embedding(source_size, width)
        self.target_embedding = nn.Embedding(target_size, width)
        # `_embed` multiplies them by sqrt(D), which makes their variance 1, and adds the positions,
        # whose variance is about 1/2
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=width**-0.5)

        sizes = (width, heads, feedforward, dropout)
        options: Any = {"batch_first": True, "norm_first": True}
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, **options) for _ in range(layers)
        )
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder: Any = nn.ModuleList(
            nn.TransformerDecoderLayer(*sizes, **options) for _ in range(layers)
        )
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, target_size)

        self.encoder_states = Point("encoder.states", "source", "width")
        self.attention: Any = nn.ModuleList(AttentionPoints("layer", "head") for _ in range(layers))
        """hook points of each decoder layer's cross-attention"""
        self.logits = Point("logits", "step", "symbol")

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[TransformerMemory, TransformerState]:
        """Encode source (B, S) ids, right-padded; lengths: (B,) real tokens. Returns keys and
        values of the source for each decoder layer, and the first state: keys and values of output
        positions, of which there are none yet.
        """
        set_position(0)
        valid = valid_mask(lengths, source.size(1))  # (B, S)
        states = self._embed(self.source_embedding, source, 0)  # (B, S, D)
        # True = padding, (B H, S, S) for each row, head and query. A mask (B, S) would do, but with
        # one torch imports its compiler, which takes time.
        masked = ~valid[:, None, None].expand(-1, self.heads, source.size(1), -1).flatten(0, 1)
        for layer in self.encoder:
            states = layer(states, src_mask=masked)
        states = self.encoder_states(self.encoder_norm(states))

        layers = []  # what each decoder layer attends to
        for layer, points in zip(self.decoder, self.attention, strict=True):
            keys, values = project(layer.multihead_attn, states)
            layers.append((points.keys(keys), values))
        empty = tuple((keys[:, :0], values[:, :0]) for keys, values in layers)  # no position yet
        return TransformerMemory(tuple(layers), valid.unsqueeze(1)), empty

    def steps(
        self, tokens: Tensor, state: TransformerState, memory: TransformerMemory
    ) -> tuple[Decoded, TransformerState]:
        """Decode L positions, which follow those of `state`.

        tokens (B, L): for each position the token before it, `<sos>` for the first of a string.
        state: for each layer, keys and values of the positions so far, (B, positions, D) each.
        memory: for each layer, keys and values of the source, (B, S, D) each.

        Returns logits (B, L, V), weights (B, L, S) of the last layer's cross-attention, averaged
        over its heads, and the state after these positions.
        """
        first = state[0][0].size(1)  # positions so far
        set_position(first)
        positions = torch.arange(first + tokens.size(1), device=tokens.device)
        new_positions = positions[first:].unsqueeze(1)  # (L, 1)
        not_future = positions <= new_positions  # (L, first + L)
        states = self._embed(self.target_embedding, tokens, first)  # (B, L, D)

        after = []
        inputs = zip(self.decoder, self.attention, state, memory.layers, strict=True)
        # points: where hooks get the values of a layer's cross-attention
        for layer, points, (past_keys, past_values), of_source in inputs:
            # self-attention, to the positions so far
            normed = layer.norm1(states)
            keys, values = project(layer.self_attn, normed)  # (B, L, D)
            keys = torch.cat([past_keys, keys], dim=1)  # (B, first + L, D)
            values = torch.cat([past_values, values], dim=1)
            after.append((keys, values))
            context, _ = attend(layer.self_attn, normed, (keys, values), not_future.unsqueeze(0))
            states = states + layer.dropout1(context)

            # cross-attention, to the source
            normed = layer.norm2(states)
            context, weights = attend(layer.multihead_attn, normed, of_source, memory.valid, points)
            states = states + layer.dropout2(context)

            # feed-forward
            normed = layer.norm3(states)
            inner = layer.dropout(F.relu(layer.linear1(normed)))  # (B, L, feedforward)
            states = states + layer.dropout3(layer.linear2(inner))

        logits = self.output(self.decoder_norm(states))  # (B, L, D) -> (B, L, V)
        logits = self.logits(at_least_float32(logits))
        mean = weights.mean(dim=1)  # those of the last layer: (B, H, L, S) -> (B, L, S)
        return Decoded(logits, at_least_float32(mean)), tuple(after)

    def _embed(self, embedding: nn.Embedding, tokens: Tensor, first: int) -> Tensor:
        """Embed tokens (B, L) at positions first, first + 1, ...: (B, L, D).

        Embeddings are multiplied by sqrt(D), as in Vaswani et al. 2017, section 3.4.
        """
        positions = sinusoids(first, tokens.size(1), self.width)
        # of the embeddings' dtype and device; without waiting for a GPU
        positions = positions.to(embedding.weight, non_blocking=True)
        return embedding(tokens) * math.sqrt(self.width) + positions


def sinusoids(first: int, count: int, width: int) -> Tensor:
    """Compute the encodings of positions first, ..., first + count - 1, (count, width) in float64:
    sines and cosines in turn (Vaswani et al. 2017, section 3.5).
    """
    positions = torch.arange(first, first + count, dtype=torch.float64).unsqueeze(1)  # (count, 1)
    columns = torch.arange(width, dtype=torch.float64)  # (width,)
    # (count, width); a sine and the cosine after it have the same angle
    angles = positions / 10_000 ** ((columns - columns % 2) / width)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


def project(attention: nn.MultiheadAttention, states: Tensor) -> KeysAndValues:
    """Project states (B, S, D) to keys and values, (B, S, D) each.

    nn.MultiheadAttention stacks its three matrices: rows for queries, keys and values.
    """
    width = attention.embed_dim
    weight = attention.in_proj_weight[width:]  # (2D, D)
    bias = attention.in_proj_bias[width:]
    keys, values = F.linear(states, weight, bias).chunk(2, dim=2)
    return keys, values


UNHOOKED = AttentionPoints("layer", "head")
"""the points of self-attention, which belong to no model"""


def attend(
    attention: nn.MultiheadAttention,
    query: Tensor,
    projected: KeysAndValues,
    valid: Tensor,
    points: AttentionPoints = UNHOOKED,
) -> tuple[Tensor, Tensor]:
    """Compute what `attention` does, but for keys and values that are projected already.

    Calling the module itself would project them again at every step of decoding, and it has no
    points for hooks.

    query (B, L, D), not projected yet; projected: keys and values, (B, S, D) each; valid: True =
    may be attended to, (B, 1, S) or (1, L, S). Returns contexts (B, L, D), after the module's
    output projection, and the weights of each head (B, H, L, S).
    """
    width = attention.embed_dim
    weight = attention.in_proj_weight[:width]  # (D, D)
    bias = attention.in_proj_bias[:width]
    queries = F.linear(query, weight, bias)  # (B, L, D)
    queries = points.query(_heads(attention, queries))  # (B, H, L, d)
    keys = _heads(attention, projected[0])  # (B, H, S, d)
    values = _heads(attention, projected[1])

    valid = points.valid(valid).expand(-1, query.size(1), -1)  # (B, L, S)
    scores = points.scores(queries @ keys.mT / math.sqrt(keys.size(3)))  # (B, H, L, S)
    allowed = points.allowed(valid.unsqueeze(1).expand_as(scores))
    logits = points.logits(scores)
    normalised = points.normalised(masked_softmax(logits, allowed))
    weights = points.weights(normalised)

    # for the average alone: the weights are returned without dropout
    dropped = F.dropout(weights, attention.dropout, attention.training)
    mixed = dropped @ values  # (B, H, L, S) x (B, H, S, d) -> (B, H, L, d)
    joined = mixed.transpose(1, 2).flatten(2)  # (B, L, D)
    context = points.context(attention.out_proj(joined))
    return context, weights


def _heads(attention: nn.MultiheadAttention, states: Tensor) -> Tensor:
    """Split (B, n, D) into heads: (B, H, n, d)."""
    split = states.view(*states.shape[:2], attention.num_heads, -1)  # (B, n, H, d)
    return split.transpose(1, 2)
