"""Resets: in training, recurrent states are occasionally replaced by noise, so that a model cannot
rely on them.

Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout
(Krueger et al. 2017): a count that is spread over many units survives the loss of some, but not of
all. Noise, because zeros are the initial state: a reset in the middle of a string must not look
like its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.encoder import Layer
from seq2attn.model.points import Hook, Point


@dataclass(frozen=True, eq=False)
class Reset:
    """The resets of a cell in one batch, in the order in which it reads. A hook of a point of its
    state.
    """

    kept: Tensor
    """(B, L) True = the state as it is, False = noise, when the cell reads this position's token"""
    noise: Tensor
    """(B, L, W) uniform in [-1, 1), the range of a hidden state; W is the width of all tensors of
    the state together"""

    def __call__(self, state: Tensor, position: int) -> Tensor:
        """Return the state (B, W) before a position, after the reset."""
        return torch.where(self.kept[:, position].unsqueeze(1), state, self.noise[:, position])


Resets = Mapping[Cell, Reset]
"""the cells of a model whose states are reset"""


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
    """Draw the resets of a batch, source (B, S) and decoder_input (B, L), with these probabilities
    for each state.

    first: the encoder's initial states too, so that positions cannot be recognised by their
    distance from the start. Nothing is drawn where the probability is 0.
    """
    layers = cast(list[Layer], list(model.encoder.layers))
    backward = [layer.backward_cell for layer in layers if layer.backward_cell is not None]
    resets: dict[Cell, Reset] = {}
    for cells in ([layer.cell for layer in layers], backward):
        if encoder > 0 and cells:
            resets |= _draw(random, cells, source, encoder, first=first)
    if decoder > 0:
        resets |= _draw(random, [model.decoder.cell], decoder_input, decoder, first=True)
    return resets


def _draw(
    random: torch.Generator,
    cells: Sequence[Cell],
    tokens: Tensor,
    probability: float,
    *,
    first: bool,
) -> dict[Cell, Reset]:
    """Draw the resets of cells that read tokens (B, L) in one direction: all of them at the same
    places.
    """
    device, (rows, steps) = random.device, tokens.shape
    kept = torch.rand(rows, steps, generator=random, device=device) >= probability
    if not first:
        kept |= torch.arange(steps, device=device) == 0
    widths = [cell.state_tensors * cell.width for cell in cells]
    noise = 2 * torch.rand(rows, steps, sum(widths), generator=random, device=device) - 1
    return {
        cell: Reset(kept, part)
        for cell, part in zip(cells, torch.split(noise, widths, dim=2), strict=True)
    }


def reset_hooks(resets: Resets) -> dict[Point, Hook]:
    """Return the hooks (`points.hooked_points`) that reset these states."""
    hooks: dict[Point, Hook] = {}
    for cell, reset in resets.items():
        parts = reset.noise.chunk(cell.state_tensors, dim=2)
        for point, noise in zip(cell.state_points, parts, strict=True):
            hooks[point] = Reset(reset.kept, noise)
    return hooks
