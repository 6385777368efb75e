"""A task of one's own whose output is computed: two alphabets, targets of other lengths than sources, no alignment."""

import pytest
import torch
from measured import places

from seq2attn.build import build_model
from seq2attn.config import check_config
from seq2attn.data.batches import TrainingData
from seq2attn.data.tasks import Answer, Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.training.losses import token_cross_entropy

CPU = torch.device("cpu")


class Addition(Task):
    """The sum of two numbers: 12+7 -> 19"""

    def __init__(self, *, digits: int = 2):
        self.source_vocabulary, self.target_vocabulary = Vocabulary("0123456789+"), Vocabulary("0123456789")
        self.min_length, self.max_length = 3, 2 * digits + 1

    def examples(self, random, count, length=None):
        def draw(low, high):
            return int(torch.randint(low, high + 1, (), generator=random, device=random.device))

        texts = []
        for _ in range(count):
            both = (length or draw(self.min_length, self.max_length)) - 1  # digits of both numbers
            first = draw(1, both - 1)
            a, b = (draw(10 ** (digits - 1), 10**digits - 1) for digits in (first, both - first))
            texts.append(f"{a}+{b}")
        return self.encode([(text, self.answer(text).text) for text in texts], random.device)

    def target_length(self, source_length):
        return max(1, source_length - 1)  # 99+9 -> 108

    def answer(self, text):
        numbers = text.split("+")
        return Answer(str(sum(map(int, numbers)))) if all(numbers) else None


def new_model(task):
    values = {"seed": 0, "model": {"embedding": 8, "hidden": 24, "initial_state": "zeros"}}
    return build_model(check_config(values), task)


@pytest.fixture(scope="module")
def trained():
    """A model of sums of two one-digit numbers, after a few steps: the predictor and the losses."""
    task = Addition(digits=1)
    model = new_model(task)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    data = TrainingData(task, source_eos=True, batch_size=32, seed=0, device=CPU)
    for batch, _ in zip(data.batches(), range(60), strict=False):
        decoded = model(batch)
        loss = token_cross_entropy(decoded.logits, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return Predictor(model, task, source_eos=True, device=CPU), losses


def test_batches_are_sums():
    task = Addition()
    data = TrainingData(task, source_eos=False, batch_size=64, seed=3, device=CPU)
    batch = data.batch(1)
    lengths = batch.source_lengths.tolist()
    assert lengths == sorted(lengths, reverse=True) and set(lengths) == {3, 4, 5}
    assert len(set(batch.target_lengths[batch.source_lengths == 5].tolist())) > 1  # 10+10 -> 20, 99+99 -> 198
    for row, length in enumerate(lengths):
        a, b = task.source_vocabulary.decode(batch.source[row, :length].tolist()).split("+")
        target = batch.decoder_output[row, : batch.target_lengths[row]].tolist()
        assert int(task.target_vocabulary.decode(target)) == int(a) + int(b)
        assert 2 not in target and batch.decoder_output[row, batch.target_lengths[row]] == 2  # <eos>
    assert batch.alignment is None
    again = data.batch(1)
    assert torch.equal(again.source, batch.source) and torch.equal(again.decoder_output, batch.decoder_output)


def test_the_task_is_learned(trained):
    _, losses = trained
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_it_is_evaluated_without_alignment(trained):
    predictor, _ = trained
    one, other = places(evaluate(predictor, [3, 4], samples=40, seed=0))
    assert (one.trained, other.trained) == (True, False)
    assert one.exact_match.value > 0.1  # by chance 1 of 17 sums
    assert one.character_accuracy.value >= one.exact_match.value
    assert one.alignment is None and one.entropy > 0


def test_it_answers_strings(trained):
    predictor, _ = trained
    predictions = predictor.predict(["1+2", "9+9", "12+7"], keep_weights=True)
    assert [prediction.source for prediction in predictions] == ["1+2", "9+9", "12+7"]
    assert all(prediction.output.isdigit() for prediction in predictions)
    assert predictions[2].source_symbols == ("1", "2", "+", "7", "<eos>")
    with pytest.raises(Seq2AttnError, match="'x'"):
        predictor.predict(["1+x"])


def test_the_right_answer_is_known_if_there_is_one():
    task = Addition()
    assert task.answer("12+7") == Answer("19", None)
    assert task.answer("99+9") == Answer("108", None)
    assert task.answer("12+") is None


def test_maps_have_no_ideal_alignment(trained):
    predictor, _ = trained
    (one, _) = predictor.attention_maps(["1+2", "+"])
    assert one.ideal == ()
