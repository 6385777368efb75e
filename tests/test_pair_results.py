"""Word and symbol error rates: counted by hand, against simple counting, and on a scripted model."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.edits import Edit, align
from seq2attn.inference.evaluation import _rates, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation, PairAnswer, rows_of
from seq2attn.inference.statistics import bootstrap_ratio, share
from seq2attn.model.interface import Decoded
from seq2attn.runs.records import parse

CPU = torch.device("cpu")


def answer(source, right, found, *, finished=True, unseen=0, reachable=True):
    """An answer whose symbols are separated by spaces."""
    edits = tuple(edit for edit in align(right.split(), found.split()) if edit.is_error)
    return PairAnswer(source, right, found, len(source), len(right.split()), edits, finished, unseen, reachable)


ANSWERS = (
    answer("ab", "t͡ʃ o", "t͡ʃ o"),
    answer("abc", "a b c", "a b d", unseen=1),
    answer("b", "b", "b b"),
    answer("ca", "c a", "d a", reachable=False),
    answer("cab", "c a b", "d a b"),
    answer("abca", "a b c a", "x"),
    answer("bb", "b b", "b b", finished=False),
)
RESULT = Evaluation((*rows_of(_rates(ANSWERS, 0.5, 2000), 7, length=None, trained=True),), ANSWERS, data={"name": "f"})


def test_rates_counted_by_hand():
    rates = {row.metric: row for row in RESULT.rows}
    for metric, expected in (("wer", share(6 / 7, 7)), ("unreachable", share(1 / 7, 7))):
        assert (rates[metric].value, rates[metric].low, rates[metric].high) == (
            expected.value,
            expected.low,
            expected.high,
        )  # all but the first are wrong: the last was cut off
    ser = rates["ser"].value
    assert ser == pytest.approx((0 + 1 + 1 + 1 + 1 + 4 + 0) / (2 + 3 + 1 + 2 + 3 + 4 + 2))
    assert rates["ser"].low < ser < rates["ser"].high
    assert rates["unseen"].value == pytest.approx(1 / (1 + 2 + 3 + 2 + 1 + 4 + 4))
    assert RESULT.summary() == {"wer": 6 / 7, "ser": ser, "dev_loss": 0.5}
    assert RESULT.describe() == f"WER 85.7 %, SER {100 * ser:.1f} %, loss 0.500 on the dev set"


def test_errors_are_sorted_for_reading():
    assert [one.source for one in RESULT.errors()] == ["bb", "abc", "ca", "cab", "b", "abca"]
    assert list(RESULT.errors_table().tsv()) == [
        "source\tright\tanswer\tedits\twhat",
        "bb\tb b\tb b\t0\t(cut off)",
        "abc\ta b c\ta b d\t1\tc>d",
        "ca\tc a\td a\t1\tc>d",
        "cab\tc a b\td a b\t1\tc>d",
        "b\tb\tb b\t1\t>b",
        "abca\ta b c a\tx\t4\ta> b> c> a>x",
    ]


def test_features_have_a_column_of_their_own():
    answers = (answer("go\tV;PST", "w e n t", "g o"), answer("x", "x", ""))
    lines = list(replace(RESULT, answers=answers).errors_table().tsv())
    assert [line.split("\t")[:4] for line in lines] == [
        ["source", "features", "right", "answer"],
        ["x", "", "x", ""],
        ["go", "V;PST", "w e n t", "g o"],
    ]


def test_confusions_are_counted_over_all_words():
    assert RESULT.confusions()[0] == (Edit("c", "d"), 3)
    assert sum(count for _, count in RESULT.confusions()) == 8


def test_the_record_is_plain_json_and_reads_back():
    text = json.dumps(RESULT.to_json("a"))
    record = json.loads(text)
    assert parse(Evaluation, text.encode(), Path("a.json")) == RESULT
    assert record["answers"][1]["edits"] == [["c", "d"]]
    with pytest.raises(Seq2AttnError, match="answers"):
        parse(Evaluation, json.dumps({**record, "answers": [{"source": 3}]}).encode(), Path("a.json"))


# ---- the bootstrap ----


def test_the_bootstrap_of_equal_words_has_no_width():
    estimate = bootstrap_ratio([1] * 30, [4] * 30, seed=0)
    assert (estimate.value, estimate.low, estimate.high) == (0.25, 0.25, 0.25)


def test_the_bootstrap_of_shares_is_close_to_the_normal_interval():
    """1 or 0 of 1 symbol each: the standard error is sqrt(p (1 - p) / n)."""
    numbers = [1] * 300 + [0] * 700
    estimate = bootstrap_ratio(numbers, [1] * 1000, seed=1)
    half = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert estimate.value == 0.3
    assert estimate.low == pytest.approx(0.3 - half, abs=0.004) and estimate.high == pytest.approx(
        0.3 + half, abs=0.004
    )


def test_the_bootstrap_keeps_the_numbers_of_a_word_together():
    """Errors in proportion to length: the ratio of any resample is the same, which it is not if they are drawn apart."""
    lengths = [random.Random(0).randint(1, 20) for _ in range(50)]
    estimate = bootstrap_ratio([length / 2 for length in lengths], lengths, seed=0)
    assert (estimate.low, estimate.high) == (pytest.approx(0.5), pytest.approx(0.5))


def test_the_bootstrap_depends_on_its_seed_alone():
    numbers, below = [0, 1, 2, 0, 3], [3, 4, 5, 6, 7]
    assert bootstrap_ratio(numbers, below, seed=3) == bootstrap_ratio(numbers, below, seed=3)
    assert bootstrap_ratio(numbers, below, seed=3) != bootstrap_ratio(numbers, below, seed=4)
    with pytest.raises(ValueError, match="above 0"):
        bootstrap_ratio([1], [0], seed=0)


# ---- a model whose answers are known ----


class Spelling(Task):
    """Letters to spaced symbols; `c` is unknown."""

    def __init__(self):
        self.source_vocabulary = Vocabulary("ab", unknown=True)
        self.target_vocabulary = Vocabulary(["A", "B", "t͡ʃ"], separator=" ", unknown=True)
        self.min_length, self.max_length = 1, 3

    def examples(self, random, count, length=None):
        raise AssertionError("a measurement on files draws no examples")

    def target_length(self, source_length):
        return source_length


class Echo(torch.nn.Module):
    """Writes A for a, B for b, and <unk> for anything else, symbol by symbol; then <eos>."""

    def encode(self, source, lengths):
        return (), (source, torch.zeros((), dtype=torch.int64))

    def step(self, tokens, state, memory):
        source, place = state
        return Decoded(self._logits(source)[:, place : place + 1], None), (source, place + 1)

    def forward(self, batch, resets=None):
        return Decoded(self._logits(batch.source)[:, : batch.decoder_input.size(1)], None)

    def select(self, state, rows):
        return state

    def _logits(self, source):
        padded = torch.nn.functional.pad(source, (0, 20)).clamp(min=2)  # past the end: <eos>
        return 10.0 * torch.nn.functional.one_hot(padded, 7)


def measured(*pairs):
    return evaluate_pairs(Predictor(Echo(), Spelling(), source_eos=True, device=CPU), pairs)


def test_a_scripted_model_is_measured_as_counted_by_hand():
    result = measured(("ab", "A B"), ("a", "B"), ("bab", "B t͡ʃ"), ("ac", "A A"))
    assert [(one.source, one.answer, one.is_right) for one in result.answers] == [
        ("ab", "A B", True),
        ("a", "A", False),
        ("bab", "B A B", False),
        ("ac", "A <unk>", False),
    ]
    assert [str(edit) for one in result.answers for edit in one.edits] == ["B>A", ">A", "t͡ʃ>B", "A><unk>"]
    rates = {row.metric: row.value for row in result.rows if row.length is None}
    assert rates.pop("loss") > 1
    assert rates == {"wer": 3 / 4, "ser": 4 / 7, "unseen": 1 / 8, "unreachable": 0}
    by_length = {row.length: (row.samples, row.value, row.trained) for row in result.by_length("exact_match")}
    assert by_length == {1: (1, 0, True), 2: (2, 0.5, True), 3: (1, 0, True)}


def test_a_source_with_several_right_answers_is_one_word_and_any_of_them_counts():
    result = measured(("ab", "B B"), ("a", "B"), ("ab", "A B"), ("a", "B B"), ("ab", "A B"))
    assert [(one.source, one.right, one.is_right) for one in result.answers] == [("ab", "A B", True), ("a", "B", False)]
    assert (result.get("wer").value, result.get("ser").value) == (1 / 2, 1 / 3)
    assert [row.samples for row in result.by_length("exact_match")] == [1, 1]


def test_a_right_answer_with_an_unseen_symbol_is_unreachable():
    result = measured(("ac", "A X"), ("a", "A"))
    assert result.get("unreachable").value == 1 / 2 and result.answers[0].reachable is False
    assert result.get("wer").value == 1 / 2
