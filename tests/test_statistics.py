import math

import pytest

from seq2attn.statistics import share

Z = 1.959964


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (263 - 81, 263, 1 - 0.3662, 1 - 0.2553),
    ],
)
def test_wilson_as_published(hits, count, low, high):
    estimate = share(hits / count, count)
    assert estimate.value == hits / count
    assert estimate.low == pytest.approx(low, abs=5e-5)
    assert estimate.high == pytest.approx(high, abs=5e-5)


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_none_and_all_right(count):
    # at p = 0 the interval is [0, z^2 / (n + z^2)]; n = 10: 3.8415 / 13.8415 = .2775
    width = Z**2 / (count + Z**2)
    none, every = share(0.0, count), share(1.0, count)
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(width, rel=1e-6)
    assert every.low == pytest.approx(1 - width, rel=1e-6)


@pytest.mark.parametrize("value", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("count", [3, 50, 4000])
def test_the_ends_are_where_the_value_is_z_deviations_away(value, count):
    estimate = share(value, count)
    for end in (estimate.low, estimate.high):  # the defining equation
        assert abs(value - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / count), rel=1e-5)


def test_the_interval_holds_the_value_and_stays_within_0_and_1():
    for count in (1, 2, 3, 7, 100, 10**6):
        for numerator in range(101):
            estimate = share(numerator / 100, count)
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@pytest.mark.parametrize(("value", "count"), [(0.5, 0), (0.5, -3), (-0.01, 10), (1.01, 10), (math.nan, 10)])
def test_nonsense_is_refused(value, count):
    with pytest.raises(ValueError, match="share"):
        share(value, count)
