"""The contract of every kind of part: the built-in parts satisfy it, and each check fails for a part that breaks it."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from seq2attn.contract.models import Broken
from seq2attn.contract.parts import check_part
from seq2attn.contract.tasks import check_examples
from seq2attn.data.tasks import Answer, Task
from seq2attn.data.tasks.copy import Copy
from seq2attn.data.tasks.reverse import Reverse
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import BahdanauDecoder
from seq2attn.model.encoder import Last, Zeros
from seq2attn.model.histories import Coverage, Shift
from seq2attn.model.scores import Score
from seq2attn.model.windows import LocalM, View, Window
from seq2attn.parts import EXTENSIBLE
from seq2attn.registry import register

BUILT_IN = [
    (registry.kind, entry.name)
    for registry in EXTENSIBLE
    for entry in registry
    if entry.implementation is not None and not entry.files
]


def broken_rules(kind, name):
    return {rule: reason for rule, reason in check_part(kind, name).items() if reason}


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_built_in_parts_satisfy_the_contract(kind, name):
    assert broken_rules(kind, name) == {}


# ---- scores ----


class Product(Score):
    def forward(self, query, keys):
        return query @ keys.mT


class Transposed(Score):
    def forward(self, query, keys):
        return keys @ query.mT


class NotANumber(Score):
    def forward(self, query, keys):
        return (query @ keys.mT).sqrt()


class SeesOtherRows(Score):
    def forward(self, query, keys):
        return query @ (keys - keys.mean(dim=0)).mT


class SeesOtherKeys(Product):
    def project(self, keys):
        return keys / keys.norm(dim=1, keepdim=True)


class ShiftedByTheBestKey(Score):
    """The softmax does not notice the shift, but readers of scores do."""

    def forward(self, query, keys):
        scores = query @ keys.mT
        return scores - scores.amax(dim=2, keepdim=True)


class SeesOtherQueries(Score):
    def forward(self, query, keys):
        return query.cumsum(dim=1) @ keys.mT


class HalfTheGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, numbers):
        return numbers.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient / 2


class WrongGradient(Score):
    def forward(self, query, keys):
        return HalfTheGradient.apply(query @ keys.mT)


class Random(Score):
    def forward(self, query, keys):
        return query @ keys.mT + torch.rand(len(query), query.size(1), keys.size(1), dtype=query.dtype)


class Crashes(Score):
    def forward(self, query, keys):
        raise ZeroDivisionError("no scores today")


class UnusedParameter(Product):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        self.bias = nn.Parameter(torch.zeros(()))


# ---- windows ----


class NoView(LocalM):
    def forward(self, query, lengths, width, first):
        return super().forward(query, lengths, width, first).allowed[:, :1], None


class InfiniteOutside(LocalM):
    def forward(self, query, lengths, width, first):
        allowed = super().forward(query, lengths, width, first).allowed
        return View(allowed, 1e300 ** (2.0 - allowed.double()))


class ForgetsThePosition(LocalM):
    def forward(self, query, lengths, width, first):
        return super().forward(query, lengths, width, 0)


class CentredInTheWidth(Window):
    def forward(self, query, lengths, width, first):
        return View(self.inside(torch.full((*query.shape[:2], 1), width // 2), width))


class UnusedCentre(LocalM):
    def __init__(self, query_width, source_eos):
        super().__init__(query_width, source_eos)
        self.centre = nn.Linear(query_width, 1)


# ---- histories ----


class AddsInPlace(Coverage):
    def update(self, past, weights):
        return past.add_(weights.unsqueeze(1))


class AveragesOverTheWidth(Coverage):
    def forward(self, past, prepared):
        return super().forward(past - past.mean(dim=2, keepdim=True), prepared)


class HalvesTheWeights(Coverage):
    def combine(self, weights, past, prepared, valid, allowed):
        return weights / 2


class MovesAndReads(Shift):
    """Content has an influence in every step, in training and in prediction alike."""

    def combine(self, weights, past, prepared, valid, allowed):
        return (super().combine(weights, past, prepared, valid, allowed) + weights) / 2


class CountsItsCalls(Coverage):
    calls = 0

    def update(self, past, weights):
        self.calls += 1
        return past + self.calls * weights.unsqueeze(1)


# ---- cells ----


class Plain(Cell):
    """h' = tanh(W x + h)"""

    def __init__(self, input_width, width):
        super().__init__(input_width, width)
        self.map = nn.Linear(input_width, width)

    def step(self, read, state):
        return (torch.tanh(self.map(read) + state[0]),)


class TwoParts(Plain):
    parts = 2


class NoTuple(Plain):
    def step(self, read, state):
        return super().step(read, state)[0]


class EndsWithThePadding(Plain):
    def forward(self, inputs, state, lengths=None, reset=None):
        return super().forward(inputs, state, None, reset)


# ---- decoders ----


class ReadsPadding(BahdanauDecoder):
    def begin(self, first, memory):
        mean = memory.source.double().mean(dim=1, keepdim=True)
        return super().begin(tuple(one + mean for one in first), memory)


# ---- initial states ----


class OneTensor(Last):
    def forward(self, encoded):
        return encoded.final[:1]


class LastColumn(Zeros):
    def forward(self, encoded):
        return tuple(one + encoded.states[:, -1] for one in super().forward(encoded))


# ---- tasks ----


class PlusOne(Reverse):
    def target_length(self, source_length):
        return source_length - 1


class TrainedLengthsOnly(Reverse):
    def examples(self, random, count, length=None):
        return super().examples(random, count, length and min(length, self.max_length))


class GlobalRandomness(Reverse):
    def examples(self, random, count, length=None):
        torch.rand((), generator=random)
        return super().examples(torch.Generator().manual_seed(_calls()), count, length)


class NoRandomness(Reverse):
    def examples(self, random, count, length=None):
        return super().examples(torch.Generator().manual_seed(1), count, length)


class OutsideTheSource(Copy):
    def solve(self, source, lengths):
        examples = super().solve(source, lengths)
        examples.alignment[examples.alignment >= 0] += 1
        return examples


class WrongAnswer(Reverse):
    def answer(self, text):
        return Answer(text)


class WrongAnswerAlignment(Reverse):
    def answer(self, text):
        return Answer(text[::-1], tuple(range(len(text))))


_calls = itertools.count().__next__

BROKEN = [
    (Transposed, "shape", "scores: shape (3, 6, 4), expected (3, 4, 6)"),
    (NotANumber, "shape", "scores: numbers that are not finite"),
    (SeesOtherRows, "batch", "depends on the other rows"),
    (SeesOtherKeys, "padding", "depends on padding"),
    (ShiftedByTheBestKey, "pairs", "another score when scored alone"),
    (SeesOtherQueries, "pairs", "query 1 and key 0 have another score"),
    (WrongGradient, "gradients", "finite differences give"),
    (Random, "randomness", "in evaluation the model is random"),
    (Crashes, "shape", "ZeroDivisionError: no scores today"),
    (UnusedParameter, "parameters", "parameter bias receives no gradient"),
    (NoView, "shape", "allowed: shape (3, 1, 6), expected (3, 4, 6)"),
    (InfiniteOutside, "shape", "not finite"),
    (ForgetsThePosition, "steps", "position 1 differs"),
    (CentredInTheWidth, "padding", "depends on padding"),
    (UnusedCentre, "parameters", "parameter centre.weight receives no gradient"),
    (AddsInPlace, "steps", "changes in place what it was given"),
    (AveragesOverTheWidth, "padding", "depends on padding"),
    (HalvesTheWeights, "mask", "a row of weights sums to 0.5"),
    (CountsItsCalls, "randomness", "random"),
    (TwoParts, "shape", "state after a step: 1 tensors, expected 2"),
    (NoTuple, "shape", "output: shape (4,), expected (3, 4)"),
    (EndsWithThePadding, "padding", "depends on padding"),
    (ReadsPadding, "padding", "depends on padding"),
    (OneTensor, "shape", "first state: 1 tensors, expected 4"),
    (LastColumn, "padding", "depends on padding"),
    (PlusOne, "examples", "target_length("),
    (TrainedLengthsOnly, "lengths", "has sources of 12 to 12 characters; expected 13"),
    (GlobalRandomness, "randomness", "source differs between two calls"),
    (NoRandomness, "randomness", "draws nothing from `random`"),
    (OutsideTheSource, "examples", "points outside the source"),
    (WrongAnswer, "answer", "but an example has"),
    (WrongAnswerAlignment, "answer", "has the alignment [0, 1"),
]


@pytest.mark.parametrize(("broken", "rule", "reason"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_each_rule_finds_what_it_is_about(broken, rule, reason, own_scores):
    register("broken", equal_widths=True)(broken)
    assert reason in check_part(broken.registry.kind, "broken")[rule]


@pytest.mark.parametrize(
    ("part", "failing"),
    [
        (Product, set()),
        (WrongGradient, {"gradients"}),
        (SeesOtherRows, {"batch", "padding"}),  # one row's padding is another row's key
        (SeesOtherQueries, {"steps", "pairs"}),
        (SeesOtherKeys, {"padding", "pairs"}),
        (Plain, set()),
        (MovesAndReads, set()),
        (UnusedCentre, {"parameters"}),
        (WrongAnswer, {"answer"}),
    ],
)
def test_only_the_rules_that_are_about_it_are_broken(part, failing, own_scores):
    register("broken", equal_widths=True)(part)
    assert broken_rules(part.registry.kind, "broken").keys() == failing


def test_a_task_may_refuse_lengths_that_no_source_has(own_scores):
    @register("picky")
    class Picky(Reverse):
        def examples(self, random, count, length=None):
            if length is not None and not self.is_trained(length):
                raise Seq2AttnError(f"no source has {length} characters")
            return super().examples(random, count, length)

    assert broken_rules("task", "picky") == {}


def test_frozen_parameters_need_no_gradient(own_scores):
    @register("frozen", equal_widths=True)
    class Frozen(Product):
        def __init__(self, query_width, key_width):
            super().__init__(query_width, key_width)
            self.factor = nn.Parameter(torch.ones(()), requires_grad=False)

    assert broken_rules("score", "frozen") == {}


def test_a_check_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    check_part("score", "additive")
    assert torch.equal(torch.get_rng_state(), before)


# ---- examples of a task ----


class Shouting(Task):
    """aa -> xyxy"""

    def __init__(self):
        self.source_vocabulary, self.target_vocabulary = Vocabulary("ab"), Vocabulary("xy")
        self.min_length, self.max_length = 2, 3

    def examples(self, random, count, length=None):
        lengths = torch.randint(2, 4, (count,), generator=random) if length is None else torch.full((count,), length)
        pairs = [("a" * n, "xy" * n) for n in lengths.tolist()]
        return self.encode(pairs, torch.device("cpu"))

    def target_length(self, source_length):
        return 2 * source_length


def changed(**values):
    """A `Shouting` whose examples have these values."""

    class Changed(Shouting):
        def examples(self, random, count, length=None):
            drawn = super().examples(random, count, length)
            return replace(drawn, **{name: change(getattr(drawn, name), drawn) for name, change in values.items()})

    return Changed()


def without(name, value=None):
    task = Shouting()
    setattr(task, name, value)
    return task


def test_a_valid_task_passes():
    check_examples(Shouting())


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (without("source_vocabulary"), "its constructor has to set source_vocabulary, a Vocabulary"),
        (without("target_vocabulary", "xy"), "its constructor has to set target_vocabulary, a Vocabulary"),
        (without("min_length", 4), "min_length and max_length are 4 and 3; expected whole numbers, 1 <= min <= max"),
        (without("max_length", "3"), "min_length and max_length are 2 and '3'"),
        (without("examples", lambda *_: None), "examples(random, 8, None) returned NoneType; expected Examples"),
        (
            without("target_length", lambda n: n),
            "target_length(2) is 2, but examples(random, 8, None) has a target of 4",
        ),
        (changed(source=lambda ids, _: ids.float()), "source is torch.float32 (8, 3); expected torch.int64 (8, T)"),
        (changed(target=lambda ids, _: ids[0]), "target is torch.int64 (6,); expected"),
        (changed(target_lengths=lambda n, _: n[:2]), "target has 8 rows and 2 lengths; expected 8"),
        (changed(target_lengths=lambda n, _: n * 0), "target lengths are 0 to 0; expected 1 to 6, the width"),
        (changed(target=lambda ids, _: ids + 2 * (ids == 4)), "target has ids 3 to 6; expected 3 to 4"),
        (changed(source=lambda ids, _: ids - 1), "source has ids 2 to 2; expected 3 to 4"),
        (changed(source=lambda ids, _: ids.clamp(min=1)), "source is not padded with 0"),
        (changed(alignment=lambda _, drawn: drawn.source), "alignment has shape (8, 3); expected (8, 6)"),
    ],
)
def test_the_first_violation_is_reported(task, says):
    with pytest.raises(Broken) as caught:
        check_examples(task)
    assert says in str(caught.value)


def test_sources_of_the_wrong_length_are_reported():
    task = Shouting()
    task.examples = lambda random, count, length=None: Shouting.examples(task, random, count)
    with pytest.raises(Broken, match=r"examples\(random, 8, 2\) has sources of 2 to 3 characters; expected 2 to 2"):
        check_examples(task)
