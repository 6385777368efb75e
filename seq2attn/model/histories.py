"""History: what a score knows of its own past weights. It combines with every score.

A history keeps C numbers for each key, (B, C, S), zeros at first, which are handed on from step to step, never kept on the
module. What it says of each key enters the score where the score wants it (`Score.with_features`).
"""

from __future__ import annotations

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class History(nn.Module):
    """Made the same way, whatever the kind: `History(feature_width)`, the width of what the score takes in."""

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
        """What is kept after a step with these weights (B, S)."""


class Location(History):
    """`location`: U (F * alpha_{t-1}), features of a convolution over the previous weights (Chorowski et al. 2015, eq. 8
    and 9).

    filters: how many; kernel: the positions that each looks at, odd: (kernel - 1) / 2 to each side.
    """

    def __init__(self, feature_width: int, *, filters: int = 8, kernel: int = 5) -> None:
        super().__init__(feature_width)
        self.convolution = nn.Conv1d(self.channels, filters, kernel, bias=False)
        self.map = nn.Linear(filters, feature_width, bias=False)

    def forward(self, past: Tensor) -> Tensor:
        # two linear maps in a row are one: a kernel for each feature that the score takes in
        kernel = self.convolution.kernel_size[0]
        kernels = self.map.weight @ self.convolution.weight.flatten(1)  # (feature_width, F) x (F, C * kernel)
        neighbours = F.pad(past, (kernel // 2, kernel // 2)).unfold(2, kernel, 1)  # (B, C, S, kernel)
        together = neighbours.transpose(1, 2).flatten(2)  # (B, S, C * kernel)
        return (together @ kernels.t()).unsqueeze(1)  # (B, 1, S, feature_width)

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
    """`location_coverage`: a convolution over both, the previous weights and the sum of all past ones, as many speech
    synthesisers have it (the sum alone: Shen et al. 2018, section 2.2).
    """

    channels = 2

    def update(self, past: Tensor, weights: Tensor) -> Tensor:
        return torch.stack([weights, past[:, 1] + weights], dim=1)
