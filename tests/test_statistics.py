import math

import numpy as np
import pytest
import yaml
from tables import table

from seq2attn.results.statistics import (
    bootstrap,
    mean_over_seeds,
    rank,
    share,
    sign_flips,
    t_quantile,
)

Z = 1.959964


@table(
    "hits, count, low, high",
    """
81 | 263 | 0.2553 | 0.3662
15 | 148 | 0.0624 | 0.1605
0 | 20 | 0.0000 | 0.1611
1 | 29 | 0.0061 | 0.1718
""",
    "hits count low high",
)
def test_wilson_as_published(hits, count, low, high):
    """Newcombe 1998, Statistics in Medicine 17, table I, method 3"""
    estimate = share(hits / count, count)
    assert estimate.value == hits / count
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-5)


@table(
    "count",
    """
1
2
3
10
1000
1000000
""",
    "count",
)
def test_the_interval_contains_the_value_and_stays_within_0_and_1(count):
    # at p = 0 the interval is [0, z^2 / (n + z^2)]; n = 10: 3.8415 / 13.8415 = .2775
    width = Z**2 / (count + Z**2)
    none = share(0.0, count)
    every = share(1.0, count)
    assert none.low == 0.0
    assert every.high == 1.0
    assert (none.high, every.low) == pytest.approx((width, 1 - width), rel=1e-6)
    for numerator in range(101):
        estimate = share(numerator / 100, count)
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


# ---- the bootstrap ----


def test_the_bootstrap_of_a_share_is_close_to_the_normal_interval_and_the_same_again():
    hits = np.repeat([1, 0], [300, 700])
    ones = np.ones(1000)
    estimate = bootstrap(hits, ones)
    half = 1.96 * (0.3 * 0.7 / 1000) ** 0.5  # the standard error of a share is sqrt(p (1 - p) / n)
    assert estimate.value == 0.3
    assert (estimate.low, estimate.high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.004)
    assert estimate == bootstrap(hits, ones)


def test_the_bootstrap_keeps_the_numbers_of_a_word_together():
    """Errors in proportion to length: the ratio of any resample is the same, which it is not if
    they are drawn apart.
    """
    lengths = np.random.default_rng(0).integers(1, 20, size=50)
    estimate = bootstrap(lengths / 2, lengths)
    assert estimate.low == pytest.approx(0.5)
    assert estimate.high == pytest.approx(0.5)


# ---- over seeds ----


def test_student_s_t_where_it_has_a_closed_form():
    # one degree of freedom is Cauchy's distribution: tan(pi * 0.475); two: P(|T| < t) = t / sqrt(2
    # + t^2)
    assert t_quantile(1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)
    assert t_quantile(2) == pytest.approx(math.sqrt(2 * 0.95**2 / (1 - 0.95**2)), rel=1e-12)
    assert t_quantile(5_000) == pytest.approx(Z, abs=5e-4)


def test_student_1908_sleep_data():
    # Student 1908: hours of sleep gained by ten patients, the one drug less the other
    gains = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    found = mean_over_seeds(gains, -24, 24)
    assert found.count == 10
    assert found.value == pytest.approx(1.58)
    assert found.deviation == pytest.approx(1.2300, abs=5e-5)
    assert (found.low, found.high) == pytest.approx((0.7001, 2.4599), abs=5e-5)
    assert found.effect_size == pytest.approx(1.58 / 1.2300, abs=5e-5)
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)  # R: t.test(extra, paired = TRUE)
    alike = mean_over_seeds([0.5, 0.5], 0, 1)
    assert alike.effect_size is alike.p_value is mean_over_seeds([0.5], 0, 1).p_value is None


@table(
    "first, second, p",
    """
10 | 2 | 0.03857421875  # twice the lower tail of 12 tosses: 2 (1 + 12 + 66) / 4096
2 | 10 | 0.03857421875
0 | 5 | 0.0625  # 2 / 32
1 | 1 | 1.0
0 | 0 | 1.0
10000 | 10200 | 0.16146401541462277  # scipy.stats.binomtest(10_000, 20_200).pvalue
""",
    "first second p",
)
def test_sign_flips_of_equal_differences_are_mcnemars_exact_test(first, second, p):
    for size in (1, 3):
        differences = [size] * first + [-size] * second + [0] * 9
        assert sign_flips(differences) == pytest.approx(p, rel=1e-9)
        if first > 1000:  # once is enough
            break


def test_sign_flips_of_different_sizes_are_those_of_every_choice_of_signs():
    """Of the 16 sums of +-3 +-2 +-1 +-1, 6 are at least 5 from 0: 7, 5, 5, and -7, -5, -5."""
    assert sign_flips([3, 2, 1, -1]) == pytest.approx(6 / 16)
    assert sign_flips([-3, -2, -1, 1]) == sign_flips([3, 2, 1, -1])
    assert sign_flips([5, 4] * 30) == pytest.approx(2 / 2**60)


def test_ranks_of_numbers_by_seed():
    rates = yaml.safe_load("{a: {1: 0.5, 2: 0.6}, b: {1: 0.1, 2: 0.2}, c: {1: 0.9, 2: 0.1}}")
    found = rank(rates, 1.0, lower_is_better=True)
    assert {name: one.rank for name, one in found.items()} == {"b": 1, "c": 2, "a": 3}
    assert found["a"].behind.value == pytest.approx(0.4)  # by 0.4 with both seeds
    assert [one.may_be_best for one in found.values()] == [True, True, False]
    shares = yaml.safe_load("{a: {1: 1.0, 2: 0.7}, b: {1: 0.0, 2: 0.4}}")
    _, worst = rank(shares, 1.0, lower_is_better=False).values()
    assert (worst.behind.low, worst.behind.high) == (-1, 1)
    shares = yaml.safe_load("{a: {1: 0.5}, b: {1: 0.9}, c: {2: 0.9}, d: {}}")
    found = rank(shares, 1.0, lower_is_better=False)
    assert [(name, one.rank) for name, one in found.items()] == [("b", 1), ("c", 1), ("a", 3)]
    assert found["c"].behind is None  # no seed in common
