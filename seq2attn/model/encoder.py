"""The encoder: recurrent layers that read the source, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2attn import kernels
from seq2attn.model.cells import GRU, Cell, Cells, State
from seq2attn.model.resets import Reset, Resets

Read = Callable[[Cell, Tensor, Tensor, Reset | None], tuple[Tensor, State]]
"""How a cell reads a layer's inputs (B, S) or (B, S, width), lengths (B,): outputs (B, S, D), and the state at each end."""


class Encoded(NamedTuple):
    """The output of the encoder."""

    states: Tensor
    """(B, S, width) the top layer's outputs, forward then backward half; past a source's end they are undefined"""
    final: State
    """the last state of every layer, bottom first, (B, D) each: after each source's last token, or in a bidirectional
    encoder the backward direction's, after its first"""


class Layer(nn.Module):
    """One recurrent layer: a cell that reads forwards, and if `bidirectional` another that reads backwards.

    The backward cell reads each string from its own last token, so that no state depends on padding.
    """

    def __init__(self, input_width: int, cells: Cells, *, bidirectional: bool) -> None:
        super().__init__()
        self.add_cells(input_width, cells, bidirectional=bidirectional)

    def add_cells(self, input_width: int, cells: Cells, *, bidirectional: bool) -> None:
        """Make the cells, as `gru` and `backward_gru`; of another kind they are `cell` and `backward_cell`."""
        forwards = cells.layer(input_width)
        self.cell_name = "gru" if isinstance(forwards, GRU) else "cell"
        self.add_module(self.cell_name, forwards)
        self.add_module(f"backward_{self.cell_name}", cells.layer(input_width) if bidirectional else None)

    def read_both(self, read: Read, inputs: Tensor, lengths: Tensor, resets: Resets | None) -> Encoded:
        """inputs (B, S) or (B, S, input_width), whichever `read` takes; lengths (B,)."""
        forward_reset, backward_reset = (None, None) if resets is None else (resets.forward, resets.backward)
        forwards = cast(Cell, self._modules[self.cell_name])
        backwards = cast(Cell | None, self._modules[f"backward_{self.cell_name}"])
        states, final = read(forwards, inputs, lengths, forward_reset)  # (B, S, D)
        if backwards is None:
            return Encoded(states, final)
        index = flip_index(lengths, inputs.size(1))  # (B, S)
        flipped, final = read(backwards, flip(inputs, index), lengths, backward_reset)
        return Encoded(torch.cat([states, flip(flipped, index)], dim=2), final)


class Encoder(Layer):
    """A first layer that reads embedded tokens, and the layers above it (Cho et al. 2014).

    Each layer reads both directions of the one below.

    reads_padding: the cells read padding too, for attention that does not mask it.
    """

    kernel = "reader"

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        cells: Cells,
        *,
        bidirectional: bool = False,
        reads_padding: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.add_cells(embedding, cells, bidirectional=bidirectional)
        self.width = 2 * cells.width if bidirectional else cells.width
        self.above = nn.ModuleList(
            Layer(self.width, cells, bidirectional=bidirectional) for _ in range(cells.layers - 1)
        )
        self.dropout = nn.Dropout(cells.dropout)
        self.bidirectional = bidirectional
        self.reads_padding = reads_padding

    @property
    def state_width(self) -> int:
        """The width of the states of all layers together, in one direction."""
        return (1 + len(self.above)) * self.top.parts * self.top.width

    @property
    def top(self) -> Cell:
        """The forward cell of the top layer."""
        layer = self.above[-1] if len(self.above) else self
        return cast(Cell, layer._modules[self.cell_name])

    def forward(self, source: Tensor, lengths: Tensor, resets: Resets | None = None) -> Encoded:
        """source (B, S) ids, right-padded; lengths (B,) real tokens, at least 1."""
        below = self.read_both(self._read_tokens, source, lengths, resets)
        final = below.final
        for layer in self.above:
            left = None if resets is None else resets.above(final)
            below = layer.read_both(self._read, below.states, lengths, left)  # type: ignore[operator]
            final += below.final
        return Encoded(below.states, final)

    def _read_tokens(self, cell: Cell, tokens: Tensor, lengths: Tensor, reset: Reset | None) -> tuple[Tensor, State]:
        first, padding = cell.initial(tokens.size(0)), self.reads_padding
        fast = kernels.recurrence(self, tokens, lengths, cell, first, reset=reset, keep_padding=padding)
        if fast is not None:
            return fast[0], (fast[1],)
        return self._read(cell, self.embedding(tokens), lengths, reset)

    def _read(self, cell: Cell, inputs: Tensor, lengths: Tensor, reset: Reset | None) -> tuple[Tensor, State]:
        first = cell.initial(inputs.size(0))
        outputs, final = cell(self.dropout(inputs), first, lengths, reset)
        return outputs, final


def flip_index(lengths: Tensor, width: int) -> Tensor:
    """(B,) -> (B, width): an index that reverses the real part of each row.

    >>> flip_index(torch.tensor([3]), 5)
    tensor([[2, 1, 0, 3, 4]])
    """
    positions = torch.arange(width, device=lengths.device)
    turned = lengths.unsqueeze(1) - 1 - positions
    return torch.where(turned >= 0, turned, positions)


def flip(rows: Tensor, index: Tensor) -> Tensor:
    """rows (B, S) or (B, S, D) in the order of index (B, S)."""
    return rows.gather(1, index if rows.dim() == 2 else index.unsqueeze(2).expand_as(rows))
