"""Intervals for what was measured on finite samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True)
class Estimate:
    """A share between 0 and 1 with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def share(value: float, count: int) -> Estimate:
    """The mean `value` of `count` independent numbers from [0, 1], with Wilson's 95 % score interval (Wilson 1927).

    Exact in spirit for yes/no numbers. For others, such as each string's character accuracy, the variance is at most
    value * (1 - value), so the interval is wide enough: conservative.
    """
    if count < 1 or not 0 <= value <= 1:
        raise ValueError(f"share({value}, {count}): needs 0 <= value <= 1 and count >= 1")
    z2 = Z_95**2
    centre = (value + z2 / (2 * count)) / (1 + z2 / count)
    half = Z_95 / (1 + z2 / count) * math.sqrt(value * (1 - value) / count + z2 / (4 * count**2))
    return Estimate(value, max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half)))
