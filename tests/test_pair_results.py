"""Word and symbol error rates: by hand, against simple counting, and on a scripted model; and the
edits between an answer and the right one.
"""

import functools
import itertools
import json
import math
from collections import Counter
from pathlib import Path

import pytest
from models import predictor_of
from refusal import refused
from tables import table
from test_evaluation import FakeModel

from seq2attn.data.tasks.pairs import Pairs
from seq2attn.data.vocabulary import EOS
from seq2attn.inference.evaluation import error_rates, evaluate_pairs
from seq2attn.results.answers import PairAnswer, align, errors_table
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import rows_of
from seq2attn.results.statistics import share
from seq2attn.runs.records import parse


def answer(source, right, found, *, finished=True):
    """An answer whose symbols are separated by spaces."""
    edits = tuple(align(right.split(), found.split()))
    return PairAnswer(source, right, found, len(source), len(right.split()), edits, finished)


ANSWERS = (
    answer("ab", "t͡ʃ o", "t͡ʃ o"),
    answer("abc", "a b c", "a b d"),
    answer("b", "b", "b b"),
    answer("ca", "c a", "d a"),
    answer("cab", "c a b", "d a b"),
    answer("abca", "a b c a", "\u0303"),
    answer("bb", "b b", "b b", finished=False),
)
RATES = error_rates(ANSWERS) | {"loss": 0.5}
RESULT = Evaluation(
    (*rows_of(RATES, [1] * 7, length=None, trained=True),), ANSWERS, data={"name": "f"}
)


def test_rates_counted_by_hand():
    rates = {row.metric: row for row in RESULT.rows}
    wer = rates["wer"]  # all but the first are wrong: the last was cut off
    assert (wer.low, wer.high) == share(6 / 7, 7)[1:]
    assert rates["cut_off"].value == pytest.approx(1 / 7)
    ser = rates["ser"].value
    assert rates["ser"].low < ser < rates["ser"].high
    assert RESULT.summary() == {"wer": 6 / 7, "ser": ser, "dev_loss": 0.5}
    assert RESULT.describe() == f"WER 85.7 %, SER {100 * ser:.1f} %, loss 0.500 on the dev set"
    assert RESULT.tables()[0].notes[1].endswith(": c>d 3, >b 1, a> 1, b> 1, c> 1, a>\u25cc\u0303 1")


def test_errors_are_sorted_for_reading():
    assert list(errors_table(RESULT.errors()).tsv()) == [
        "source\tfeatures\tright\tanswer\tedits\twhat",
        "bb\t\tb b\tb b\t0\t(cut off)",
        "b\t\tb\tb b\t1\t>b",
        "abc\t\ta b c\ta b d\t1\tc>d",
        "ca\t\tc a\td a\t1\tc>d",
        "cab\t\tc a b\td a b\t1\tc>d",
        "abca\t\ta b c a\t\u0303\t4\ta> b> c> a>\u0303",
    ]


def test_the_record_is_plain_json_and_reads_back():
    text = json.dumps(RESULT.to_json("a"))
    record = json.loads(text)
    assert parse(Evaluation, text.encode(), Path("a.json")) == RESULT
    assert record["answers"][1]["edits"] == [["c", "d"]]
    with refused("answers"):
        parse(
            Evaluation, json.dumps({**record, "answers": [{"source": 3}]}).encode(), Path("a.json")
        )


# ---- a model whose answers are known ----


def measured(folder, pairs, written, **options):
    """The evaluation of a model that writes `written[source]`; the task learned a to d, and a' to
    e' as targets.
    """
    (folder / "train.tsv").write_text("a\ta' b' c' d' e'\nbcd\te'\n")
    file = str(folder / "train.tsv")
    task = Pairs(train=file, dev=file, target_separator=" ")
    read = task.source_vocabulary.encode
    write = task.target_vocabulary.encode
    outputs = {read(source)[0]: [*write(text), EOS] for source, text in written.items()}
    model = FakeModel(lambda ids: outputs[ids[0]], size=len(task.target_vocabulary))
    return evaluate_pairs(predictor_of(model, task, True), pairs, **options)


def pairs_of(text):
    """`pairs_of("a: x y, b: z")` -> `[("a", "x y"), ("b", "z")]`"""
    return [tuple(pair.split(": ")) for pair in text.split(", ")]


def test_error_rates_by_hand(tmp_path):
    """Of 4 words one is right; the others lack a symbol, have one too many, and have one wrong: 3
    edits of 8 symbols.

    The loss is that of 12 tokens, of which 3 are wrong: <eos> counts too.
    """
    right = pairs_of("a: a' b', bb: c' d', c: a', dd: a' b' c'")
    written = {"a": "a' b'", "bb": "c'", "c": "a' e'", "dd": "a' b' d'"}
    result = measured(tmp_path, right, written)
    expected = [(source, written[source], source == "a") for source, _ in right]
    assert [(one.source, one.answer, one.is_right) for one in result.answers] == expected
    assert [str(edit) for one in result.answers for edit in one.edits] == ["d'>", ">e'", "c'>d'"]
    assert {row.metric: row.value for row in result.rows if row.length is None} == {
        **{"wer": 3 / 4, "ser": 3 / 8, "cut_off": 0},
        # the logit of the written token is 1, those of the 8 others are 0
        "loss": pytest.approx(math.log(1 + 8 / math.e) + 3 / 12, abs=1e-5),
    }
    by_length = [
        (row.length, row.samples, row.value, row.trained) for row in result.by_length("exact_match")
    ]
    assert by_length == [(1, 2, 0.5, True), (2, 2, 0, True)]


def test_a_source_with_several_right_answers_is_one_word_and_any_of_them_counts(tmp_path):
    pairs = pairs_of("a: b' b', b: b', a: a' b', b: b' b', a: a' b'")
    result = measured(tmp_path, pairs, {"a": "a' b'", "b": "a'"})
    expected = [("a", "a' b'", True), ("b", "b'", False)]
    assert [(one.source, one.right, one.is_right) for one in result.answers] == expected
    assert result.get("wer").value == 1 / 2
    assert result.get("ser").value == 1 / 3
    assert [row.samples for row in result.by_length("exact_match")] == [2]


TWICE = pairs_of("a: a', a: a', a: b', b: b', c: c', c: a'")


def test_lines_of_a_source_count_together(tmp_path):
    """a is right and has three lines, b is wrong with one, c wrong with two: 3 of 6 lines."""
    result = measured(tmp_path, TWICE, {"a": "b'", "b": "a'", "c": "b' b'"}, tokens=True)
    found = [(one.source, one.right, one.others, one.words) for one in result.answers]
    expected = [("a", "b'", ("a'",), 3), ("b", "b'", (), 1), ("c", "c'", ("a'",), 2)]
    assert found == expected
    rates = {name: result.get(name) for name in ("wer", "ser", "cut_off")}
    assert [(row.value, row.samples) for row in rates.values()] == [(1 / 2, 6), (5 / 6, 6), (0, 6)]
    (by_length,) = result.by_length("exact_match")
    assert (by_length.value, by_length.samples) == (1 / 2, 6)
    # 3, 1 and 2 lines are worth (3 + 1 + 2)^2 / (9 + 1 + 4) = 18/7 independent ones; Wilson's
    # interval of p = 1/2 is 1/2 +- z / (2 sqrt(n + z^2)), of p = 0 from 0 to z^2 / (n + z^2)
    half = 1.959964 / 2 / (18 / 7 + 1.959964**2) ** 0.5
    for row in (rates["wer"], by_length):
        assert (row.low, row.high) == pytest.approx((1 / 2 - half, 1 / 2 + half))
    assert rates["cut_off"].high == pytest.approx(4 * half**2)


def test_pairs_of_answers_are_found_by_their_source(tmp_path):
    answers = {"a": "b'", "b": "a'", "c": "a'"}
    good = measured(tmp_path, TWICE, answers, tokens=True)
    bad = measured(tmp_path, TWICE[::-1], {"a": "c'", "b": "b'", "c": "a'"}, tokens=True)
    # a counts three times for the first, b once for the second: 4 sums of +-3 +-1, of which 4
    # are at least 2 from 0
    only_good, only_bad, difference, p = good.paired(bad)
    assert (only_good, only_bad, p) == (3, 1, 1.0)
    # of 18/7 independent lines, 9/7 only for the first and 3/7 only for the second; in the
    # interval n + 2 = 32/7 lines, the centre (3/7 - 9/7) / (32/7)
    half = 1.959964 * (12 / 7 + 1 - (6 / 7) ** 2 / (32 / 7)) ** 0.5 / (32 / 7)
    assert difference == pytest.approx((-2 / 6, -6 / 32 - half, -6 / 32 + half))
    once = measured(tmp_path, TWICE, answers)
    assert once.paired(once).p == 1.0
    with refused("'a' counts 3 times in A, 1 in B"):
        good.paired(once)
    with refused("the right answers to 'c' are .*a'.*c'.* for A and .*c'.* for B"):
        once.paired(measured(tmp_path, TWICE[:5], answers))
    with refused("the right answers to 'b' are .*b'.* for A and .*a'.* for B"):
        other = [(source, target if source != "b" else "a'") for source, target in TWICE]
        once.paired(measured(tmp_path, other, answers))
    with refused(
        "the right answers to 'c' are .*a'.*c'.* for A and .*a'.*b'.* for B"
    ):  # both have a'
        other = [*TWICE[:4], ("c", "b'"), ("c", "a'")]
        once.paired(measured(tmp_path, other, answers))
    with refused("only B has 'dd'"):
        once.paired(measured(tmp_path, [*TWICE, ("dd", "a'")], {**answers, "dd": "a'"}))


# ---- edits ----


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
