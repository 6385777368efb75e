"""Confidence intervals over strings and over seeds."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Z_95 = statistics.NormalDist().inv_cdf(0.975)
RESAMPLES = 2000  # of a bootstrap


@dataclass(frozen=True)
class Estimate:
    """A number, such as a share, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def share(value: float, count: int) -> Estimate:
    """The mean `value` of `count` independent numbers from [0, 1], with Wilson's 95 % score
    interval (Wilson 1927).

    For numbers other than 0 and 1, such as each string's character accuracy, the interval is
    conservative: their variance is at most value * (1 - value).
    """
    z2 = Z_95**2
    centre = (value + z2 / (2 * count)) / (1 + z2 / count)
    half = Z_95 / (1 + z2 / count) * math.sqrt(value * (1 - value) / count + z2 / (4 * count**2))
    return Estimate(value, max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


def bootstrap(statistic: Callable[[Any], float], count: int, seed: int) -> Estimate:
    """`statistic` of `count` words, with its 95 % percentile bootstrap interval over words (Efron
    1979).

    It takes an array of indices of words: each resample draws as many as there are, with
    replacement. The interval depends only on the arguments.
    """
    import numpy  # not at the top: `--help` does not wait for it

    random = numpy.random.default_rng(seed)
    value = statistic(numpy.arange(count))
    values = [statistic(random.integers(count, size=count)) for _ in range(RESAMPLES)]
    low, high = (float(limit) for limit in numpy.quantile(values, [0.025, 0.975]))
    return Estimate(value, min(value, low), max(value, high))


@dataclass(frozen=True)
class SeedMean:
    """How a number varies from seed to seed."""

    count: int
    value: float  # the mean, as a table shows it
    deviation: float | None  # standard deviation over seeds (n - 1); None for one seed
    low: float | None
    high: float | None  # 95 % confidence interval of the mean, Student's; None for one seed
    least: float
    most: float


def mean_over_seeds(
    values: Sequence[float], least: float = -math.inf, most: float = math.inf
) -> SeedMean:
    """Mean, standard deviation, Student's 95 % interval of the mean, and the extremes of
    independent numbers.

    The interval assumes roughly normal numbers and is cut to the range of possible means, from
    `least` to `most`. If all numbers are equal its width is 0; that describes these numbers, not
    others.
    """
    count = len(values)
    mean = statistics.fmean(values)
    if count == 1:
        return SeedMean(1, mean, None, None, None, mean, mean)
    deviation = statistics.stdev(values, mean)
    half = t_quantile(count - 1) * deviation / math.sqrt(count)
    return SeedMean(
        count,
        mean,
        deviation,
        max(least, mean - half),
        min(most, mean + half),
        min(values),
        max(values),
    )


@functools.cache
def t_quantile(freedom: int) -> float:
    """t such that |T| < t with probability 0.95, T of Student's distribution with `freedom` degrees
    of freedom.

    The angle atan(t / sqrt(freedom)) is found by bisection of the finite series of Abramowitz &
    Stegun 26.7.3 and 26.7.4.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        angle = (low + high) / 2
        low, high = (angle, high) if _t_probability(angle, freedom) < 0.95 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _t_probability(angle: float, freedom: int) -> float:
    """P(|T| < t) for t = sqrt(freedom) * tan(angle)."""
    cosine, odd = math.cos(angle), freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(odd, freedom - 1, 2):  # cos + 2/3 cos^3 + ..., or 1 + 1/2 cos^2 + ...
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
