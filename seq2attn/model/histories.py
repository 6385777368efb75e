"""Histories: how attention depends on its own past weights. They combine with every score.

A history has C numbers per key, (B, C, S), zeros at first, which are passed from step to step. Its features enter the score
through `Score.with_features`; or it changes the weights themselves (`combine`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn import catalogue


class History(nn.Module):
    """Every history is constructed as `History(feature_width, **options)`, with the width that the score expects."""

    registry: ClassVar = catalogue.HISTORIES
    channels = 1
    """C"""

    def __init__(self, feature_width: int) -> None:
        super().__init__()
        self.feature_width = feature_width

    @abstractmethod
    def forward(self, past: Tensor) -> Tensor | None:
        """past (B, C, S) -> features (B, 1, S, feature_width) of each key; None: the score has none."""

    @abstractmethod
    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        """The past (B, C, S) after a step with these weights (B, S)."""

    def combine(self, weights: Tensor, past: Tensor, allowed: Tensor | None) -> Tensor:
        """The weights to attend with (B, 1, S), from those of the softmax (B, 1, S); allowed (B, 1, S), None: all keys.

        The default: those of the softmax.
        """
        return weights


class Location(History):
    """`location`: U (F * alpha_{t-1}), features of a convolution over the previous weights (Chorowski et al. 2015, eq. 8
    and 9).

    filters: number of filters; kernel: their width, odd.
    """

    def __init__(self, feature_width: int, *, filters: int = 8, kernel: int = 5) -> None:
        super().__init__(feature_width)
        self.convolution = nn.Conv1d(self.channels, filters, kernel, padding=kernel // 2, bias=False)
        self.map = nn.Linear(filters, feature_width, bias=False)

    def forward(self, past: Tensor) -> Tensor:
        located = self.convolution(past)  # (B, filters, S)
        mapped: Tensor = self.map(located.mT).unsqueeze(1)  # (B, S, filters) -> (B, 1, S, feature_width)
        return mapped

    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        return weights.unsqueeze(1)


class Coverage(History):
    """`coverage`: w C_t, C_t the sum of all past weights (See et al. 2017, eq. 10 and 11)."""

    def __init__(self, feature_width: int) -> None:
        super().__init__(feature_width)
        self.map = nn.Linear(1, feature_width, bias=False)

    def forward(self, past: Tensor) -> Tensor:
        mapped: Tensor = self.map(past.mT).unsqueeze(1)  # (B, S, 1) -> (B, 1, S, feature_width)
        return mapped

    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        return past + weights.unsqueeze(1)


class LocationCoverage(Location):
    """`location_coverage`: a convolution over both the previous weights and the sum of all past ones, as in many speech
    synthesis models (the sum alone: Shen et al. 2018, section 2.2).
    """

    channels = 2

    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        return torch.stack([weights, past[:, 1] + weights], dim=1)


class Shift(History):
    """`shift`: the previous weights, moved by a learned distance and sharpened (Graves et al. 2014, eq. 8 and 9).

    moved_j = sum_d p_d alpha_{t-1, j-d}, d from -reach to reach, p a learned distribution. What falls off the ends of the
    source is replaced by the softmax of the scores: alpha_t = sharpened moved + (1 - sum moved) softmax(e_t). So content
    decides where to begin, and where to go on from an end; in between it has no influence. Sharpening raises moved to a
    learned power >= 1 and keeps its sum. Unlike in Graves et al., p and the power do not depend on the query.
    """

    speed = 8.0
    """p = softmax(speed * logits): they change this many times as fast as other parameters"""

    def __init__(self, feature_width: int, *, reach: int = 2) -> None:
        super().__init__(feature_width)
        self.reach = reach
        self.logits = nn.Parameter(torch.zeros(2 * reach + 1))  # of p, from d = -reach
        self.power = nn.Parameter(torch.zeros(()))

    def forward(self, past: Tensor) -> None:
        return None

    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        return weights.unsqueeze(1)

    def combine(self, weights: Tensor, past: Tensor, allowed: Tensor | None) -> Tensor:
        p = torch.softmax(self.speed * self.logits, dim=0).view(1, 1, -1)
        moved = F.conv1d(past, p.flip(2), padding=self.reach)  # (B, 1, S)
        if allowed is not None:
            moved = moved.masked_fill(~allowed, 0.0)
        total = moved.sum(dim=2, keepdim=True).clamp(max=1)  # (B, 1, 1)
        sharp = moved ** (1 + F.softplus(self.power))
        least = torch.finfo(moved.dtype).tiny
        moved = sharp * (total / sharp.sum(dim=2, keepdim=True).clamp(min=least))
        return moved + (1 - total) * weights
