"""The contract of every kind of part: the built-in parts satisfy it, and each check fails for a part that breaks it."""

import itertools

import pytest
import torch
from torch import nn

from seq2attn.analysis.checks import REGISTRIES, Part
from seq2attn.analysis.contract import CHECKS, INTERFACES, advice, run_check
from seq2attn.data.tasks import Answer
from seq2attn.data.tasks.copy import Copy
from seq2attn.data.tasks.reverse import Reverse
from seq2attn.errors import Seq2AttnError
from seq2attn.model.bahdanau import BahdanauDecoder
from seq2attn.model.cells import RNN, Cell
from seq2attn.model.histories import Coverage, History
from seq2attn.model.initial_state import InitialState, Last, Zeros
from seq2attn.model.luong import LuongDecoder
from seq2attn.model.scores import Score
from seq2attn.model.windows import LocalM, View, Window
from seq2attn.parts import SCORES
from seq2attn.registry import register

BUILT_IN = [
    (kind, entry.name)
    for kind in CHECKS
    for entry in REGISTRIES[kind]
    if entry.implementation is not None and not entry.files
]


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_built_in_parts_satisfy_the_contract(kind, name):
    assert {label: result for label in CHECKS[kind] if (result := run_check(label, kind, name))} == {}


def test_every_kind_has_checks_and_advice():
    assert CHECKS.keys() == REGISTRIES.keys() == INTERFACES.keys()


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


class LongestRow(Window):
    def forward(self, query, lengths, width, first):
        return View(self.inside((lengths.max() - 1).expand(*query.shape[:2], 1), width))


class WrongWindowGradient(Window):
    def forward(self, query, lengths, width, first):
        factor = HalfTheGradient.apply(query.sigmoid().mean(dim=2, keepdim=True)).expand(-1, -1, width)
        return View(torch.ones_like(factor).bool(), factor)


class UnusedCentre(LocalM):
    def __init__(self, query_width, source_eos):
        super().__init__(query_width, source_eos)
        self.centre = nn.Linear(query_width, 1)


# ---- histories ----


class NarrowFeatures(Coverage):
    def forward(self, past):
        return super().forward(past)[..., :1]


class AddsInPlace(Coverage):
    def update(self, past, weights):
        return past.add_(weights.unsqueeze(1))


class AveragesOverTheWidth(Coverage):
    def forward(self, past):
        return super().forward(past - past.mean(dim=2, keepdim=True))


class AveragesOverTheBatch(Coverage):
    def forward(self, past):
        return super().forward(past - past.mean(dim=0))


class WrongHistoryGradient(Coverage):
    def forward(self, past):
        return HalfTheGradient.apply(super().forward(past))


class UnusedMap(History):
    def __init__(self, feature_width):
        super().__init__(feature_width)
        self.map = nn.Linear(1, feature_width)

    def forward(self, past):
        return past.mT.unsqueeze(1).expand(-1, -1, -1, self.feature_width)

    def update(self, past, weights):
        return weights.unsqueeze(1)


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


class OwnScan(Plain):
    def scan(self, inputs, state, lengths=None, reset=None):
        outputs, state = super().scan(inputs, state, lengths, reset)
        return 2 * outputs, state


class EndsWithThePadding(Plain):
    def scan(self, inputs, state, lengths=None, reset=None):
        return super().scan(inputs, state, None, reset)


class NormsOverTheBatch(Plain):
    def step(self, read, state):
        (h,) = super().step(read, state)
        return (h - h.mean(dim=0),)


class WrongCellGradient(Plain):
    def step(self, read, state):
        return (HalfTheGradient.apply(super().step(read, state)[0]),)


class UnusedWeight(RNN):
    def recall(self, hidden):
        return hidden


# ---- decoders ----


class TransposedDecoder(BahdanauDecoder):
    def decode(self, features, weights, memory):
        return super().decode(features, weights.mT, memory)


class StandsStill(LuongDecoder):
    """Never counts the position, which windows need."""

    def advance(self, embedded, state, memory):
        after, features, weights = super().advance(embedded, state, memory)
        return after._replace(position=state.position), features, weights


class MeanOfTheBatch(BahdanauDecoder):
    def advance(self, embedded, state, memory):
        return super().advance(embedded - embedded.mean(dim=0), state, memory)


class ReadsPadding(BahdanauDecoder):
    def begin(self, first, memory):
        mean = memory.source.double().mean(dim=1, keepdim=True)
        return super().begin(tuple(one + mean for one in first), memory)


class UnusedOutput(BahdanauDecoder):
    def __init__(self, *provided):
        super().__init__(*provided)
        self.other = nn.Linear(2, 2)


# ---- initial states ----


class OneTensor(Last):
    def forward(self, encoded):
        return encoded.final[:1]


class LastColumn(Zeros):
    def forward(self, encoded):
        return tuple(one + encoded.states[:, -1] for one in super().forward(encoded))


class MeanFinal(Last):
    def forward(self, encoded):
        return tuple(one - one.mean(dim=0) for one in encoded.final)


class UnusedBridge(Zeros):
    def __init__(self, encoder, cell):
        super().__init__(encoder, cell)
        self.map = nn.Linear(1, 1)


class Nothing(InitialState):
    def forward(self, encoded):
        pass


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
    (Transposed, "shape", "shape (3, 5, 1), expected (3, 1, 5)"),
    (NotANumber, "shape", "not finite"),
    (NotANumber, "padding", "sum to"),
    (SeesOtherRows, "batch invariance", "depends on the other rows"),
    (SeesOtherKeys, "padding", "gradient on padding"),
    (SeesOtherKeys, "padding invariance", "depends on padding"),
    (ShiftedByTheBestKey, "loop form", "another score when scored alone"),
    (SeesOtherQueries, "loop form", "query 1 and key 0 have another score"),
    (WrongGradient, "gradients", "Jacobian mismatch"),
    (Random, "loop form", "another score"),
    (Crashes, "shape", "raised ZeroDivisionError: no scores today"),
    (UnusedParameter, "parameters", "parameter bias receives no gradient"),
    (NoView, "shape", "allowed: shape (3, 1, 5), expected (3, 3, 5)"),
    (InfiniteOutside, "weights", "not finite"),
    (ForgetsThePosition, "weights", "step 1 alone has another window"),
    (CentredInTheWidth, "padding invariance", "depends on padding"),
    (LongestRow, "batch invariance", "depends on the other rows"),
    (WrongWindowGradient, "gradients", "Jacobian mismatch"),
    (UnusedCentre, "parameters", "parameter centre.weight receives no gradient"),
    (NarrowFeatures, "shape", "features at step 0: shape (3, 1, 5, 1), expected (3, 1, 5, 4)"),
    (AddsInPlace, "in place", "changed in place"),
    (AveragesOverTheWidth, "padding invariance", "depends on padding"),
    (AveragesOverTheBatch, "batch invariance", "depends on the other rows"),
    (WrongHistoryGradient, "gradients", "Jacobian mismatch"),
    (UnusedMap, "parameters", "parameter map.weight receives no gradient"),
    (CountsItsCalls, "teacher forcing", "position 1 differs"),
    (TwoParts, "shape", "state after a step: 1 tensors, expected 2"),
    (NoTuple, "shape", "state after a step: Tensor, expected a tuple of tensors"),
    (OwnScan, "scan", "the output of step 0 differs"),
    (OwnScan, "teacher forcing", "position 0 differs"),
    (EndsWithThePadding, "padding invariance", "depends on padding"),
    (NormsOverTheBatch, "batch invariance", "depends on the other rows"),
    (WrongCellGradient, "gradients", "Jacobian mismatch"),
    (UnusedWeight, "parameters", "receives no gradient"),
    (TransposedDecoder, "shape", "weights: shape (3, 5, 3), expected (3, 3, 5)"),
    (StandsStill, "teacher forcing", "position 1 differs"),
    (MeanOfTheBatch, "batch invariance", "depends on the other rows"),
    (ReadsPadding, "padding invariance", "depends on padding"),
    (UnusedOutput, "parameters", "parameter other.weight receives no gradient"),
    (OneTensor, "shape", "first state: 1 tensors, expected 4"),
    (LastColumn, "padding invariance", "depends on padding"),
    (MeanFinal, "batch invariance", "depends on the other rows"),
    (UnusedBridge, "parameters", "parameter map.weight receives no gradient"),
    (Nothing, "shape", "first state: NoneType, expected a tuple of tensors"),
    (PlusOne, "examples", "target_length("),
    (TrainedLengthsOnly, "lengths", "has sources of 12 to 12 characters; expected 13"),
    (GlobalRandomness, "randomness", "source differs between two calls"),
    (NoRandomness, "randomness", "draws nothing from `random`"),
    (OutsideTheSource, "alignment", "points outside the source"),
    (WrongAnswer, "answer", "but an example has"),
    (WrongAnswerAlignment, "answer", "has the alignment [0, 1"),
]


@pytest.mark.parametrize(("broken", "label", "reason"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_each_check_finds_what_it_is_about(broken, label, reason, own_scores):
    register("broken", equal_widths=True)(broken)
    assert reason in run_check(label, broken.registry.kind, "broken")


def test_every_check_has_a_broken_part():
    tested = {(broken.registry.kind, label) for broken, label, _ in BROKEN}
    assert tested == {(kind, label) for kind, checks in CHECKS.items() for label in checks}


@pytest.mark.parametrize(
    ("part", "failing"),
    [
        (Product, set()),
        (WrongGradient, {"gradients"}),
        (SeesOtherRows, {"batch invariance", "padding"}),  # one row's padding is another row's key
        (SeesOtherQueries, {"loop form"}),
        (SeesOtherKeys, {"padding", "padding invariance", "loop form"}),
        (Plain, set()),
        (UnusedCentre, {"parameters"}),
        (WrongAnswer, {"answer"}),
    ],
)
def test_only_the_checks_that_are_about_it_fail(part, failing, own_scores):
    register("broken", equal_widths=True)(part)
    kind = part.registry.kind
    assert {label for label in CHECKS[kind] if run_check(label, kind, "broken")} == failing


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Transposed, "returns scores (B, L, S)."),
        (NoView, "returns View(allowed, factor)"),
        (NoTuple, "returns the next such tuple."),
        (PlusOne, "`help(seq2attn.data.tasks.Task)`"),
        (Product, 'say so: @register("broken", ..., equal_widths=True)'),
        (SeesOtherRows, ""),
    ],
)
def test_advice_for_a_part_whose_shapes_are_wrong(part, says, own_scores):
    register("broken", equal_widths=part is SeesOtherRows)(part)
    found = advice(part.registry.kind, "broken")
    assert says in found if says else found == ""


def test_the_checks_use_keys_wider_than_queries_where_allowed():
    for entry in SCORES:
        if entry.implementation is not None:
            score = Part("score", entry.name).make()
            assert (score.key_width > score.query_width) == (not entry.equal_widths)


def test_a_task_may_refuse_lengths_that_no_source_has(own_scores):
    @register("picky")
    class Picky(Reverse):
        def examples(self, random, count, length=None):
            if length is not None and not self.is_trained(length):
                raise Seq2AttnError(f"no source has {length} characters")
            return super().examples(random, count, length)

    assert run_check("lengths", "task", "picky") == ""


def test_frozen_parameters_need_no_gradient(own_scores):
    @register("frozen", equal_widths=True)
    class Frozen(Product):
        def __init__(self, query_width, key_width):
            super().__init__(query_width, key_width)
            self.factor = nn.Parameter(torch.ones(()), requires_grad=False)

    assert {label: run_check(label, "score", "frozen") for label in CHECKS["score"]} == dict.fromkeys(
        CHECKS["score"], ""
    )


def test_a_check_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    run_check("gradients", "score", "additive")
    run_check("parameters", "cell", "gru")
    assert torch.equal(torch.get_rng_state(), before)
