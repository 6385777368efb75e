import itertools

import pytest

from seq2attn.inference.edits import Edit, align, edit_distance

WORDS = [word for length in range(4) for word in itertools.product("ab", repeat=length)]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("kitten", "sitting", 3),
        ("saturday", "sunday", 3),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("", "", 0),
        (["t͡ʃ", "a"], ["t͡ʃ", "o", "n"], 2),  # of several characters, but one symbol
    ],
)
def test_published_and_hand_counted_distances(one, other, distance):
    assert edit_distance(one, other) == edit_distance(other, one) == distance


def test_an_alignment_reads_as_both_sequences_and_has_as_many_errors_as_the_distance():
    for one, other in itertools.product(WORDS, WORDS):
        edits = align(one, other)
        assert tuple(edit.reference for edit in edits if edit.reference) == one
        assert tuple(edit.hypothesis for edit in edits if edit.hypothesis) == other
        assert sum(edit.is_error for edit in edits) == edit_distance(one, other)
        assert Edit("", "") not in edits


@pytest.mark.parametrize(
    ("one", "other", "written"),
    [
        ("kitten", "sitting", "k>s i t t e>i n >g"),
        ("saturday", "sunday", "s a> t> u r>n d a y"),
        ("ab", "b", "a> b"),
        ("aa", "a", "a> a"),  # a tie: from the end, the match comes first
        ("ab", "ba", "a>b b>a"),  # a tie: two substitutions, not a deletion and an insertion
        ("", "x", ">x"),
    ],
)
def test_alignments_as_text(one, other, written):
    assert " ".join(map(str, align(one, other))) == written
