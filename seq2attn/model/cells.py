"""Recurrent cells: one step, and all steps of a string; and resets of their states in training.

A state is a tuple of tensors (B, D), the hidden state h first: (h,) of `gru` and `rnn`, (h, c) of
`lstm`. Shapes: B strings of a batch, S positions, E the width of an input, D of a state.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.points import At, Point, positions
from seq2attn.parts import CELLS

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """A recurrent cell.

    Every cell is constructed as `Cell(input_width, width, **options)`. A cell of your own defines
    `step`.
    """

    registry = CELLS
    state_tensors = 1
    """how many tensors a state has"""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.input_width = input_width
        self.width = width
        self.state_points = tuple(
            Point("state", "width", each="tensor") for _ in range(self.state_tensors)
        )
        """hook points of the state with which a step begins, (B, D) each"""

    @abstractmethod
    def step(self, inputs: Tensor, state: State) -> State:
        """Compute the next state from inputs (B, ...), as `project_input` returns them, and a
        state, (B, D) each.
        """

    def project_input(self, inputs: Tensor) -> Tensor:
        """Compute what depends on the inputs (..., input_width) alone, for all steps at once.

        The default: the inputs themselves.
        """
        return inputs

    def output(self, state: State) -> Tensor:
        """Return the hidden state (B, D), which is the cell's output."""
        return state[0]

    def initial(self, rows: int) -> State:
        """Return the zero state of `rows` strings, (B, D) each, in the dtype that the next states
        will have: under autocast, which computes float32 in a lower precision, that one.
        """
        like = next(self.parameters())
        dtype, device = like.dtype, like.device.type
        if torch.is_autocast_enabled(device) and dtype == torch.float32:
            dtype = torch.get_autocast_dtype(device)
        return tuple(
            like.new_zeros(rows, self.width, dtype=dtype) for _ in range(self.state_tensors)
        )

    def enter(self, state: State) -> State:
        """Return the state with which a step begins: `state`, unless hooks replace it."""
        points = zip(self.state_points, state, strict=True)
        return tuple([point(tensor) for point, tensor in points])  # a generator is slower

    def forward(
        self, inputs: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Compute the steps for inputs (B, S, input_width), the first one from `state`.

        Returns the outputs (B, S, D), which past a string's end are undefined, and the state after
        each string's last token. lengths: (B,) real tokens, at least 1; None: all S.
        """
        # a decoder's step, faster without a loop and a stack; all lengths are 1
        if inputs.size(1) == 1:
            state = self.step(self.project_input(inputs.squeeze(1)), state)
            return self.output(state).unsqueeze(1), state
        projected = self.project_input(inputs)  # (B, S, ...)
        steps = projected.unbind(1)  # S times (B, ...)
        states = []  # after each step
        for position in positions(len(steps)):  # 0, 1, ...; hooks are told each
            # `enter`, so that hooks may replace the state before each step; for the first step,
            # the caller has called it
            if position:
                state = self.enter(state)
            state = self.step(steps[position], state)
            states.append(state)
        outputs = torch.stack([self.output(state) for state in states], dim=1)  # (B, S, D)
        if lengths is None:
            return outputs, state
        # `tensors` are S times (B, D): h of all steps, then c
        last = [at_ends(torch.stack(tensors, 1), lengths) for tensors in zip(*states, strict=True)]
        return outputs, tuple(last)


def at_ends(rows: Tensor, lengths: Tensor) -> Tensor:
    """Return the row of each string's last token, (B, D), from rows (B, S, D); lengths (B,)."""
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, rows.size(2))  # (B, 1, D)
    return rows.gather(1, index).squeeze(1)


class TorchCell(Cell):
    """Weights, names and initial values as torch.nn has them: W_i (G D, E), W_h (G D, D) and a bias
    vector of each. G: the number of blocks, one for each gate or candidate, below each other.
    """

    blocks = 1
    """G"""

    def __init__(self, input_width: int, width: int) -> None:
        """Draw all weights uniformly from -1/sqrt(D) to 1/sqrt(D), as torch does."""
        super().__init__(input_width, width)
        drawn = nn.RNNCellBase(input_width, width, bias=True, num_chunks=self.blocks)
        self.weight_ih, self.weight_hh = drawn.weight_ih, drawn.weight_hh
        self.bias_ih, self.bias_hh = drawn.bias_ih, drawn.bias_hh

    def project_input(self, inputs: Tensor) -> Tensor:
        """Compute W_i x + b_i of all gates: (..., E) -> (..., G D)."""
        return F.linear(inputs, self.weight_ih, self.bias_ih)

    def project_state(self, hidden: Tensor) -> Tensor:
        """Compute W_h h + b_h of all gates: (B, D) -> (B, G D)."""
        return F.linear(hidden, self.weight_hh, self.bias_hh)


class GRU(TorchCell):
    """Gated recurrent unit (Cho et al. 2014), in the form of torch and cuDNN, which applies r after
    the product.

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r * (W_hn h + b_hn))     h' = (1 - z) * n + z * h
    """

    blocks = 3

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.r, self.z, self.n = (Point("gates", "width", each="gate") for _ in range(3))

    def step(self, inputs: Tensor, state: State) -> State:
        """Compute h' from h and inputs (B, 3D), W_i x + b_i of r, z and n, by the equations of the
        class.
        """
        (h,) = state  # (B, D)
        # r and z add W_i x and W_h h; n first multiplies the latter by r
        widths = [2 * self.width, self.width]
        input_rz, input_n = inputs.split_with_sizes(widths, dim=1)  # (B, 2D) and (B, D)
        hidden_rz, hidden_n = self.project_state(h).split_with_sizes(widths, dim=1)
        r, z = torch.sigmoid(input_rz + hidden_rz).chunk(2, dim=1)  # (B, D) each
        r = self.r(r)
        z = self.z(z)
        n = self.n(torch.tanh(torch.addcmul(input_n, r, hidden_n)))  # tanh(input_n + r * hidden_n)
        return (torch.lerp(n, h, z),)  # (1 - z) * n + z * h


class LSTM(TorchCell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al.
    2000).

    i, f, o = sigmoid(W x + b + U h + d), each with its own weights
    g = tanh(W_g x + b_g + U_g h + d_g)
    c' = f * c + i * g        h' = o * tanh(c')
    """

    blocks = 4
    state_tensors = 2

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)
        self.i, self.f, self.g, self.o = (Point("gates", "width", each="gate") for _ in range(4))

    def step(self, inputs: Tensor, state: State) -> State:
        """Compute h' and c' from h, c and inputs (B, 4D), W x + b of i, f, g and o, by the
        equations of the class.
        """
        h, c = state
        i, f, g, o = (inputs + self.project_state(h)).chunk(4, dim=1)  # (B, D) each
        i = self.i(torch.sigmoid(i))
        f = self.f(torch.sigmoid(f))
        o = self.o(torch.sigmoid(o))
        g = self.g(torch.tanh(g))
        c = f * c + i * g
        return o * torch.tanh(c), c


class RNN(TorchCell):
    """The simple recurrent network (Elman 1990): h' = tanh(W x + b + U h + d)."""

    def step(self, inputs: Tensor, state: State) -> State:
        return (torch.tanh(inputs + self.project_state(state[0])),)


class Stack(Cell):
    """Layers of cells, each reading the one below, with dropout between them. Its state is theirs,
    bottom layer first.
    """

    def __init__(self, cells: Sequence[Cell], dropout: float) -> None:
        super().__init__(cells[0].input_width, cells[-1].width)
        self.cells: Any = nn.ModuleList(cells)
        self.dropout = nn.Dropout(dropout)
        self.state_tensors = sum(cell.state_tensors for cell in cells)
        self.state_points = tuple(point for cell in cells for point in cell.state_points)

    def step(self, inputs: Tensor, state: State) -> State:
        """Compute a step of each layer, whose input is the output of the one below; that of the
        bottom layer is `inputs` (B, E). Returns the states of all layers, the bottom one's first.
        """
        after: State = ()
        for number, cell in enumerate(self.cells):
            if number:
                inputs = self.dropout(inputs)  # (B, D)
            # this layer's tensors follow those of the layers below
            before = state[len(after) : len(after) + cell.state_tensors]
            # one step; without `enter`, which was called for the states of the whole stack
            output, layer_state = cell(inputs.unsqueeze(1), before)  # (B, 1, D); (B, D) each
            inputs = output.squeeze(1)
            after += layer_state
        return after

    def output(self, state: State) -> Tensor:
        top: Cell = self.cells[-1]
        return top.output(state[-top.state_tensors :])


@dataclass(frozen=True)
class Cells:
    """Makes the recurrent layers of a model."""

    make: Callable[[int], Cell]
    """input width -> a cell"""
    width: int
    """D"""
    layers: int
    dropout: float
    """probability of dropping a number in training: between layers, on embeddings, before the
    output layer"""
    bidirectional: bool
    """whether a recurrent encoder reads the source in both directions"""

    def stack(self, input_width: int) -> Cell:
        """All layers of a decoder."""
        if self.layers == 1:
            return self.make(input_width)
        above = [self.make(self.width) for _ in range(self.layers - 1)]
        return Stack([self.make(input_width), *above], self.dropout)


# ---- resets: in training, states are occasionally replaced by noise ----


@dataclass(frozen=True, eq=False)
class Reset:
    """The resets of a state tensor in one batch: the hook of a point of a cell's state.

    Positions are in the order in which the cell reads.
    """

    kept: Tensor
    """(B, L) True = the state as it is, False = noise, when the cell reads this position's token"""
    noise: Tensor
    """(B, L, D) uniform in [-1, 1), the range of a hidden state"""

    def __call__(self, state: Tensor, at: At) -> Tensor:
        """Return the state (B, D) before a position, after the reset."""
        here = at.first
        return torch.where(self.kept[:, here].unsqueeze(1), state, self.noise[:, here])


Resets = Mapping[Point, Reset]
"""hooks (`points.hooked_places`) that reset states of a model"""


def draw_resets(
    model: Any,
    random: torch.Generator,
    source: Tensor,
    decoder_input: Tensor,
    *,
    encoder: float,
    decoder: float,
    first: bool = True,
) -> Resets:
    """Draw which states become noise in a batch of source (B, S) and decoder_input (B, L) ids, so
    that a model cannot rely on them. Returns point of a state -> the hook that puts in the noise.

    Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout
    (Krueger et al. 2017): a count that is spread over many units survives the loss of some, but not
    of all. Noise, because zeros are the initial state: a reset in the middle of a string must not
    look like its beginning.

    model: a `Reverser`. random: the generator to draw from.
    encoder, decoder: the probability that a state of theirs becomes noise at a position; nothing is
        drawn for 0.
    first: let the encoder's initial states take part, so that positions cannot be recognised by
        their distance from the start. The decoder's initial state always takes part.
    """
    resets: dict[Point, Reset] = {}
    if encoder > 0:
        for direction in ("cell", "backward_cell"):
            # rules.py refuses resets for encoders without layers
            cells = [getattr(layer, direction) for layer in model.encoder.layers]
            if cells[0] is not None:  # None: the encoder reads forwards only
                resets |= _draw(random, cells, source, encoder, first=first)
    if decoder > 0:
        # first: the encoder made its initial state, which is therefore one like the others
        resets |= _draw(random, [model.decoder.cell], decoder_input, decoder, first=True)
    return resets


def _draw(
    random: torch.Generator, cells: Sequence[Cell], tokens: Tensor, probability: float, first: bool
) -> dict[Point, Reset]:
    """Draw the resets of cells that read tokens (B, L) in one direction, such as the layers of an
    encoder: all of their states are reset at the same positions.

    A reset at a position replaces the state that the cell reads with this position's token.
    first: True: also at the first position, where this is the initial state.
    """
    points = [point for cell in cells for point in cell.state_points]
    options: Any = {"generator": random, "device": random.device}
    kept = torch.rand(tokens.shape, **options) >= probability  # (B, L)
    if not first:
        kept[:, 0] = True
    # the noise of all points at once, uniform in [-1, 1), and cut into that of each (B, L, D)
    noise = 2 * torch.rand(*tokens.shape, len(points) * cells[0].width, **options) - 1
    parts = noise.chunk(len(points), dim=2)
    return {point: Reset(kept, part) for point, part in zip(points, parts, strict=True)}
