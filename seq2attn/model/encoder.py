"""Encoders, which map the source to states; and the decoder's initial state.

Shapes: B strings of a batch, S source positions, padding included, E the width of an embedding, D
of the hidden state of a cell.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError
from seq2attn.model.cells import Cell, Cells, State
from seq2attn.model.points import Point, set_position
from seq2attn.parts import ENCODERS, INITIAL_STATES


class Encoded(NamedTuple):
    """The output of an encoder, or of a recurrent layer."""

    states: Tensor
    """(B, S, width) of the top layer, of a bidirectional one forward then backward half; past a
    source's end they are undefined, but finite"""
    final: State
    """(B, D) each: the last state of every recurrent layer, bottom first, after each source's last
    token, or of the backward direction after its first; of another encoder (summary,), a vector for
    the whole source"""


class Encoder(nn.Module):
    """Embeds tokens and maps them to the states that the decoder attends to.

    Every encoder is made the same way, `Encoder(vocabulary_size, embedding, cells, **options)`, and
    defines `encode`. `cells.width` is D, the width of its states; `cells.layers` and
    `cells.dropout` are the config's.
    """

    registry = ENCODERS
    is_recurrent = False
    """True if it consists of layers of `cells`, which can read both directions and be reset"""
    final_tensors = 1
    """how many tensors `Encoded.final` has"""
    top = -1
    """index in `Encoded.final` of what `bridge` maps: the summary, or the top layer's hidden state
    """

    def __init__(self, vocabulary_size: int, embedding: int, cells: Cells) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.width = cells.width
        self.states = Point("states", "source", "width")

    @abstractmethod
    def encode(self, embedded: Tensor, lengths: Tensor) -> Encoded:
        """Encode embedded tokens (B, S, E), right-padded; lengths (B,) real tokens, at least 1.

        Neither the states before a source's end nor the summary may depend on padding.
        """

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, S) ids, right-padded; lengths (B,)."""
        set_position(0)
        states, final = self.encode(self.embedding(source), lengths)
        return Encoded(self.states(states), final)


# ---- the recurrent encoder ----


class Layer(nn.Module):
    """One recurrent layer: a cell that reads forwards, and if `cells.bidirectional` another that
    reads backwards.
    """

    def __init__(self, input_width: int, cells: Cells) -> None:
        super().__init__()
        self.cell = cells.make(input_width)
        self.backward_cell = cells.make(input_width) if cells.bidirectional else None
        self.dropout = nn.Dropout(cells.dropout)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Encoded:
        """Read inputs (B, S, input_width), right-padded; lengths: (B,) real tokens.

        Returns states (B, S, D), of both directions (B, S, 2D), forward half first, and the final
        state of the cell, or of the backward cell if there is one.
        """
        forward = self._run(self.cell, inputs, lengths)
        if self.backward_cell is None:
            return forward
        # the backward cell reads the reversed strings first to last, and its states are put back
        # in the order of the source; its final one has read all, the first token last
        index = flip_index(lengths, inputs.size(1))  # (B, S)
        backward = self._run(self.backward_cell, flip(inputs, index), lengths)
        states = torch.cat([forward.states, flip(backward.states, index)], dim=2)  # (B, S, 2D)
        return Encoded(states, backward.final)

    def _run(self, cell: Cell, inputs: Tensor, lengths: Tensor) -> Encoded:
        """Read inputs with one cell, first token first."""
        first = cell.enter(cell.initial(len(inputs)))
        return Encoded(*cell(self.dropout(inputs), first, lengths))


class RecurrentEncoder(Encoder):
    """`recurrent`: layers of cells (Cho et al. 2014), each of which reads the states of the one
    below; with `cells.bidirectional` those of both its directions.
    """

    is_recurrent = True

    def __init__(self, vocabulary_size: int, embedding: int, cells: Cells) -> None:
        """Make the layers: the first reads embeddings, the others the states of the one below."""
        super().__init__(vocabulary_size, embedding, cells)
        if cells.bidirectional:
            self.width *= 2  # a state is that of both directions
        widths = [embedding, *[self.width] * (cells.layers - 1)]  # of what each layer reads
        self.layers: Any = nn.ModuleList(Layer(width, cells) for width in widths)
        top: Any = self.layers[-1].cell
        # of each layer, `Encoded.final` has the state of one direction
        self.final_tensors = cells.layers * top.state_tensors
        # index, from the end, of the top layer's h, which comes first in that layer's state
        self.top = -top.state_tensors

    def encode(self, embedded: Tensor, lengths: Tensor) -> Encoded:
        states, final = embedded, ()
        for layer in self.layers:
            states, last = layer(states, lengths)  # (B, S, width); its final state, (B, D) each
            final += last
        return Encoded(states, final)


def flip_index(lengths: Tensor, width: int) -> Tensor:
    """Return an index (B, width) that reverses the real part of each row; lengths (B,).

    >>> flip_index(torch.tensor([3]), 5)
    tensor([[2, 1, 0, 3, 4]])
    """
    positions = torch.arange(width, device=lengths.device)
    turned = lengths.unsqueeze(1) - 1 - positions
    return torch.where(turned >= 0, turned, positions)


def flip(rows: Tensor, index: Tensor) -> Tensor:
    """Return rows (B, S, D) in the order of index (B, S)."""
    return rows.gather(1, index.unsqueeze(2).expand_as(rows))


# ---- the decoder's first state, from what the encoder has read ----


class InitialState(nn.Module):
    """The first state of the decoder, computed from what the encoder has read.

    Every initial state is constructed as `InitialState(encoder, cell)`.
    """

    registry = INITIAL_STATES

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__()
        self.state_tensors = cell.state_tensors
        self.width = cell.width

    @abstractmethod
    def forward(self, encoded: Encoded) -> State:
        """Compute the first state of the decoder's cell, `cell.state_tensors` tensors (B, D)."""


class Zeros(InitialState):
    """s_0 = 0."""

    def forward(self, encoded: Encoded) -> State:
        like = encoded.states
        return tuple(like.new_zeros(len(like), self.width) for _ in range(self.state_tensors))


class Last(InitialState):
    """s_0 = the encoder's final state, layer by layer: of a bidirectional encoder the backward
    state; of an encoder without recurrent layers its summary, for a state of one tensor.
    """

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__(encoder, cell)
        if encoder.final_tensors != cell.state_tensors:
            raise Seq2AttnError(
                f"model.initial_state: 'last' cannot work with encoder {type(encoder).__name__}: "
                f"its final state has {encoder.final_tensors} of the {cell.state_tensors} tensors "
                "of the decoder's state; use bridge or zeros"
            )

    def forward(self, encoded: Encoded) -> State:
        return encoded.final


class Bridge(InitialState):
    """s_0 = tanh(W h + b), h the top layer's final hidden state, or the summary of an encoder
    without recurrent layers; one W for all tensors of s_0 together.

    With a bidirectional encoder, h is the backward state at position 1 (Bahdanau et al. 2015,
    appendix A.2.2): it has read the whole source, last token first.
    """

    def __init__(self, encoder: Encoder, cell: Cell) -> None:
        super().__init__(encoder, cell)
        self.top = encoder.top
        self.map = nn.Linear(cell.width, cell.state_tensors * cell.width)

    def forward(self, encoded: Encoded) -> State:
        mapped = torch.tanh(self.map(encoded.final[self.top]))  # (B, state_tensors * D)
        return mapped.chunk(self.state_tensors, dim=1)
