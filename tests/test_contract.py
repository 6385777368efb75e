"""The contract of every kind of part: the built-in parts satisfy it, and each check fails for a
part that breaks it.
"""

import itertools
from dataclasses import replace

import pytest
import torch
from models import CPU
from torch import nn

import seq2attn
from seq2attn.contract.parts import check_part
from seq2attn.contract.tasks import check_examples
from seq2attn.data.tasks.strings import Reverse
from seq2attn.findings.engine import first
from seq2attn.model.cells import LSTM
from seq2attn.model.decoder import BahdanauDecoder
from seq2attn.model.encoder import Last, Zeros
from seq2attn.model.histories import Coverage, Shift
from seq2attn.model.normalisers import LocalM, Softmax, View
from seq2attn.parts import EXTENSIBLE, register

BUILT_IN = [
    (registry.kind, entry.name)
    for registry in EXTENSIBLE
    for entry in registry
    if entry.implementation is not None and not entry.files
]


def broken_rule(kind, name):
    """The rule that the part breaks: nothing after it is tried."""
    results = check_part(kind, name)
    assert not any(list(results.values())[:-1])
    return next((rule for rule, reason in results.items() if reason), None)


@pytest.mark.parametrize("kind, name", BUILT_IN)
def test_built_in_parts_satisfy_the_contract(one_place, kind, name):
    before = torch.get_rng_state()
    assert broken_rule(kind, name) is None
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize("kind, name", BUILT_IN)
def test_built_in_parts_satisfy_it_in_every_place(kind, name):
    assert broken_rule(kind, name) is None


class Product(seq2attn.Score):
    def forward(self, query, keys):
        return query @ keys.mT


class SeesOtherKeys(Product):
    def project(self, keys):
        return keys / keys.norm(dim=1, keepdim=True)


class Plain(seq2attn.Cell):
    """h' = tanh(W x + h)"""

    def __init__(self, input_width, width):
        super().__init__(input_width, width)
        self.map = nn.Linear(input_width, width)

    def step(self, read, state):
        return (torch.tanh(self.map(read) + state[0]),)


class Shown(LSTM):
    """It shows the rest of the model something else than its hidden state."""

    def output(self, state):
        return -state[0]


class Picky(Reverse):
    def examples(self, random, count, length=None):
        if length is not None and not self.is_trained(length):
            raise seq2attn.Seq2AttnError(f"no source has {length} characters")
        return super().examples(random, count, length)


class Frozen(Product):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        self.factor = nn.Parameter(torch.ones(()), requires_grad=False)


class UnusedCentre(LocalM):
    def __init__(self, query_width, source_eos):
        super().__init__(query_width, source_eos)
        self.centre = nn.Linear(query_width, 1)


class CentredInTheWidth(seq2attn.Window):
    def forward(self, query, lengths, width, first):
        return View(self.inside(torch.full((*query.shape[:2], 1), width // 2), width))


class InfiniteOutside(LocalM):
    def forward(self, query, lengths, width, first):
        allowed = super().forward(query, lengths, width, first).allowed
        return View(allowed, 1e30 ** (2.0 - allowed.float()))


class CountsItsCalls(Coverage):
    calls = 0

    def update(self, weights, step):
        self.calls += 1
        return step.past + self.calls * weights


class HalvesInWindows(Coverage):
    """Rows sum to 1/2 where a window leaves out a key, though the window has no factor."""

    def combine(self, weights, logits, step):
        return weights / (1 + (step.allowed != step.valid).any(dim=2, keepdim=True))


class MovesAndReads(Shift):
    """Content has an influence in every step, in training and in prediction alike."""

    def combine(self, weights, logits, step):
        return (super().combine(weights, logits, step) + weights) / 2


class Bigrams(seq2attn.Encoder):
    """h_j = W [x_j; x_{j-1}], and their mean."""

    def __init__(self, vocabulary_size, embedding, cells):
        super().__init__(vocabulary_size, embedding, cells)
        self.map = nn.Linear(2 * embedding, self.width)

    def encode(self, embedded, lengths):
        before = nn.functional.pad(embedded, (0, 0, 1, 0))[:, :-1]
        states = self.map(torch.cat([embedded, before], dim=2))
        real = torch.arange(states.size(1)) < lengths.unsqueeze(1)
        return seq2attn.Encoded(
            states, ((states * real.unsqueeze(2)).sum(1) / lengths.unsqueeze(1),)
        )


class Unused(Product):
    def __init__(self, query_width, key_width, *, factor: float = 1.0):
        super().__init__(query_width, key_width)


def changed_part(base, name, method):
    """A subclass of `base` whose method `name` is `method`."""
    return type("Broken", (base,), {name: method})


def around(base, name, result=None, given=None):
    """A subclass of `base` whose method `name` is called with `given(*arguments)`, and returns
    `result` of what it returned.
    """

    def method(self, *arguments):
        arguments = given(*arguments) if given else arguments
        returned = getattr(base, name)(self, *arguments)
        return result(returned) if result else returned

    return changed_part(base, name, method)


def scored(function):
    return changed_part(seq2attn.Score, "forward", lambda self, query, keys: function(query, keys))


def decoding(change):
    """A decoder that shows these weights in place of its own."""
    given = lambda features, weights, memory: (features, change(weights), memory)  # noqa: E731
    return around(BahdanauDecoder, "decode", given=given)


def drawing(seed):
    """A task that draws from a generator of its own, whose seed depends on what it is given."""

    def given(random, *of_what):
        return torch.Generator().manual_seed(seed(random)), *of_what

    return around(Reverse, "examples", given=given)


def answering(function):
    return changed_part(Reverse, "answer", lambda self, text: function(text))


def wrong_if_long(text):
    step = 1 if len(text) > 12 else -1
    return seq2attn.Solution(text[::-1], tuple(range(len(text)))[::step])


SEED = itertools.count().__next__
KEPT = []
BROKEN = [  # the rule and what is said, and the part
    (
        "batch: depends on the other rows",
        scored(lambda query, keys: query @ (keys - keys.mean(dim=0)).mT),
    ),
    ("padding: depends on padding", SeesOtherKeys),
    (
        "steps: position 0 differs",
        changed_part(
            scored(lambda query, _: query @ KEPT[-1].mT),
            "project",
            lambda _, keys: KEPT.append(keys) or keys,
        ),
    ),
    (
        "randomness: the same strings give another",
        scored(lambda query, keys: query @ keys.mT * torch.rand(()).item()),
    ),
    (
        "shape: allowed: torch.bool (3, 1, 6), expected torch.bool (3, 4, 6)",
        around(LocalM, "forward", lambda view: View(view.allowed[:, :1], None)),
    ),
    (
        "shape: factor: torch.float32 (3, 1, 6), expected torch.float32 (3, 4, 6)",
        around(LocalM, "forward", lambda view: View(view.allowed, torch.ones(3, 1, 6) / 2)),
    ),
    (
        "shape: weights: torch.float32 (1, 3, 4, 6), expected torch.float32 (3, 4, 6)",
        around(Softmax, "forward", lambda weights: weights[None]),
    ),
    ("shape: not finite", InfiniteOutside),
    ("padding: depends on padding", CentredInTheWidth),
    ("parameters: parameter centre.weight receives no gradient", UnusedCentre),
    (
        "arguments: an argument is changed in place",
        changed_part(Coverage, "update", lambda self, weights, step: step.past.add_(weights)),
    ),
    (
        "mask: a row of weights sums to 0.5",
        around(Coverage, "combine", lambda weights: weights / 2),
    ),
    ("randomness: random", CountsItsCalls),
    (
        "shape: state after a step: tuple of torch.float32 (3, 4), expected tuple of torch.float32 "
        "(3, 4), torch",
        changed_part(Plain, "state_tensors", 2),
    ),
    (
        "shape: output: torch.float32 (4,), expected torch.float32 (3, 4)",
        around(Plain, "step", lambda state: state[0]),
    ),
    (
        "padding: depends on padding",
        around(Plain, "forward", given=lambda x, state, lengths=None: (x, state)),
    ),
    (
        "shape: weights: torch.float32 (3, 6, 4), expected torch.float32 (3, 4, 6)",
        decoding(lambda weights: weights.mT),
    ),
    (
        "padding: depends on padding",
        around(
            BahdanauDecoder,
            "begin",
            given=lambda first, memory: (
                [part + memory.source.to(part).mean(dim=1, keepdim=True) for part in first],
                memory,
            ),
        ),
    ),
    (
        "padding: depends on padding",
        changed_part(
            Zeros,
            "forward",
            lambda self, encoded: tuple(
                part + encoded.states[:, -1] for part in Zeros.forward(self, encoded)
            ),
        ),
    ),
    (
        "shape: first state: NoneType, expected tuple of torch",
        around(Last, "forward", lambda _: None),
    ),
    (
        "lengths: has sources of 12 to 12 characters; expected 13",
        around(
            Reverse,
            "examples",
            given=lambda random, count, length=None: (random, count, length and min(length, 12)),
        ),
    ),
    (
        "randomness: source differs between two calls",
        drawing(lambda random: SEED() + random.seed()),
    ),
    (
        "randomness: draws nothing from `random`",
        drawing(lambda random: 1),
    ),
    (
        "padding: depends on padding",
        around(Bigrams, "encode", lambda result: result._replace(final=(result.states.mean(1),))),
    ),
    (
        "shape: encoder states: torch.float32 (3, 6, 3), expected torch.float32 (3, 6, 4)",
        around(Bigrams, "encode", lambda result: result._replace(states=result.states[..., :3])),
    ),
    (
        "shape: final state: torch.float32 (3, 4), expected tuple of torch.float32 (3, 4)",
        around(Bigrams, "encode", lambda result: result._replace(final=result.states[:, 0])),
    ),
    (
        "parameters: parameter embedding.weight receives no gradient",
        around(Bigrams, "encode", given=lambda embedded, lengths: (embedded.detach(), lengths)),
    ),
    (
        "context: not those with which its context was averaged",
        decoding(lambda weights: weights**2 / (weights**2).sum(dim=2, keepdim=True)),
    ),
    (
        "state: return h first",
        around(
            LSTM,
            "step",
            result=lambda state: state[::-1],
            given=lambda inputs, state: (inputs, state[::-1]),
        ),
    ),
    ("options: option 'factor' has no effect", Unused),
    (
        "lengths: has the alignment [0, 1",
        answering(wrong_if_long),
    ),
    ("answer: but an example has", answering(seq2attn.Solution)),
    (
        "answer: has the alignment [0, 1",
        answering(lambda text: seq2attn.Solution(text[::-1], tuple(range(len(text))))),
    ),
    # not in the first of the models in which a part is tried
    (
        "steps: position 1 differs between teacher forcing and single steps",
        scored(lambda query, keys: query.cumsum(dim=1) @ keys.mT),
    ),
    (
        "padding: depends on padding",
        around(
            Coverage,
            "forward",
            given=lambda step: (
                step._replace(past=step.past - step.past.mean(dim=2, keepdim=True)),
            ),
        ),
    ),
    ("mask: a row of weights sums to 0.5", HalvesInWindows),
    (
        "shape: first state: tuple of torch.float32 (3, 4), expected tuple of torch.float32 (3, "
        "4), ",
        around(Last, "forward", lambda state: state[:1]),
    ),
]


@pytest.mark.parametrize("told, broken", BROKEN)
def test_each_rule_finds_what_it_is_about(told, broken, own_scores):
    register("broken", equal_widths=True)(broken)
    rule, _, reason = told.partition(": ")
    assert reason in check_part(broken.registry.kind, "broken")[rule]


def test_a_score_of_any_widths_is_tried_with_keys_wider_than_queries(own_scores, one_place):
    register("broken")(Product)
    assert "RuntimeError" in check_part("score", "broken")["shape"]


@pytest.mark.parametrize("part", [Plain, Shown, MovesAndReads, Picky, Frozen, Bigrams])
def test_what_is_odd_but_keeps_the_rules_is_accepted(part, own_scores, one_place):
    register("odd", equal_widths=True)(part)
    assert broken_rule(part.registry.kind, "odd") is None


# ---- examples of a task ----


class Shouting(seq2attn.Task):
    """aa -> xyxy"""

    def __init__(self):
        self.source_vocabulary = seq2attn.Vocabulary("ab")
        self.target_vocabulary = seq2attn.Vocabulary("xy")
        self.min_length, self.max_length = 2, 3

    def examples(self, random, count, length=None):
        lengths = (
            torch.randint(2, 4, (count,), generator=random)
            if length is None
            else torch.full((count,), length)
        )
        pairs = [("a" * n, "xy" * n) for n in lengths.tolist()]
        return self.encode(pairs, CPU)

    def target_length(self, source_length):
        return 2 * source_length


def changed(**values):
    """A `Shouting` whose examples have these values."""

    class Changed(Shouting):
        def examples(self, random, count, length=None):
            drawn = super().examples(random, count, length)
            made = {name: change(getattr(drawn, name), drawn) for name, change in values.items()}
            return replace(drawn, **made)

    return Changed()


def without(name, value=None):
    task = Shouting()
    setattr(task, name, value)
    return task


VIOLATIONS = {
    "its constructor has to set source_vocabulary, a Vocabulary": without("source_vocabulary"),
    "min_length and max_length are 4 and 3; expected whole numbers, 1 <= min <= max": without(
        "min_length", 4
    ),
    "examples(random, 8, None): NoneType, expected Examples": without("examples", lambda *_: None),
    "target_length(2) is 2, but examples(random, 8, None) has a target of 4": without(
        "target_length", lambda n: n
    ),
    "source is torch.float32 (8, 3) with 8 lengths; expected torch.int64 (8, T) with 8": changed(
        source=lambda ids, _: ids.float()
    ),
    "target is torch.int64 (8, 6) with 2 lengths; expected": changed(
        target_lengths=lambda n, _: n[:2]
    ),
    "target lengths are 0 to 0; expected 1 to 6, the width": changed(
        target_lengths=lambda n, _: n * 0
    ),
    "target has the id 6; expected 3 to 4": changed(target=lambda ids, _: ids + 2 * (ids == 4)),
    "source has the id 2; expected 3 to 4": changed(source=lambda ids, _: ids - 1),
    "source has the id 1; expected 3 to 4, and 0 behind": changed(
        source=lambda ids, _: ids.clamp(min=1)
    ),
    "alignment: torch.int64 (8, 3), expected torch.int64 (8, 6)": changed(
        alignment=lambda _, drawn: drawn.source
    ),
    "examples(random, 8, None): alignment points outside the source": changed(
        alignment=lambda _, drawn: drawn.target
    ),
}


@pytest.mark.parametrize("says, task", VIOLATIONS.items())
def test_the_first_violation_is_reported(says, task):
    assert says in first(check_examples, task).text
