"""Decoders: the order of attention and recurrence, one output position after another. And the whole: the `Reverser`."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Memory
from seq2attn.model.cells import Cell, Cells, State
from seq2attn.model.encoder import Encoder, InitialState
from seq2attn.model.heads import Attends
from seq2attn.model.interface import NO_RESETS, Decoded, Model, Reset, Resets, layer_resets
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
    joint: Tensor | None = None
    """(B, S, V) of `hard_monotonic`: log P(a_t = j, y_t = v | y_<t), at `<pad>` log P(a_t = j | y_<t)"""


Step = tuple[DecoderState, Tensor, Tensor | None]
"""one position: the state after it, features for the output layer (B, output_width), weights (B, S)"""


class Decoder(nn.Module):
    """Embedding, recurrent layers, attention and an output layer; an arrangement defines their order (`advance`).

    Every arrangement is made the same way, `Decoder(vocabulary_size, embedding, attention, cells, **options)`.
    """

    registry: ClassVar = DECODERS
    needs_attention: ClassVar[bool] = False
    """whether it works only with attention; configs with `score: none` are then refused"""
    needs_one_vocabulary: ClassVar[bool] = False
    """whether it works only where source and target have the same symbols, as for copying ids of the source"""
    copies: ClassVar[bool] = False
    """as of the model: `Model.copies`"""
    cell: Cell
    """the recurrent layers, which each arrangement makes"""

    def __init__(
        self, vocabulary_size: int, embedding: int, attention: Attends, cells: Cells, *, output_width: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.attention = attention
        self.output = nn.Linear(output_width, vocabulary_size)
        self.dropout = nn.Dropout(cells.dropout)

    @abstractmethod
    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        """One position: embedded (B, E) -> next state, features for the output layer (B, output_width), weights (B, S)."""

    def begin(self, first: State, memory: Memory) -> DecoderState:
        """The state before the first position, from the cell's first state."""
        position = torch.zeros((), dtype=torch.int64, device=memory.keys.device)
        return DecoderState(first, position, self.attention.begin(memory))

    def forward(
        self, tokens: Tensor, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> tuple[Decoded, DecoderState]:
        """The last tokens (B, L) -> logits (B, L, V) and weights (B, L, S) of L positions, and the state after them.

        A loop over `advance`. An arrangement may compute all positions at once instead (`LuongDecoder`).
        """
        features, weights = [], []
        for position, embedded in enumerate(self.embed(tokens).unbind(1)):  # (B, E) each
            if reset is not None:
                state = state._replace(cell=reset(state.cell, position))
            state, feature, weight = self.advance(embedded, state, memory)
            features.append(feature)
            weights += [] if weight is None else [weight]
        all_weights = torch.stack(weights, dim=1) if weights else None  # (B, L, S)
        return self.decode(torch.stack(features, dim=1), all_weights, memory), state

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (...) -> (..., E)"""
        return self.dropout(self.embedding(tokens))

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        """features (B, L, output_width), weights (B, L, S) -> logits (B, L, V): where `pointer` mixes in the source."""
        return Decoded(self.output(self.dropout(features)), weights)


class BahdanauDecoder(Decoder):
    """`bahdanau`: attend with the previous state, then step (Bahdanau et al. 2015).

    c_t = attention(s_{t-1});  s_t = cell([emb(y_{t-1}); c_t], s_{t-1});  logits = W_o [s_t; c_t] + b
    """

    def __init__(self, vocabulary_size: int, embedding: int, attention: Attends, cells: Cells) -> None:
        width = cells.width + attention.context_width
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=width)
        self.cell = cells.stack(embedding + attention.context_width)

    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        query = self.cell.output(state.cell).unsqueeze(1)  # (B, 1, D)
        attended = self.attention(query, memory, state.past, state.position)
        context = attended.context.squeeze(1)  # (B, Dv)
        output, cell = self.cell(torch.cat([embedded, context], dim=1), state.cell)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        state = DecoderState(cell, state.position + 1, attended.past)
        return state, torch.cat([output, context], dim=1), weights


class LuongDecoder(Decoder):
    """`luong`: step, then attend with the new state (Luong et al. 2015, eq. 5 and 6).

    s_t = cell(emb(y_{t-1}), s_{t-1});  c_t = attention(s_t);  a_t = tanh(W_c [c_t; s_t]);  logits = W_o a_t + b

    input_feeding: the cell also reads the previous attentional vector, [emb(y_{t-1}); a_{t-1}], zeros at first
        (section 3.3). Without it, states do not depend on attention.
    """

    def __init__(
        self, vocabulary_size: int, embedding: int, attention: Attends, cells: Cells, *, input_feeding: bool = False
    ) -> None:
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=cells.width)
        self.input_feeding = input_feeding
        self.cell = cells.stack(embedding + cells.width * input_feeding)
        self.combine = nn.Linear(attention.context_width + cells.width, cells.width, bias=False)  # W_c

    def begin(self, first: State, memory: Memory) -> DecoderState:
        state = super().begin(first, memory)
        fed = torch.zeros_like(self.cell.output(first)) if self.input_feeding else None
        return state._replace(attentional=fed)

    def advance(self, embedded: Tensor, state: DecoderState, memory: Memory) -> Step:
        inputs = embedded if state.attentional is None else torch.cat([embedded, state.attentional], dim=1)
        output, cell = self.cell(inputs, state.cell)  # (B, D)
        query = output.unsqueeze(1)
        attended = self.attention(query, memory, state.past, state.position)
        features = self.features(attended.context, query, embedded.unsqueeze(1)).squeeze(1)  # (B, output_width)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        fed = features[:, : output.size(1)] if self.input_feeding else None
        return DecoderState(cell, state.position + 1, attended.past, fed), features, weights

    def forward(
        self, tokens: Tensor, state: DecoderState, memory: Memory, reset: Reset | None = None
    ) -> tuple[Decoded, DecoderState]:
        """As `Decoder.forward`. Without input feeding and history, the matrix form of `advance`: first the cell, over all
        positions, then the attention of all states at once.
        """
        if self.input_feeding or state.past is not None or reset is not None or not self._is_matrix_form():
            return super().forward(tokens, state, memory, reset)
        embedded = self.embed(tokens)
        states, cell = self.cell(embedded, state.cell)  # (B, L, D)
        attended = self.attention(states, memory, None, state.position)
        features = self.features(attended.context, states, embedded)
        state = DecoderState(cell, state.position + tokens.size(1))
        return self.decode(features, attended.weights, memory), state

    def _is_matrix_form(self) -> bool:
        """Whether `advance` is the one above, not a subclass's or another one, and no hook looks at single positions."""
        parts = (*self.cell.modules(), self.attention)
        hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts)
        return getattr(self.advance, "__func__", None) is _LUONG_ADVANCE and not hooked

    def features(self, context: Tensor, states: Tensor, embedded: Tensor) -> Tensor:
        """The attentional vectors of contexts (B, L, Dv), states (B, L, D), embedded tokens (B, L, E): (B, L, D). What a
        subclass adds follows them, and is not fed back.
        """
        return torch.tanh(self.combine(torch.cat([context, states], dim=2)))


_LUONG_ADVANCE = LuongDecoder.advance


# ---- encoder, initial state and decoder together ----


class Reverser(Model):
    """A recurrent encoder-decoder with attention."""

    def __init__(self, encoder: Encoder, initial_state: InitialState, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.initial_state = initial_state
        self.decoder = decoder
        self.copies = decoder.copies

    def encode(self, source: Tensor, lengths: Tensor, resets: Resets = NO_RESETS) -> tuple[Memory, DecoderState]:
        encoded = self.encoder(source, lengths, resets)
        valid = valid_mask(lengths, source.size(1))
        memory = self.decoder.attention.prepare(encoded.states, valid, source)
        return memory, self.decoder.begin(self.initial_state(encoded), memory)

    def forward(self, batch: Batch, resets: Resets | None = None) -> Decoded:
        resets = resets or NO_RESETS
        memory, state = self.encode(batch.source, batch.source_lengths, resets)
        return self.decoder(batch.decoder_input, state, memory, *resets.decoder)[0]

    def step(self, tokens: Tensor, state: DecoderState, memory: Memory) -> tuple[Decoded, DecoderState]:
        return self.decoder(tokens.unsqueeze(1), state, memory)

    def draw_resets(
        self,
        random: torch.Generator,
        source: Tensor,
        decoder_input: Tensor,
        *,
        encoder: float,
        decoder: float,
        first: bool = True,
    ) -> Resets:
        """Resets of a batch, source (B, S) and decoder_input (B, L), with these probabilities for each state; the encoder's
        first ones only if `first`.

        Nothing is drawn where the probability is 0, nor for a direction that the encoder does not read in.
        """
        top, cell, layers = self.encoder.top, self.decoder.cell, len(self.encoder.layers)
        backward = encoder if self.encoder.bidirectional else 0.0
        return Resets(
            forward=layer_resets(random, source, top.parts * top.width, layers, encoder, first),
            backward=layer_resets(random, source, top.parts * top.width, layers, backward, first),
            decoder=layer_resets(random, decoder_input, cell.parts * cell.width, 1, decoder),
        )
