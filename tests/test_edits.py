import functools
import itertools
from collections import Counter

from tables import table

from seq2attn.results.answers import align

WORDS = [word for length in range(4) for word in itertools.product("ab", repeat=length)]


@functools.cache
def distance(one, other):
    """Levenshtein's distance by its definition."""
    if not (one and other):
        return len(one) + len(other)
    substituted = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(distance(one[1:], other) + 1, distance(one, other[1:]) + 1, substituted)


def test_an_alignment_has_as_many_errors_as_the_distance_and_matches_what_is_left():
    pairs = [(tuple("kitten"), tuple("sitting")), (("t͡ʃ", "a"), ("t͡ʃ", "o", "n"))]
    assert [distance(*pair) for pair in pairs] == [3, 2]
    for one, other in [*itertools.product(WORDS, WORDS), *pairs]:
        edits = align(one, other)
        assert len(edits) == distance(one, other)
        replaced = [edit.reference for edit in edits if edit.reference]
        written = [edit.hypothesis for edit in edits if edit.hypothesis]
        assert Counter(one) - Counter(replaced) == Counter(other) - Counter(written)


@table(
    "one, other, written",
    """
kitten | sitting | k>s e>i >g
saturday | sunday | a> t> r>n
aa | a | a>  # a tie: from the end, the match comes first
ab | ba | a>b b>a  # a tie: two substitutions, not a deletion and an insertion
'' | x | >x
""",
    "one",
)
def test_alignments_as_text(one, other, written):
    assert " ".join(map(str, align(one, other))) == written
