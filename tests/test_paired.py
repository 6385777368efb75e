"""Two systems compared word by word."""

import itertools

import pytest
from measured import row

from seq2attn.inference.edits import Edit
from seq2attn.inference.paired import paired_difference
from seq2attn.inference.results import Evaluation, PairAnswer
from seq2attn.inference.statistics import mcnemar


def result(wrong, words=10, length=4, order=1):
    """Words of four symbols; `wrong` maps a word's number to its edits."""
    answers = [
        PairAnswer(str(word), "r", "a", 1, length, (Edit("a", "b"),) * wrong.get(word, 0), True)
        for word in range(words)
    ]
    return Evaluation((row("wer", None, 0.0),), tuple(answers[::order]))


def test_counts_and_differences_by_hand():
    difference = paired_difference([result({0: 1, 1: 2, 2: 1})], [result({1: 1, 3: 4}, order=-1)])
    assert (difference.words, difference.only_one, difference.only_other) == (10, 1, 2)
    assert difference.wer.value == pytest.approx(0.2 - 0.3)
    assert difference.ser.value == pytest.approx(5 / 40 - 4 / 40)
    assert difference.wer.low <= difference.wer.value <= difference.wer.high


def test_several_seeds_of_a_system_count_together():
    """Word 0: right with neither seed of the one and both of the other; word 1: with one seed of each."""
    difference = paired_difference([result({0: 1, 1: 1}), result({0: 1})], [result({}), result({1: 2})])
    assert (difference.only_one, difference.only_other) == (0, 1)
    assert difference.wer.value == pytest.approx(1 / 20 - 3 / 20)
    assert difference.ser.value == pytest.approx(2 / 80 - 3 / 80)
    for others in ([result({}), result({})], [result({}, 11)]):
        with pytest.raises(ValueError, match="not on the same sources"):
            paired_difference([result({})], others)


def test_equal_systems_do_not_differ():
    difference = paired_difference([result({0: 1, 5: 3})], [result({0: 1, 5: 3})])
    assert (difference.wer.low, difference.wer.high, difference.ser.low, difference.ser.high) == (0, 0, 0, 0)
    assert difference.p_value == 1


def test_what_both_get_wrong_does_not_widen_the_interval():
    """Pairing: 40 shared errors and 4 of one system alone; of independent systems the interval would contain 0 by far."""
    shared = dict.fromkeys(range(40), 1)
    difference = paired_difference([result(shared, 100)], [result({**shared, 90: 1, 91: 1, 92: 1, 93: 1}, 100)])
    half = 1.96 * (0.04 * 0.96 / 100) ** 0.5  # of 4 in 100
    assert difference.wer.value == pytest.approx(0.04)
    assert difference.wer.low == pytest.approx(0.04 - half, abs=0.012)
    assert difference.wer.high == pytest.approx(0.04 + half, abs=0.012)


@pytest.mark.parametrize(("only_one", "only_other"), [(0, 0), (0, 5), (1, 7), (3, 3), (6, 2)])
def test_mcnemar_against_enumeration(only_one, only_other):
    """Every way in which each differing word could have gone to either system, all equally likely."""
    count, uneven = only_one + only_other, abs(only_one - only_other)
    splits = [sum(split) for split in itertools.product([0, 1], repeat=count)]
    expected = sum(abs(count - 2 * ones) >= uneven for ones in splits) / len(splits)
    assert mcnemar(only_one, only_other) == pytest.approx(expected)


def test_mcnemar_of_many_words_is_nearly_normal():
    assert mcnemar(2000, 2100) == pytest.approx(0.122, abs=0.003)  # normal: z = 99 / sqrt(4100) = 1.546, p = 0.122
