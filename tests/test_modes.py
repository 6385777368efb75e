"""What is measured does not depend on what stands beside it: the mode that training, or a user,
has left a model in, and PyTorch's own hooks.
"""

import copy

import pytest
import torch
from models import new_model
from refusal import refused

import seq2attn

WORDS = ["a", "bc", "cab"]


@pytest.fixture
def model():
    """A model that a loss was just computed with, and whose encoder its user has frozen."""
    model = new_model("model.dropout=.5", "model.layers=2", "task.alphabet=abc")
    model.module.encoder.eval()
    model.loss(next(model.batches())).backward()
    return model


def answers(model):
    found = model.predict(WORDS)
    return [answer.output for answer in found], [answer.weights.tolist() for answer in found]


DOORS = {
    "predict": answers,
    "one": lambda model: model.predict("cab").weights.tolist(),
    "beam": lambda model: [one.hypotheses for one in model.predict(WORDS, beam=3)],
    "changed": lambda model: model.predict("cab", force={(0, 1): 1.0}).weights.tolist(),
    "cache": lambda model: model.run_with_cache("cab")[1]["logits"].tolist(),
    "patch_map": lambda model: seq2attn.patch_map(model, "cab", "abc", "logits").effect.tolist(),
    "evaluate": lambda model: model.evaluate([2, 3], samples=20).rows,
    "errors": lambda model: model.evaluate([3], samples=20, errors=True).errors(),
}


@pytest.mark.parametrize(
    "door, hooked", [*((door, False) for door in DOORS), ("predict", True), ("evaluate", True)]
)
def test_a_measurement_sets_its_own_mode_and_restores_the_users(model, door, hooked):
    measured = copy.deepcopy(model)
    measured.module.eval()
    expected = DOORS[door](measured)
    before = {name: part.training for name, part in model.module.named_modules()}
    assert set(before.values()) == {True, False}
    with seq2attn.hooked(model, {"logits": lambda value, first: None} if hooked else {}):
        assert DOORS[door](model) == expected
    assert {name: part.training for name, part in model.module.named_modules()} == before


def test_training_goes_on_as_if_nothing_had_been_measured(model):
    batch = next(model.batches())
    expected = copy.deepcopy(model).loss(batch)
    model.evaluate([2], samples=5)
    assert model.loss(batch) == expected


def test_an_evaluation_decodes_what_predict_decodes():
    """A hook of PyTorch spoils single steps, and leaves alone all steps at once."""
    model = new_model("training.steps=1")
    targets = {len(word): word for word in ("b", "ba", "bac")}  # the answers to b, ab, cab

    def right(module, inputs, logits):
        if logits.size(1) == 1:
            return torch.zeros_like(logits)
        word = targets[logits.size(1) - 1]
        ids = torch.tensor([*model.task.target_vocabulary.encode(word), 2])
        return torch.nn.functional.one_hot(ids, logits.size(2)).float().expand_as(logits)

    model.task.examples = lambda *_: pytest.fail("the test gives its own")
    batch = model.task.encode([("cab", "bac")], torch.device("cpu"))
    model.task.family = lambda *_: batch
    model.module.decoder.output.register_forward_hook(right)
    found = model.evaluate([3], samples=1)
    assert found.get("teacher_forced", 3).value == 1
    assert model.predict("cab").output != "bac"
    assert found.get("exact_match", 3).value == 0


def test_weights_that_are_not_finite_are_not_saved(model, tmp_path):
    model.module.decoder.output.bias.data[3] = torch.nan
    with refused("decoder.output.bias holds values that are not finite, so nothing was saved"):
        model.save("broken", runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("beam", [None, 2])
def test_logits_that_are_no_numbers_have_no_likeliest_symbol(model, beam):
    def undefined(logits, first):
        return torch.full_like(logits, torch.nan)

    with (
        seq2attn.hooked(model, {"logits": undefined}),
        refused("logits are nan, so that no symbol is the likeliest"),
    ):
        model.predict("cab", beam=beam)


def test_a_step_may_take_several_passes_and_a_batch_several_parts(model, tmp_path):
    batch = next(model.batches())
    first, again, other = (model.loss(batch, step=7, part=part).item() for part in (0, 0, 1))
    assert first == again != other
    assert model.loss(batch, step=8).item() != first
    assert model.step == 9
    next_one = model.loss(batch).item()
    assert next_one == model.loss(batch, step=9).item()
    assert model.save("mine", runs_dir=tmp_path).status().step == 10
    with refused("step must be a whole number from 0; found -1"):
        model.loss(batch, step=-1)
