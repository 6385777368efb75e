import functools
import itertools

from tables import table

from seq2attn.results.answers import Edit, align

WORDS = [word for length in range(4) for word in itertools.product("ab", repeat=length)]


@functools.cache
def distance(one, other):
    """Levenshtein's distance by its definition."""
    if not (one and other):
        return len(one) + len(other)
    substituted = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(distance(one[1:], other) + 1, distance(one, other[1:]) + 1, substituted)


def test_an_alignment_reads_as_both_sequences_and_has_as_many_errors_as_the_distance():
    pairs = [(tuple("kitten"), tuple("sitting")), (("t͡ʃ", "a"), ("t͡ʃ", "o", "n"))]
    assert [distance(*pair) for pair in pairs] == [3, 2]
    for one, other in [*itertools.product(WORDS, WORDS), *pairs]:
        edits = align(one, other)
        assert tuple(edit.reference for edit in edits if edit.reference) == one
        assert tuple(edit.hypothesis for edit in edits if edit.hypothesis) == other
        assert sum(edit.is_error for edit in edits) == distance(one, other)
        assert Edit("", "") not in edits


@table(
    "one, other, written",
    """
kitten | sitting | k>s i t t e>i n >g
saturday | sunday | s a> t> u r>n d a y
aa | a | a> a  # a tie: from the end, the match comes first
ab | ba | a>b b>a  # a tie: two substitutions, not a deletion and an insertion
'' | x | >x
""",
    "one",
)
def test_alignments_as_text(one, other, written):
    assert " ".join(map(str, align(one, other))) == written
