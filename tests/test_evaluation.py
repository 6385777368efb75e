import json
import math
import re
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
import yaml
from measured import places
from models import CPU, assert_close, make_config, make_task, predictor_of
from refusal import refused
from tables import table

import seq2attn
from seq2attn.build import build_model, build_task
from seq2attn.data.vocabulary import EOS, SOS, Vocabulary
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.evaluation import attention_entropy, evaluate
from seq2attn.model.interface import Decoded, Model
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import METRICS
from seq2attn.runs.records import parse

VOCABULARY = Vocabulary("abcdef")
SIZE = len(VOCABULARY)
A, B = VOCABULARY.encode("ab")
with_and_without_eos = pytest.mark.parametrize("source_eos", [False, True])


def reverse(ids):
    return [*ids[::-1], EOS]


class FakeModel(Model):
    """Answers a source of n characters with `free(ids)` when free-running, with `forced(ids)` under
    teacher forcing.

    It repeats the last token of an answer. `weights(t, n, width)` is its row of attention at output
    position t; None: no attention. size: of the target vocabulary.
    """

    def __init__(self, free, forced=None, weights=None, size=SIZE):
        super().__init__()
        self.free = free
        self.forced = forced or free
        self.weights = weights
        self.size = size
        self.asked = []
        self.forced_input = []
        self.seen = []
        self.fed = []

    def characters(self, source, lengths):
        rows = zip(source.tolist(), lengths.tolist(), strict=True)
        strings = [[index for index in row[:length] if index != EOS] for row, length in rows]
        self.length = len(strings[-1])
        return strings

    def decoded(self, answers, steps, width):
        logits = torch.zeros(len(answers), len(steps), self.size)
        for row, answer in enumerate(answers):
            for column, t in enumerate(steps):
                logits[row, column, answer[min(t, len(answer) - 1)]] = 1
        if self.weights is None:
            return Decoded(logits, None)
        rows = torch.stack([self.weights(t, self.length, width) for t in steps])
        return Decoded(logits, rows.expand(len(answers), -1, -1))

    def encode(self, source, lengths):
        strings = self.characters(source, lengths)
        self.asked.extend(strings)
        return (source.size(1), [self.free(ids) for ids in strings]), 0

    def step(self, tokens, state, memory):
        self.fed.append(tokens.tolist())
        width, answers = memory
        return self.decoded(answers, [state], width), state + 1

    def forward(self, batch, resets=None):
        self.forced_input.extend(batch.decoder_input.tolist())
        strings = self.characters(batch.source, batch.source_lengths)
        self.seen.extend(strings)
        steps = list(range(batch.decoder_input.size(1)))
        return self.decoded([self.forced(ids) for ids in strings], steps, batch.source.size(1))


def one_hot(index, width):
    return torch.nn.functional.one_hot(torch.tensor(index), width).float()


def look_back(t, n, width):
    """The ideal attention of reversal; uniform at the `<eos>`."""
    return one_hot(n - 1 - t, width) if t < n else torch.full((width,), 1 / width)


def measure(model, lengths=(4,), samples=20, *, task=None, source_eos=False, seed=0, **others):
    task = task or make_task(alphabet="abcdef", max_length=4)
    predictor = predictor_of(model, task, source_eos)
    return places(evaluate(predictor, lengths, samples=samples, seed=seed, **others))


def values_of(result):
    """Exact match, greedy characters, teacher-forced characters, and the correct prefix."""
    names = "exact_match character_accuracy teacher_forced correct_prefix".split()
    return [round(getattr(result, name).value, 6) for name in names]


def other(index):
    """A character that is not `index`."""
    return A if index == B else B


def wrong_at(position):  # position 4 of 4: the <eos>
    def answer(ids):
        right = reverse(ids)
        right[position] = other(right[position])
        return right

    return answer


@with_and_without_eos
@pytest.mark.parametrize(
    "free, forced, expected",
    [  # strings of 4; by default teacher forcing, which does not count the <eos>, has it wrong
        (reverse, reverse, "1 1 1 1"),
        (wrong_at(0), wrong_at(3), "0 0.75 0.75 0"),
        (wrong_at(2), None, "0 0.75 1 0.5"),
        (lambda ids: ids[::-1], None, "0 1 1 1"),  # goes on with the last character
        (lambda ids: [*ids[::-1], A, EOS], None, "0 1 1 1"),  # one character too many
        (lambda ids: [*ids[:0:-1], EOS], None, "0 0.75 1 0.75"),  # one too few
        (lambda ids: [EOS], None, "0 0 1 0"),
        # right characters after its <eos>
        (lambda ids: [ids[-1], EOS, *ids[-3::-1], EOS], None, "0 0.25 1 0.25"),
        (lambda ids: [*reverse(ids), A], None, "1 1 1 1"),  # nothing counts after the <eos>
        (lambda ids: [0], None, "0 0 1 0"),  # <pad> is not an answer
    ],
)
def test_accuracies_by_hand(free, forced, expected, source_eos):
    (result,) = measure(FakeModel(free, forced or wrong_at(4)), source_eos=source_eos)
    assert values_of(result) == [*map(float, expected.split())]
    assert result.alignment is result.entropy is None


@with_and_without_eos
def test_wrong_answers_are_kept_if_wanted(source_eos):
    model = FakeModel(lambda ids: reverse(ids) if ids[0] == A else [A, EOS])
    predictor = predictor_of(model, make_task(alphabet="abcdef"), source_eos)
    result = evaluate(predictor, (2,), samples=99, seed=0, errors=True)
    assert 0 < round(99 * (1 - result.get("exact_match", 2).value)) == len(result.answers) < 99
    for one in result.errors():
        assert one.source[0] != "a"
        assert (one.right, one.answer) == (one.source[::-1], "a")
    with refused("were not kept"):
        Evaluation(result.rows).errors()


def test_long_strings_are_measured_in_smaller_batches_with_the_same_result(monkeypatch):
    config = make_config("model.hidden=8 model.attention.score=additive task.alphabet=abc")
    predictor = predictor_of(build_model(config).double(), build_task(config), True)
    rows = []
    predictor.model.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0].source)))

    def results():
        (result,) = places(evaluate(predictor, [6], samples=5, seed=0))
        return result

    at_once = results()
    assert at_once.character_accuracy.value < 1
    monkeypatch.setattr("seq2attn.inference.predictor.MAX_WEIGHTS", 2 * 6 * 6)
    apart = results()
    assert rows == [5, 2, 2, 1]
    assert apart.entropy.value == pytest.approx(at_once.entropy.value, rel=1e-9)
    assert apart.teacher_forced == at_once.teacher_forced
    assert apart.alignment == at_once.alignment


def look_mostly_back(t, n, width):
    return 0.7 * look_back(t, n, width) + 0.3 * look_back((t + 1) % n, n, width)


def look_everywhere_first(t, n, width):
    return look_back(t, n, width) if t else torch.full((width,), 1 / width)


SPREAD = -(0.7 * math.log(0.7) + 0.3 * math.log(0.3))


@with_and_without_eos
@pytest.mark.parametrize(
    # strings of 4; None: which of equal weights is largest is nobody's business
    "weights, alignment, entropy",
    [
        (look_back, 1.0, lambda width: 0.0),
        (lambda t, n, width: look_back(t if t else 1, n, width), 0.75, lambda width: 0.0),
        # t = 3 - t has no solution
        (lambda t, n, width: one_hot(min(t, width - 1), width), 0.0, lambda width: 0.0),
        (look_mostly_back, 1.0, lambda width: SPREAD),
        (look_everywhere_first, None, lambda width: math.log(width) / 4),
    ],
)
def test_alignment_and_entropy_by_hand(weights, alignment, entropy, source_eos):
    (result,) = measure(FakeModel(reverse, weights=weights), source_eos=source_eos)
    if alignment is not None:
        assert result.alignment.value == pytest.approx(alignment, abs=1e-9)
    assert result.entropy.value == pytest.approx(entropy(4 + source_eos), abs=1e-6)


@pytest.mark.parametrize("samples", [1, 2500])
def test_many_samples_in_blocks_give_the_same_result(samples):
    model = FakeModel(lambda ids: reverse(ids) if ids[0] == A else [EOS], weights=look_back)
    (result,) = measure(model, lengths=(2,), samples=samples)
    assert len(model.seen) == len(model.asked) == result.samples == samples
    right = sum(ids[0] == A for ids in model.seen)
    assert values_of(result)[:2] == [round(right / samples, 6)] * 2
    assert (result.alignment.value, result.entropy.value) == pytest.approx((1, 0), abs=1e-9)


def asked(lengths=(3, 6), **others):
    model = FakeModel(reverse, weights=others.pop("weights", None))
    measure(model, lengths, **others)
    return model.seen


def test_long_strings_are_drawn_in_smaller_blocks(monkeypatch):
    """Memory for drawing them does not grow with their length. A larger sample begins with a
    smaller one's strings.
    """
    monkeypatch.setattr("seq2attn.inference.evaluation.CELLS", 20)
    task = make_task(alphabet="abcdef", max_length=4)
    task.examples = mock.Mock(wraps=task.examples)
    few = FakeModel(reverse)
    many = FakeModel(reverse)
    measure(few, (4,), 3, task=task)
    measure(many, (4,), 12, task=task)
    assert [call.args[1] for call in task.examples.call_args_list] == [5] * 4
    assert many.seen[:3] == few.seen


def test_every_model_is_tested_on_the_same_strings_which_never_change():
    strings = asked()
    assert [len(ids) for ids in strings] == [3] * 20 + [6] * 20
    assert asked() == asked(source_eos=True) == asked(weights=look_back) == strings
    assert asked(lengths=(6, 3)) == strings[20:] + strings[:20]  # whatever else is asked
    assert asked(seed=1) != strings != asked(seed="validation")
    # drawn by the code before tasks drew their own examples
    few = asked(lengths=(5,), samples=3)
    assert list(map(VOCABULARY.decode, few)) == ["dfbaa", "bbdca", "facef"]
    many = asked(lengths=(4,), samples=2500, seed="validation")
    some = [VOCABULARY.decode(many[place]) for place in (0, 999, 1000, 2499)]
    assert some == ["cabf", "eebb", "bedb", "feee"]


def test_results_have_their_length_and_whether_it_was_trained():
    watch = mock.Mock()
    long, short = measure(FakeModel(reverse), lengths=(5, 1), samples=7, watch=watch)
    assert (short.length, short.samples, short.trained) == (1, 7, True)
    assert watch.call_count == 2
    low = pytest.approx(7 / (7 + 1.959964**2))  # Wilson's interval of 7 of 7
    expected = "{family: random, length: 5, metric: exact_match, samples: 7, trained: false}"
    expected = {**yaml.safe_load(expected), "value": 1.0, "low": low, "high": 1.0}
    assert long.evaluation.records()[0] == expected


def read(value):
    return parse(Evaluation, json.dumps(value).encode(), Path("record.json"))


@table(
    "key, value",
    """
value | null
value | high
value | 1.5
value | -0.1
value | 0.5  # below the low end
low | 1.1
high | 0.9
length | x
length | 0
samples | 0
family | f
metric | m
trained | 1
""",
    "value",
)
def test_a_record_that_is_not_an_evaluation_is_refused(key, value):
    found = measure(FakeModel(reverse, weights=look_back))[0].evaluation
    record = found.to_json("a")
    assert read(record) == found
    rows = [*record["rows"][1:], {**record["rows"][0], key: value}]
    for damaged in ({**record, "rows": rows}, {**record, "rows": []}):
        with refused(r"^record.json: not a valid record: "):
            read(damaged)


def test_every_declared_metric_is_computed_and_has_its_column():
    found = measure(FakeModel(reverse, weights=look_back))[0].evaluation
    declared = [metric for metric in METRICS.values() if not metric.of_file]
    (table,) = found.tables()
    shown = re.findall(r"<th\b[^>]*>(.*?)</th>", table.html())
    assert shown == ["length", *(one.heading for one in declared)]


# ---- targets of any length, without alignment ----


class Repeat(seq2attn.Task):
    """Each source character a to f is repeated 1 to 6 times, in another alphabet: ca -> uuus"""

    source_vocabulary = VOCABULARY
    target_vocabulary = Vocabulary("stuvwx")
    min_length, max_length = 1, 4

    def examples(self, random, count, length=None):
        rows = torch.randint(6, (count, length), generator=random).tolist()
        return self.encode(
            [("".join("abcdef"[n] for n in row), repeated(row)) for row in rows], CPU
        )

    def target_length(self, source_length):
        return 6 * source_length


def repeated(numbers):
    return "".join("stuvwx"[n] * (n + 1) for n in numbers)


def spelled(ids):
    """The right answer to source ids, as target ids; a is id 3, and so is s."""
    return [index for index in ids for _ in range(index - 2)]


def first_is_wrong(ids):
    return [other(spelled(ids)[0]), *spelled(ids)[1:], EOS]


def test_each_string_counts_by_the_length_of_its_own_target():
    # wrong in the first of n characters: n - 1 of n are right, whatever the longest target of the
    # batch with the right previous characters only the first could have been right, and <eos>
    # everywhere after it is wrong
    model = FakeModel(first_is_wrong, lambda ids: [first_is_wrong(ids)[0], EOS])
    (result,) = measure(model, (2,), 50, task=Repeat())
    targets = [spelled(ids) for ids in model.seen]
    right = sum(1 - 1 / len(target) for target in targets) / 50
    assert values_of(result) == [0, round(right, 6), 0, 0]
    width = max(map(len, targets))
    padded = [[SOS, *target, *[0] * (width - len(target))] for target in targets]
    assert model.forced_input == padded
    # an output that goes on is not an exact match
    (result,) = measure(FakeModel(lambda ids: [*spelled(ids), 3, EOS]), (2,), 50, task=Repeat())
    assert values_of(result) == [0, 1, 1, 1]


def test_entropy():
    nothing = FakeModel(reverse, weights=lambda t, n, width: torch.full((width,), math.nan))
    (result,) = measure(nothing, lengths=(2,), samples=3)
    assert result.entropy is None
    assert result.exact_match.value == 1
    weights = torch.tensor([[0.25] * 4, [0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5], [0.0] * 4])
    assert_close(attention_entropy(weights), torch.tensor([math.log(4), 0.0, math.log(2), 0.0]))


def test_how_many_strings_are_decoded_together():
    model = build_model(make_config("model.hidden=8"))
    recurrent = predictor_of(model, make_task(), True)
    assert [recurrent.rows_at_once(length) for length in (9, 64, 400, 10**6)] == [1024, 1024, 26, 1]
    assert replace(recurrent, search=BeamSearch(5)).rows_at_once(400) == 5


def test_the_help_of_eval_explains_every_metric_by_length(cli):
    shown = cli("eval --help").check().out
    lengths = [metric for metric in METRICS.values() if metric.heading and not metric.of_file]
    assert [metric for metric in lengths if f"\n  {metric.heading:<24}" not in shown] == []
