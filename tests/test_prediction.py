import pytest
import torch
from models import make_task, predictor_of
from refusal import refused
from tables import table
from test_evaluation import FakeModel, one_hot, with_and_without_eos

from seq2attn.data.tasks import Solution, Task
from seq2attn.data.vocabulary import EOS, SOS, Vocabulary
from seq2attn.inference import predictor as predictor_module
from seq2attn.inference.decoding import greedy_decode
from seq2attn.inference.predictor import output_bound

ALPHABET = "abcdefgh"
VOCABULARY = Vocabulary(ALPHABET)


def scripted(answer):
    """Answers each source with `answer(source ids)`; step t attends to source position t, or the
    last.
    """
    return FakeModel(
        answer, weights=lambda t, n, width: one_hot(min(t, width - 1), width), size=len(VOCABULARY)
    )


def make_predictor(model, task="reverse", *, source_eos=False):
    return predictor_of(model, make_task(task, alphabet=ALPHABET), source_eos)


def test_greedy_decoding_by_hand():
    # sources "ab", "c", "de" (a=3); three answers that end after 2, 0 and 3 characters, the last
    # with the last step that is allowed
    answers = {3: [7, 8, EOS, 10], 5: [EOS, 10], 6: [4, 4, 4, EOS]}
    model = scripted(lambda ids: answers[ids[0]])
    source = torch.tensor([[3, 4], [5, 0], [6, 7]])
    decoding = greedy_decode(model, source, torch.tensor([2, 1, 2]), max_steps=4, keep_weights=True)
    assert decoding.tokens[:, 0].tolist() == [[7, 8, 2, 2], [2, 2, 2, 2], [4, 4, 4, 2]]
    outputs = [decoding.output(row, 0) for row in range(3)]
    assert [ids for ids, _ in outputs] == [[7, 8, EOS], [EOS], [4, 4, 4, EOS]]
    assert decoding.weights[:, 0].tolist() == [[[1, 0], [0, 1], [0, 1], [0, 1]]] * 3
    assert outputs[0][1].tolist() == [[1, 0], [0, 1], [0, 1]]  # with that of its <eos>
    # what was emitted is what is fed back, from <sos> on
    assert model.fed == [[SOS] * 3, [7, EOS, 4], [8, EOS, 4], [EOS, EOS, 4]]


@table(
    "task, bound",
    """
reverse | 16  # 2 * 3 + 10
duplicate | 22  # 4 * 3 + 10
""",
    "bound",
)
def test_a_model_that_never_emits_eos_is_stopped(task, bound):
    predictor = make_predictor(scripted(lambda ids: VOCABULARY.encode("g")), task)
    (prediction,) = predictor.predict(["abc"], keep_weights=True)
    assert prediction.output == "g" * bound
    assert prediction.finished is False
    assert prediction.output_symbols == ("g",) * bound
    assert len(prediction.weights) == bound


@with_and_without_eos
def test_predictions_of_mixed_lengths_keep_their_order(source_eos):
    predictor = make_predictor(scripted(lambda ids: [*ids[::-1], EOS]), source_eos=source_eos)
    texts = "abc h feed cab h gg badcafe a".split()
    predictions = list(predictor.predict(texts))
    expected = [(text, text[::-1], True) for text in texts]
    assert [(one.source, one.output, one.finished) for one in predictions] == expected
    assert all(one.weights is None and one.map is None and one.correct for one in predictions)


def test_invalid_texts_are_refused_before_anything_is_computed():
    model = scripted(lambda ids: [EOS])
    with refused("'aXa' has symbols the model never saw: 'X'"):
        next(make_predictor(model).predict(["abc", "aXa"]))
    assert model.asked == []


class Spelled(Task):
    """a -> xy, with a vocabulary of its own for the target. Knows the answer to texts of a, and the
    alignment of one a.
    """

    source_vocabulary = Vocabulary("ab")
    target_vocabulary = Vocabulary("wxyz")
    min_length, max_length = 1, 3

    def target_length(self, source_length):
        return 2 * source_length

    def examples(self, random, count, length=None):
        raise AssertionError("predicting draws no examples")

    def answer(self, text):
        if set(text) != {"a"}:
            return None
        return Solution("xy" * len(text), (0, 0) if text == "a" else None)


@with_and_without_eos
def test_a_task_has_its_vocabularies_and_may_know_answer_and_alignment(source_eos):
    # a=3 b=4; w=3 x=4 y=5 z=6
    model = scripted(
        lambda ids: [index + 1 for index in ids for index in (index, index + 1)] + [EOS]
    )
    predictor = predictor_of(model, Spelled(), source_eos)
    predictions = list(predictor.predict("ab b aa a".split(), keep_weights=True))
    known = [f"{one.source} {one.output} {one.expected} {one.correct}" for one in predictions]
    expected = "ab xyyz None None, b yz None None, aa xyxy xyxy True, a xy xy True"
    assert ", ".join(known) == expected
    assert [one.ideal for one in predictions] == [(), (), (), (0, 0)]
    assert predictions[1].source_symbols == ("b", "<eos>")[: 1 + source_eos]
    assert predictions[1].output_symbols == ("y", "z", "<eos>")
    one = predictions[3].map
    assert one.source == "a"
    assert one.output == "xy"
    assert one.ideal == (0, 0)
    assert len(one.weights) == 3
    assert output_bound(Spelled(), 3) == 22  # twice the longest target, and 10


# ---- predictions in blocks ----

LONG = f" {512 * 'a'}"


@pytest.mark.parametrize(
    "limits, keep_weights, expected",
    [
        ({"BLOCK": 4}, False, ["a bb c", "d eee", "ff"]),
        ({}, False, []),
        ({}, False, [LONG * 128, LONG * 2]),  # 2^16 symbols
        ({}, True, [LONG * 4, LONG]),  # 2^11
        (
            {"BLOCK_WITH_WEIGHTS": 2, "LONGEST_WITH_WEIGHTS": 2},
            True,
            ["a b", "ccc", "d"],
        ),
    ],
)
def test_texts_are_read_and_predicted_in_blocks(monkeypatch, limits, keep_weights, expected):
    """Texts that are too long come without weights."""
    for name, value in limits.items():
        monkeypatch.setattr(predictor_module, name, value)
    read = []
    answered = 0
    texts = (read.append(text) or text for text in " ".join(expected).split())
    predictions = make_predictor(scripted(lambda ids: [EOS])).predict(
        texts, keep_weights=keep_weights
    )
    for block in expected:
        answered += len(block.split())
        for wanted in block.split():
            one = next(predictions)
            assert len(read) == answered
            assert one.source == wanted
            assert (one.weights is not None) == (keep_weights and wanted != "ccc")
    assert next(predictions, None) is None
