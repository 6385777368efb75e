"""Histories: what a score knows of its own past weights. They combine with every score.

A history has C numbers per key, (B, C, S), zeros at first, which are passed from step to step. Its features enter the score
through `Score.with_features`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
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
    def forward(self, past: Tensor) -> Tensor:
        """past (B, C, S) -> features (B, 1, S, feature_width) of each key."""

    @abstractmethod
    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        """The past (B, C, S) after a step with these weights (B, S)."""


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
