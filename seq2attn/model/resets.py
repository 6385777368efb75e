"""Resets: in training, recurrent states are occasionally replaced by noise, so that a model cannot
rely on them.

Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout
(Krueger et al. 2017): a count that is spread over many units survives the loss of some, but not of
all. Noise, because zeros are the initial state: a reset in the middle of a string must not look
like its beginning.

Shapes: B strings of a batch, S source positions, L positions that a cell reads, D the width of its
state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.points import At, Point


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
    model: Reverser,
    random: torch.Generator,
    source: Tensor,
    decoder_input: Tensor,
    *,
    encoder: float,
    decoder: float,
    first: bool = True,
) -> Resets:
    """Draw which states become noise in a batch of source (B, S) and decoder_input (B, L) ids: the
    hook of each state's point that makes them so.

    random: the generator to draw from.
    encoder, decoder: the probability that a state of theirs becomes noise at a position; nothing is
        drawn for 0.
    first: let the encoder's initial states take part, so that positions cannot be recognised by
        their distance from the start. The decoder's initial state always takes part.
    """
    resets: dict[Point, Reset] = {}
    if encoder > 0:
        layers: Any = model.encoder.layers  # rules.py refuses resets for other encoders
        for direction in ("cell", "backward_cell"):
            cells = [getattr(layer, direction) for layer in layers]
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
