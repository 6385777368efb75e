"""Decoders: the order of attention and recurrence, one output position after another. And the
whole: the `Reverser`.

Shapes: B strings of a batch, S source positions, L output positions, V symbols of the target, E the
width of an embedding, D of a hidden state, Dv of a context.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import valid_mask
from seq2attn.data.vocabulary import UNK
from seq2attn.model.attention import Attends, Memory
from seq2attn.model.cells import Cell, Cells, State
from seq2attn.model.encoder import Encoded, Encoder, InitialState
from seq2attn.model.interface import Decoded, Model, at_least_float32
from seq2attn.model.points import Point, set_position
from seq2attn.parts import DECODERS


class DecoderState(NamedTuple):
    """The state between two positions; passed explicitly, never stored on a module."""

    cell: State
    """the recurrent cell's, (B, D) each"""
    position: int | Tensor = 0
    """number of output positions so far; a tensor () in exported graphs"""
    past: Tensor | None = None
    """(B, C, S) input of the attention's history; None without a history"""
    attentional: Tensor | None = None
    """(B, D) the attentional vector for input feeding; None without it"""
    joint: Tensor | None = None
    """(B, S, V) of `hard_monotonic`: log P(a_t = j, y_t = v | y_<t), at `<pad>` log P(a_t = j |
    y_<t)"""


Step = tuple[DecoderState, Tensor, Tensor | None]
"""L positions: the state after them, features for the output layer (B, L, output_width), weights
(B, L, S), None without attention"""


class Decoder(nn.Module):
    """Embedding, recurrent layers, attention and an output layer; an arrangement defines their
    order (`advance`).

    Every arrangement is constructed as `Decoder(vocabulary_size, embedding, attention, cells,
    **options)`.
    """

    registry = DECODERS
    needs_attention = False
    """True if it works only with attention; configs with `score: none` are then refused"""
    needs_one_vocabulary = False
    """True if it works only where source and target have the same symbols, as for copying ids of
    the source"""
    copies = False
    """True if it may copy a symbol of the source that its vocabulary lacks"""
    cell: Cell
    """the recurrent layers, which each arrangement makes"""

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attends,
        cells: Cells,
        *,
        output_width: int,
    ) -> None:
        """Make what every arrangement has; output_width: that of the features that `advance`
        returns, from which the output layer computes logits.
        """
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.attention = attention
        self.output = nn.Linear(output_width, vocabulary_size)
        self.dropout = nn.Dropout(cells.dropout)

    @abstractmethod
    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        """Compute one position from embedded (B, 1, E), or several if `at_once` allows it: (B, L,
        E).

        Returns the state after them, features for the output layer (B, L, output_width) and weights
        (B, L, S), None without attention.
        """

    def at_once(self, state: DecoderState) -> bool:
        """Return whether `advance` may be given several positions in one call. The default: no."""
        return False

    def begin(self, first: State, memory: Memory) -> DecoderState:
        """Return the state before the first position, from the cell's first state."""
        return DecoderState(first, past=self.attention.begin(memory))

    def forward(
        self, tokens: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Decoded, DecoderState]:
        """Decode L positions: logits (B, L, V), weights (B, L, S), and the state after them.

        tokens (B, L): for each position the token before it, `<sos>` for the first of a string.
        """
        embedded = self.embed(tokens)  # (B, L, E)
        # all positions together, or one after another, (B, 1, E) each
        parts = [embedded] if self.at_once(state) else torch.split(embedded, 1, dim=1)
        features = []
        weights: list[Any] = []
        for part in parts:
            set_position(state.position)  # hooks are told at which output position they run
            state = state._replace(cell=self.cell.enter(state.cell))  # which hooks may replace
            state, part_features, part_weights = self.advance(part, state, memory)
            features.append(part_features)
            weights.append(part_weights)
        # (B, L, S); None without attention
        all_weights = None if weights[0] is None else torch.cat(weights, dim=1)
        return self.decode(torch.cat(features, dim=1), all_weights, memory), state

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens (...), with dropout: (..., E)."""
        return self.dropout(self.embedding(tokens))

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        """Compute logits (B, L, V) from features (B, L, output_width). Weights (B, L, S) and memory
        are for decoders that copy from the source, such as `pointer`.
        """
        return Decoded(self.output(self.dropout(features)), weights)

    def has_copyable(self, memory: Memory) -> Tensor:
        """Return which sources have a symbol that the target's vocabulary lacks, and that an output
        `<unk>` may copy: bool (B, 1, 1), or () for all alike. The default: () `copies`.
        """
        return torch.tensor(self.copies)


class BahdanauDecoder(Decoder):
    """`bahdanau`: attend with the previous state, then step (Bahdanau et al. 2015).

    c_t = attention(s_{t-1});  s_t = cell([emb(y_{t-1}); c_t], s_{t-1})
    logits = W_o [s_t; c_t] + b
    """

    def __init__(
        self, vocabulary_size: int, embedding: int, attention: Attends, cells: Cells
    ) -> None:
        width = cells.width + attention.context_width
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=width)
        self.cell = cells.stack(embedding + attention.context_width)

    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        """Compute one position from embedded (B, 1, E): the state after it, features (B, 1, D + Dv)
        for the output layer, and weights (B, 1, S), None without attention.
        """
        query = self.cell.output(state.cell).unsqueeze(1)  # (B, 1, D) s_{t-1}
        attended = self.attention(query, memory, state.past, state.position)
        inputs = torch.cat([embedded, attended.context], dim=2)  # (B, 1, E + Dv)
        output, cell = self.cell(inputs, state.cell)  # (B, 1, D)
        features = torch.cat([output, attended.context], dim=2)  # (B, 1, D + Dv)
        return DecoderState(cell, state.position + 1, attended.past), features, attended.weights


class LuongDecoder(Decoder):
    """`luong`: step, then attend with the new state (Luong et al. 2015, eq. 5 and 6).

    s_t = cell(emb(y_{t-1}), s_{t-1});  c_t = attention(s_t)
    a_t = tanh(W_c [c_t; s_t]);  logits = W_o a_t + b

    input_feeding: the cell also reads the previous attentional vector, [emb(y_{t-1}); a_{t-1}],
        zeros at first (section 3.3). Without it, states do not depend on attention.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attends,
        cells: Cells,
        *,
        input_feeding: bool = False,
    ) -> None:
        """Make the cell, which with `input_feeding` also reads the last attentional vector, and
        W_c.
        """
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=cells.width)
        self.input_feeding = input_feeding
        fed_width = cells.width if input_feeding else 0
        self.cell = cells.stack(embedding + fed_width)
        width = attention.context_width + cells.width
        self.combine = nn.Linear(width, cells.width, bias=False)  # W_c

    def begin(self, first: State, memory: Memory) -> DecoderState:
        state = super().begin(first, memory)
        fed = torch.zeros_like(self.cell.output(first)) if self.input_feeding else None
        return state._replace(attentional=fed)

    def at_once(self, state: DecoderState) -> bool:
        """Return True if no position needs the attention of the one before."""
        return not self.input_feeding and state.past is None

    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        """Step the cell for embedded (B, L, E), then attend with its new states. Returns the state
        after the L positions, features (B, L, output_width) for the output layer, and weights
        (B, L, S), None without attention.
        """
        inputs = embedded  # (B, L, E)
        if state.attentional is not None:  # with input feeding, L is 1: `at_once` is False
            inputs = torch.cat([embedded, state.attentional.unsqueeze(1)], dim=2)  # (B, 1, E + D)
        states, cell = self.cell(inputs, state.cell)  # (B, L, D)
        attended = self.attention(states, memory, state.past, state.position)
        features = self.features(attended.context, states, embedded)  # (B, L, output_width)
        # (B, D) the attentional vector, with which the features begin
        fed = features[:, -1, : self.cell.width] if self.input_feeding else None
        after = DecoderState(cell, state.position + embedded.size(1), attended.past, fed)
        return after, features, attended.weights

    def features(self, context: Tensor, states: Tensor, embedded: Tensor) -> Tensor:
        """Compute the attentional vectors (B, L, D) of context (B, L, Dv), states (B, L, D) and
        embedded tokens (B, L, E). What a subclass appends to them is not fed back.
        """
        return torch.tanh(self.combine(torch.cat([context, states], dim=2)))


class PointerDecoder(LuongDecoder):
    """`pointer`: `luong`, and a learned share of each step that copies what is attended to (See et
    al. 2017, eq. 8 and 9).

    g_t = sigmoid(w_c c_t + w_s s_t + w_x emb(y_{t-1}) + b)
    P(v) = g_t softmax(W_o a_t + b_o)_v + (1 - g_t) sum_j alpha_tj, over the positions j whose
    symbol is v.  logits = log P

    `same` says which symbols of the source and the target are the same. What the target's
    vocabulary lacks counts as its `<unk>`; where it has none, as where weights sum to less than 1,
    the rest of 1 - g_t goes to the softmax.
    """

    needs_attention = True
    copies = True

    def __init__(self, vocabulary_size: int, *shared: Any, input_feeding: bool = False) -> None:
        super().__init__(vocabulary_size, *shared, input_feeding=input_feeding)
        width = self.combine.in_features + self.embedding.embedding_dim
        self.generate = nn.Linear(width, 1)  # w_c, w_s, w_x and b
        self.register_buffer("same", torch.eye(vocabulary_size), persistent=False)
        self.same: Tensor
        """(V of the source, V) 1 where both are the same symbol"""

    def features(self, context: Tensor, states: Tensor, embedded: Tensor) -> Tensor:
        """Compute the attentional vectors, followed by the logit of g_t: (B, L, D + 1)."""
        gates = self.generate(torch.cat([context, states, embedded], dim=2))
        return torch.cat([super().features(context, states, embedded), gates], dim=2)

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        """Compute log P (B, L, V), the softmax mixed with copies of what the weights attend to."""
        assert weights is not None
        assert memory.source is not None
        # attentional vectors (B, L, D) and the logit of g_t (B, L, 1), as `features` appends it
        vectors, gates = features[..., :-1], features[..., -1:]
        own = super().decode(vectors, weights, memory).logits.softmax(dim=2)  # (B, L, V)
        same = F.embedding(memory.source, self.same)  # (B, S, V)
        copied = weights @ same  # (B, L, V)
        # with `sigmoid`, a row of weights may sum to more than 1: then its copies are scaled to 1
        sums = weights.sum(dim=2, keepdim=True).clamp(min=1)
        pointed = torch.sigmoid(-gates) * (copied / sums)  # (B, L, V), times 1 - g_t
        # the softmax gets what is left of 1
        mixed = pointed + (1 - pointed.sum(dim=2, keepdim=True)) * own
        # what is impossible is finite, too: -inf would give gradients of nan
        return Decoded(mixed.clamp(min=torch.finfo(mixed.dtype).tiny).log(), weights)

    def has_copyable(self, memory: Memory) -> Tensor:
        assert memory.source is not None
        # what the target's vocabulary lacks is `same` as its `<unk>`
        is_lacking = F.embedding(memory.source, self.same[:, UNK : UNK + 1]) > 0  # (B, S, 1)
        return is_lacking.any(dim=1, keepdim=True)


# ---- encoder, initial state and decoder together ----


class Reverser(Model):
    """A recurrent encoder-decoder with attention."""

    def __init__(self, encoder: Encoder, initial_state: InitialState, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.initial_state = initial_state
        self.decoder = decoder
        self.copies = decoder.copies
        self.logits = Point("logits", "step", "symbol")

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        encoded = self.encoder(source, lengths)
        return self.prepare(encoded, valid_mask(lengths, source.size(1)), source)

    def prepare(
        self, encoded: Encoded, valid: Tensor, source: Tensor
    ) -> tuple[Memory, DecoderState]:
        """Return the decoder's memory and its state before the first position, from `encoded`, what
        the encoder made of the ids source (B, S); valid (B, S), True = real token.
        """
        memory = self.decoder.attention.prepare(encoded.states, valid, source)
        return memory, self.decoder.begin(self.initial_state(encoded), memory)

    def steps(
        self, tokens: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Decoded, DecoderState]:
        decoded, after = self.decoder(tokens, state, memory)
        set_position(state.position)  # again that of the first: the logits are of all positions
        logits = self.logits(at_least_float32(decoded.logits))
        return Decoded(logits, at_least_float32(decoded.weights)), after

    def has_copyable(self, memory: Memory) -> Tensor:
        return self.decoder.has_copyable(memory)
