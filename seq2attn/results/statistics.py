"""Confidence intervals over strings and over seeds."""

from __future__ import annotations

import functools
import math
import statistics
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Z_95 = statistics.NormalDist().inv_cdf(0.975)
RESAMPLES = 2000  # of a bootstrap
FINE = 2**50


class Estimate(NamedTuple):
    """A number, such as a share, with its 95 % confidence interval, or without one."""

    value: float
    low: float | None = None
    high: float | None = None


def effective_count(words: Sequence[int]) -> float:
    """Return how many independent answers as many sources are worth, of which each counts as so
    many words: (sum w)^2 / sum w^2 (Kish 1965). The words of a source share its answer.
    """
    return sum(words) ** 2 / sum(count**2 for count in words)


def share(value: float, count: float) -> Estimate:
    """Return the mean `value` of `count` independent numbers from [0, 1] with Wilson's 95 % score
    interval (Wilson 1927). Of numbers that depend on each other, count is how many independent ones
    they are worth, not always a whole number.

    For numbers other than 0 and 1, such as each string's character accuracy, the interval is
    conservative: their variance is at most value * (1 - value).
    """
    z2 = Z_95**2
    centre = (count * value + z2 / 2) / (count + z2)
    half = Z_95 * math.sqrt(count * value * (1 - value) + z2 / 4) / (count + z2)
    low = max(0.0, min(value, centre - half))  # rounding might exclude the value itself
    return Estimate(value, low, min(1.0, max(value, centre + half)))


def bootstrap(parts: ArrayLike, wholes: ArrayLike) -> Estimate:
    """Return the sum of parts divided by the sum of wholes, such as edits by symbols, with its 95 %
    percentile bootstrap interval over sources (Efron 1979).

    parts and wholes (N,), a number for each of N sources. Each resample draws N sources with
    replacement, and keeps the numbers of a source together. The interval depends only on the
    arguments.
    """
    import numpy  # not at the top: `--help` does not wait for it

    random = numpy.random.default_rng(0)
    numbers = numpy.array([parts, wholes], dtype=float)  # (2, N)
    count = numbers.shape[1]
    sums = []
    for _ in range(RESAMPLES):
        drawn = random.integers(count, size=count)  # (N,)
        times = numpy.bincount(drawn, minlength=count)  # (N,) how often each source was drawn
        sums.append(numbers @ times)  # (2,)
    part, whole = numpy.transpose(sums)  # (RESAMPLES,) each
    low, high = numpy.quantile(part / whole, [0.025, 0.975])
    part, whole = numbers.sum(axis=1)
    value = float(part / whole)
    # an interval contains its value, as `Row` checks
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def sign_flips(differences: Iterable[int]) -> float:
    """Return the two-sided p-value of the exact permutation test of two models (Fisher 1935).

    differences: a number for each source, such as how many more of its lines the first model got
    right than the second.

    If both models are equally good, each difference could as well have the other sign: p is the
    share of all choices of signs whose sum is as far from 0 as that of the given differences. Where
    all are equally large, this is McNemar's exact test (McNemar 1947; exact form: Edwards 1948).
    """
    import numpy

    differing = [difference for difference in differences if difference]
    total = sum(map(abs, differing))
    # the share of the choices in which the positive differences sum to k, for k from 0 to `total`
    shares = numpy.zeros(total + 1)
    shares[0] = 1.0
    for difference in differing:
        shares /= 2  # half of the choices have it negative, and in the others it is added
        size = abs(difference)
        shares[size:] += shares[:-size].copy()
    sums = numpy.arange(-total, total + 1, 2)
    return min(1.0, float(shares[abs(sums) >= abs(sum(differing))].sum()))


def paired_difference(only_a: float, only_b: float, count: float) -> Estimate:
    """Return how much higher the error rate of A is than that of B on the same `count` independent
    words, with its 95 % interval (Agresti & Min 2005).

    only_a, only_b: how many of the words only A, or only B, got right.
    """
    difference, total = only_b - only_a, count + 2  # 1/2 is added to each of the four counts
    half = Z_95 * math.sqrt(only_a + only_b + 1 - difference**2 / total) / total
    value, centre = difference / count, difference / total
    # an interval contains its value
    return Estimate(value, min(value, centre - half), max(value, centre + half))


@dataclass(frozen=True)
class SeedMean:
    """How a number varies from seed to seed."""

    count: int
    value: float
    """the mean, as a table shows it"""
    deviation: float | None = None
    """standard deviation over seeds (n - 1); None for one seed"""
    low: float | None = None
    high: float | None = None
    """the ends of Student's 95 % confidence interval of the mean; None for one seed"""

    @property
    def effect_size(self) -> float | None:
        """Cohen's d against 0, in standard deviations, of differences the paired d; None for one
        seed, and for numbers that are all equal.
        """
        return self.value / self.deviation if self.deviation else None

    @property
    def p_value(self) -> float | None:
        """The two-sided p-value of the t-test that belongs to the interval: how probable a mean at
        least as far from 0 is, if the true one is 0. None where there is no effect size: for one
        seed, and for numbers that are all equal.
        """
        if self.effect_size is None:
            return None
        t = abs(self.effect_size) * math.sqrt(self.count)
        # (rounding may bring the probability above 1)
        return max(0.0, 1 - _t_probability(t, self.count - 1))


def mean_over_seeds(values: Collection[float], lowest: float, highest: float) -> SeedMean:
    """Return mean, standard deviation, and Student's 95 % interval of the mean of independent
    numbers, such as one for each seed. Of a single number there is only the mean.

    The interval assumes roughly normal numbers and is cut to the range of possible means, from
    `lowest` to `highest`. If all numbers are equal its width is 0; that describes these numbers,
    not others.
    """
    count, mean = len(values), statistics.fmean(values)
    if count == 1:
        return SeedMean(1, mean)
    deviation = statistics.stdev(values, mean)
    half = t_quantile(count - 1) * deviation / math.sqrt(count)
    low, high = max(lowest, mean - half), min(highest, mean + half)
    return SeedMean(count, mean, deviation, low, high)


@functools.cache
def t_quantile(freedom: int) -> float:
    """Return t such that |T| < t with probability 0.95, where T has Student's distribution with
    `freedom` degrees of freedom, by bisection among the multiples of 1 / `FINE`.
    """
    # it is 12.7 with one degree of freedom, and else smaller
    steps = range(13 * FINE)
    return bisect(steps, 0.95, key=lambda step: _t_probability(step / FINE, freedom)) / FINE


def _t_probability(t: float, freedom: int) -> float:
    """Return P(|T| < t) where T has Student's distribution with `freedom` degrees of freedom: the
    finite series of Abramowitz & Stegun, 26.7.3 for odd ones, 26.7.4 for even ones.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(odd, freedom - 1, 2):  # cos + 2/3 cos^3 + ..., or 1 + 1/2 cos^2 + ...
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


# ---- groups over the same seeds ----

Values = Mapping[int, float]
"""seed -> value of a metric"""


@dataclass(frozen=True)
class Ranked:
    """A group's position among all, by the metric's mean over the lengths."""

    rank: int | None = None
    """from 1, the best; groups with the same mean share a rank. None where groups are not ranked"""
    overall: SeedMean | None = None  # over seeds
    behind: SeedMean | None = None
    """difference from the best group, seed by seed, so on average not better; None for the best
    itself, and without a common seed"""

    @property
    def may_be_best(self) -> bool:
        """True if these seeds leave open that it is as good as the best: the interval of the
        difference contains 0, or there is none.
        """
        behind = self.behind
        if behind is None or behind.low is None or behind.high is None:
            return True
        return behind.low <= 0 <= behind.high


def rank(
    values: Mapping[str, Values], largest: float, *, lower_is_better: bool
) -> dict[str, Ranked]:
    """Return the ranks of groups by their labels, the best first, each with its mean over seeds and
    its difference from the best. A group without values is left out.

    values: label -> seed -> the value of a metric, of which either lower or higher is better.
    largest: its largest possible value.
    """
    means = {
        group: mean_over_seeds(by_seed.values(), 0.0, largest)
        for group, by_seed in values.items()
        if by_seed
    }
    order = sorted(means, key=lambda group: means[group].value, reverse=not lower_is_better)
    values_in_order = [means[group].value for group in order]
    ranks = {}
    for group in order:
        # the best is not behind itself: without values to compare with, there is no difference
        of_best = {} if group == order[0] else values[order[0]]
        behind = mean_difference(values[group], of_best, largest)
        # the index is the same where means are equal
        number = 1 + values_in_order.index(means[group].value)
        ranks[group] = Ranked(number, means[group], behind)
    return ranks


def mean_difference(values: Values, others: Values, largest: float) -> SeedMean | None:
    """Return the mean difference of values, from 0 to `largest`, from `others` with the same seed;
    None without a common seed.
    """
    differences = [value - others[seed] for seed, value in values.items() if seed in others]
    return mean_over_seeds(differences, -largest, largest) if differences else None
