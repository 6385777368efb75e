"""Recurrent cells: one step, and all steps of a string.

A state is a tuple of tensors (B, D), the hidden state h first: (h,) of `gru` and `rnn`, (h, c) of `lstm`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.interface import Reset
from seq2attn.parts import CELLS

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """Every cell is made the same way, `Cell(input_width, width, **options)`. A cell of your own defines `step`."""

    registry: ClassVar = CELLS
    parts = 1
    """tensors in the state"""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.input_width = input_width
        self.width = width

    @abstractmethod
    def step(self, read: Tensor, state: State) -> State:
        """One step: read (B, ...) from `read`, state (B, D) each -> the next state."""

    def gates(self, read: Tensor, state: State) -> State:
        """What a step computes on its way to the next state, (B, D) each; the default: nothing. For looking inside."""
        return ()

    def read(self, inputs: Tensor) -> Tensor:
        """The part of a step that depends on the input alone, for all steps at once: inputs (..., input_width).

        The default: the inputs themselves.
        """
        return inputs

    def output(self, state: State) -> Tensor:
        """(B, D) the hidden state, which is the cell's output."""
        return state[0]

    def initial(self, rows: int) -> State:
        """The zero state of `rows` strings."""
        like = next(self.parameters())
        return tuple(like.new_zeros(rows, self.width) for _ in range(self.parts))

    def forward(
        self, inputs: Tensor, state: State, lengths: Tensor | None = None, reset: Reset | None = None
    ) -> tuple[Tensor, State]:
        """One step for inputs (B, input_width): the output (B, D) and the state after it.

        All steps for inputs (B, S, input_width): the outputs (B, S, D), and the state after each string's last token;
        lengths (B,), None: all S. Past a string's end its outputs are undefined.
        """
        if inputs.dim() == 2:
            state = self.step(self.read(inputs), state)
            return self.output(state), state
        states = []
        for position, read in enumerate(self.read(inputs).unbind(1)):  # (B, ...) each
            state = self.step(read, state if reset is None else reset(state, position))
            states.append(state)
        outputs = torch.stack(list(map(self.output, states)), dim=1)  # (B, S, D)
        if lengths is not None:
            last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, self.width)  # (B, 1, D)
            parts = [torch.stack(part, dim=1) for part in zip(*states, strict=True)]  # (B, S, D) each
            state = tuple(part.gather(1, last).squeeze(1) for part in parts)
        return outputs, state


class TorchCell(Cell):
    """Weights, names and initial values as torch.nn has them: W_i (G D, E), W_h (G D, D) and a bias vector of each."""

    blocks = 1
    """G"""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width)

        rows, bound = self.blocks * width, 1 / math.sqrt(width)

        def drawn(*shape: int) -> nn.Parameter:
            # drawn as a parameter: what is drawn before it is one is a constant to those who trace this
            return cast(nn.Parameter, nn.init.uniform_(nn.Parameter(torch.empty(shape)), -bound, bound))

        self.weight_ih = drawn(rows, input_width)
        self.weight_hh = drawn(rows, width)
        self.bias_ih = drawn(rows)
        self.bias_hh = drawn(rows)

    def read(self, inputs: Tensor) -> Tensor:
        """W_i x + b_i of all gates: (..., E) -> (..., G D)"""
        return F.linear(inputs, self.weight_ih, self.bias_ih)

    def recall(self, hidden: Tensor) -> Tensor:
        """W_h h + b_h of all gates: (B, D) -> (B, G D)"""
        return F.linear(hidden, self.weight_hh, self.bias_hh)


class GRU(TorchCell):
    """Gated recurrent unit (Cho et al. 2014), in the form of torch and cuDNN, which applies r after the product.

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r * (W_hn h + b_hn))     h' = (1 - z) * n + z * h
    """

    blocks = 3

    def gates(self, read: Tensor, state: State) -> State:
        """r, z, n"""
        (h,) = state
        widths = [2 * self.width, self.width]
        read_rz, read_n = torch.split(read, widths, dim=1)
        recalled_rz, recalled_n = torch.split(self.recall(h), widths, dim=1)
        r, z = torch.sigmoid(read_rz + recalled_rz).chunk(2, dim=1)  # (B, D) each
        n = torch.tanh(torch.addcmul(read_n, r, recalled_n))  # read_n + r * recalled_n
        return r, z, n

    def step(self, read: Tensor, state: State) -> State:
        _, z, n = self.gates(read, state)
        return (torch.lerp(n, state[0], z),)  # (1 - z) * n + z * h


class LSTM(TorchCell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    i, f, o = sigmoid(W x + b + U h + d), each with its own weights;  g = tanh(W_g x + b_g + U_g h + d_g)
    c' = f * c + i * g        h' = o * tanh(c')
    """

    blocks = 4
    parts = 2

    def gates(self, read: Tensor, state: State) -> State:
        """i, f, g, o"""
        i, f, g, o = (read + self.recall(state[0])).chunk(4, dim=1)  # (B, D) each
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def step(self, read: Tensor, state: State) -> State:
        i, f, g, o = self.gates(read, state)
        c = f * state[1] + i * g
        return o * torch.tanh(c), c


class RNN(TorchCell):
    """The simple recurrent network (Elman 1990): h' = tanh(W x + b + U h + d)."""

    def step(self, read: Tensor, state: State) -> State:
        return (torch.tanh(read + self.recall(state[0])),)


class Stack(Cell):
    """Layers of cells, each reading the one below, with dropout between them. Its state is theirs, bottom layer first."""

    def __init__(self, cells: Sequence[Cell], dropout: float) -> None:
        super().__init__(cells[0].input_width, cells[-1].width)
        self.cells = nn.ModuleList(cells)
        self.dropout = nn.Dropout(dropout)
        self.parts = sum(cell.parts for cell in cells)

    def step(self, read: Tensor, state: State) -> State:
        after: State = ()
        for number, cell in enumerate(cast(list[Cell], self.cells)):
            inputs = self.dropout(read) if number else read
            read, own = cell(inputs, state[len(after) : len(after) + cell.parts])
            after += own
        return after

    def output(self, state: State) -> Tensor:
        top = cast(Cell, self.cells[-1])
        return top.output(state[-top.parts :])


@dataclass(frozen=True)
class Cells:
    """Makes the recurrent layers of a model."""

    make: Callable[[int], Cell]
    """input width -> a cell"""
    width: int
    """D"""
    layers: int = 1
    dropout: float = 0.0
    """probability of dropping a number in training: between layers, on embeddings, before the output layer"""

    def stack(self, input_width: int) -> Cell:
        """All layers of a decoder."""
        if self.layers == 1:
            return self.make(input_width)
        above = [self.make(self.width) for _ in range(self.layers - 1)]
        return Stack([self.make(input_width), *above], self.dropout)
