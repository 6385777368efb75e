"""Resets: in training, recurrent states are occasionally replaced by noise, so that a model cannot rely on them.

Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout (Krueger et al. 2017): a count
that is spread over many units survives the loss of some, but not the loss of all. Noise, because zeros are
the initial state: a reset in the middle of a string must not look like its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reset:
    """The resets of one recurrent layer, in the order in which it reads."""

    kept: Tensor
    """(B, L) True = the state as it is, False = noise, when the cell reads this position's token"""
    noise: Tensor
    """(B, L, W) uniform in [-1, 1), the range of a hidden state; W is the width of all tensors of the state together"""

    def __call__(self, state: tuple[Tensor, ...], position: int) -> tuple[Tensor, ...]:
        """The state before `position`, tensors (B, D) -> the state after the reset."""
        kept = self.kept[:, position].unsqueeze(1)  # (B, 1)
        widths = [part.size(1) for part in state]
        noise = torch.split(self.noise[:, position, : sum(widths)], widths, dim=1)
        return tuple(torch.where(kept, part, other) for part, other in zip(state, noise, strict=True))

    def beyond(self, width: int) -> Reset:
        """The same with the first `width` numbers of the noise used up, by the layer below."""
        return Reset(self.kept, self.noise[:, :, width:])


@dataclass(frozen=True)
class Resets:
    """The resets of one batch; None where no state is reset."""

    forward: Reset | None = None
    backward: Reset | None = None
    """the encoder's two directions"""
    decoder: Reset | None = None

    def above(self, final: tuple[Tensor, ...]) -> Resets:
        """The resets of the encoder's layers above the one whose last state is `final`, tensors (B, D)."""
        width = sum(part.size(1) for part in final)
        forward, backward = (reset and reset.beyond(width) for reset in (self.forward, self.backward))
        return Resets(forward, backward, self.decoder)


def draw_reset(random: torch.Generator, tokens: Tensor, width: int, share: float) -> Reset | None:
    """Reset each state with probability `share`, for states of this width that read tokens (B, L); None, and nothing is
    drawn, if the share is 0.

    The initial state too, so that positions cannot be recognised by their distance from the start.
    """
    if share == 0:
        return None
    device, (rows, steps) = random.device, tokens.shape
    return Reset(
        kept=torch.rand(rows, steps, generator=random, device=device) >= share,
        noise=2 * torch.rand(rows, steps, width, generator=random, device=device) - 1,
    )
