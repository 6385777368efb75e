"""Hooks that know where they are: order, heads, strings, positions; patches of many strings at
once; and contexts that are left in any order.
"""

import asyncio
import contextlib
import itertools
from functools import partial

import numpy as np
import pytest
import torch
from models import as_batch, make_batch
from numpy.testing import assert_allclose
from refusal import refused
from tables import table
from test_inside import BATCH, FIXED, KINDS, TEXT, cache_of, made, of_heads, transformer

import seq2attn
from seq2attn.inference.evaluation import evaluate
from seq2attn.model.points import Point, hooked, is_hooked

TEXTS = "abc ab abcd ab cba".split()
OTHERS = "cba ac dcba ea bbc".split()


# ---- order ----


def test_hooks_run_in_the_order_of_their_entry_then_changes_then_the_cache():
    model = made()
    order = []

    def tell(value, at):
        if at.positions == range(1):
            order.append(value[0, 0].tolist())

    def flat(weights, at):
        weights[:] = 0.25

    def first(weights, at):
        weights[:] = torch.tensor([1, 0, 0, 0])

    with contextlib.ExitStack() as entered:
        for hook in (flat, tell, first, tell):
            entered.enter_context(hooked(model, {"attention.weights": hook}))
        answer, cache = model.run_with_cache(TEXT, force={(0, 2): 0.5})
    assert order == [[0.25] * 4, [1, 0, 0, 0]]
    assert answer.weights[0].tolist() == cache["attention.weights"][0].tolist() == [0.5, 0, 0.5, 0]
    assert (cache["attention.weights"][1:] == [1, 0, 0, 0]).all()
    states = cache["encoder.states"]
    assert_allclose(cache["attention.context"], cache["attention.weights"] @ states)


def test_a_hook_gets_a_copy_of_what_others_share():
    """`normalised` and `weights` are one tensor in a model without windows and histories."""
    model = made()
    plain = cache_of(model)

    with hooked(model, {"attention.weights": lambda value, at: value.zero_()}):
        cache = cache_of(model)
    assert not cache["attention.weights"].any()
    assert np.array_equal(cache["attention.normalised"][0], plain["attention.normalised"][0])


def test_gradients_flow_through_a_hook_that_only_looks():
    model = made().module
    kept = []
    with hooked(model, {"attention.context": lambda value, at: kept.append(value)}):
        model(BATCH).logits.sum().backward(inputs=kept)
    assert kept[0].grad.abs().sum() > 0


# ---- where a value is ----


@pytest.mark.parametrize("make", [of_heads, transformer])
def test_a_head_is_switched_off_by_the_same_lines_in_every_model(make):
    def off(weights, at):
        if at.head == 1:
            weights.zero_()

    model = make()
    cache = cache_of(model)
    with hooked(model, {"attention.weights": off}):
        changed = cache_of(model)
    axis = cache.names()["attention.weights"].index("head")
    own, other = (np.take(changed["attention.weights"], head, axis) for head in (0, 1))
    assert not other.any()
    of_first_step = np.take(cache["attention.weights"], 0, axis)[0]
    assert_allclose(own[0].reshape(-1, 4)[0], of_first_step.reshape(-1, 4)[0], atol=1e-6)


def test_layers_gates_tensors_and_models_are_told_apart():
    seen = {}

    def see(value, at):
        seen[at.name, at.model, at.layer, at.head, at.gate, at.tensor] = tuple(value.shape)

    names = ("decoder.state", "decoder.gates", "attention.weights")
    model = made(cell="lstm", layers=2)
    with hooked(model, dict.fromkeys(names, see)):
        model.predict("ab")
    states = {("decoder.state", 0, layer, None, None, t) for layer in (0, 1) for t in (0, 1)}
    gates = {("decoder.gates", 0, layer, None, gate, 0) for layer in (0, 1) for gate in "ifgo"}
    assert set(seen) == states | gates | {("attention.weights", 0, 0, 0, None, 0)}
    seen.clear()
    model = transformer()
    by_head = ("attention.allowed", "attention.weights")
    with hooked(model, dict.fromkeys((*by_head, "attention.context"), see)):
        model.predict("ab")
    numbers = set(itertools.product(by_head, (0,), (0, 1), (0, 1), (None,), (0,)))
    contexts = {("attention.context", 0, layer, None, None, 0) for layer in (0, 1)}
    assert set(seen) == numbers | contexts
    assert seen["attention.weights", 0, 1, 1, None, 0] == (1, 1, 2)


@table(
    "kind, beam",
    """
bahdanau | 3
transformer | null
heads | null
heads | 3
""",
    "beam",
)
def test_a_change_meant_for_one_string_changes_no_other(kind, beam):
    model = KINDS[kind]()

    def steer(context, at):
        context[at.strings == 3] += 5

    def numbers(texts):
        """What the model computes for each string."""
        if beam:
            return [answer.hypotheses for answer in model.predict(texts, beam=beam)]
        cache = cache_of(model, texts)
        return [cache.string(number)["logits"][0].tolist() for number in range(len(texts))]

    plain = numbers(TEXTS)
    with hooked(model, {"attention.context": steer}):
        found = numbers(TEXTS)
        again = numbers(["e", "cca", "cd", TEXTS[3]])
    assert [one == other for one, other in zip(found, plain, strict=True)] == [1, 1, 1, 0, 1]
    if not beam:
        assert_allclose(found[3], again[3], rtol=1e-5, atol=1e-6)


def test_strings_are_counted_on_through_blocks_evaluations_and_batches(monkeypatch):
    monkeypatch.setattr("seq2attn.inference.predictor.BLOCK_WITH_WEIGHTS", 4)
    model = made()
    seen = []
    hooks = {"logits": lambda value, at: seen.extend(at.strings.tolist())}
    with hooked(model, hooks):
        model.predict(["ab", "abc", "ab", "c", "abcd"])
    assert set(seen) == set(range(5))
    monkeypatch.setattr("seq2attn.inference.evaluation.BLOCK", 3)
    seen.clear()
    with hooked(model, hooks):
        evaluate(model.predictor, [2], samples=8, seed=0, errors=True)
    assert set(seen) == set(range(8))
    seen.clear()
    with hooked(model, hooks):
        model.module(as_batch(*make_batch((4, 2, 1), steps=2)))
    assert seen == [0, 1, 2]


# ---- patches of many strings ----


LIKE_BAHDANAU = {"lstm", "coverage", "none"}  # which a cache and a patch of all hold


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in LIKE_BAHDANAU])
def test_each_string_gets_its_own_donor_and_nan_patches_nothing(kind):
    model = KINDS[kind]()
    texts, others = TEXTS[3:], OTHERS[3:]
    donors = cache_of(model, others)
    unpatched = [model.run_with_cache(text) for text in texts]
    names = sorted(set(donors) - FIXED.get(kind, set()) - {"attention.allowed"})
    for name in names if kind == "bahdanau" else names[::3]:
        place = min(1, donors[name].shape[1] - 1)
        rows = donors[name][:, place].copy()
        rows[1] = np.nan
        found, cache = model.run_with_cache(texts, patch={(name, place): rows})
        for number, text in enumerate(texts):
            alone = donors.string(number)[name]
            lacks = number == 1 or len(alone) <= place
            expected, inside = unpatched[number]
            if not lacks:
                patch = {(name, place): alone[place]}
                expected, inside = model.run_with_cache(text, patch=patch)
            assert found[number].output == expected.output, name
            of_one = cache.string(number)
            assert_allclose(of_one["logits"], inside["logits"], rtol=1e-5, atol=1e-6)


def test_maps_of_many_pairs_are_those_of_each():
    for kind, name in (("luong", "encoder.states"), ("transformer", "attention.context")):
        model = KINDS[kind]()
        maps = seq2attn.patch_map(model, TEXTS, OTHERS, name)
        for text, other, found in [*zip(TEXTS, OTHERS, maps, strict=True)][1:3]:
            alone = seq2attn.patch_map(model, text, other, name)
            assert found.answer.output == alone.answer.output
            assert_allclose(found.effect, alone.effect, atol=1e-6)
    with refused("patch_map takes pairs; found 5 and 1 strings"):
        seq2attn.patch_map(model, TEXTS, "ab", "encoder.states")


def test_batches_of_donors_that_do_not_fit_are_refused():
    model = made()
    donors = cache_of(model, OTHERS)["encoder.states"][:, 1]
    with refused(r"encoder.states at 1 has rows for 2 strings, and there are . or more"):
        model.predict(TEXTS, patch={("encoder.states", 1): donors[:2]})


def test_where_a_donor_is_nan_nothing_is_patched():
    model = made()
    states, donors = (cache_of(model, one)["encoder.states"] for one in (TEXT, "dcab"))
    row = donors[1].copy()
    row[0] = np.nan
    found = cache_of(model, patch={("encoder.states", 1): row})["encoder.states"]
    assert found[1].tolist() == [states[1, 0], *donors[1, 1:]]
    rows = np.array([[1, 0, 0, 0], [np.nan] * 4])  # of a value that is bool
    cache = cache_of(model, ["abcd", "dcba"], patch={("attention.allowed", 0): rows})
    assert cache["attention.allowed"][:, 0].tolist() == [[1, 0, 0, 0], [1, 1, 1, 1]]


def test_a_row_of_one_number_can_be_patched():
    class Gains(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gains = Point("encoder.gains", "source")

        def forward(self, embedded):
            return embedded * self.gains(torch.ones_like(embedded[..., 0])).unsqueeze(2)

    model = made()
    model.module.encoder.layers[0].dropout = Gains()
    patch = {("encoder.gains", 1): [np.nan, 0.5, 0.25, np.nan, np.nan]}
    gains = cache_of(model, TEXTS, patch=patch)["encoder.gains"]
    assert gains[:, 1].tolist() == [1, 0.5, 0.25, 1, 1]


# ---- what a cache keeps ----


class Visits(torch.nn.Module):
    """A decoder's output layer whose point is passed at some positions, and so many times."""

    def __init__(self, layer, times):
        super().__init__()
        self.layer, self.times, self.calls = layer, times, 0
        self.mean = Point("mean", "width")
        self.out_features = layer.out_features

    def forward(self, features):
        for _ in range(self.times[self.calls % len(self.times)]):
            self.mean(features.mean(dim=1, keepdim=True).squeeze(1))
        self.calls += 1
        return self.layer(features)


def visited(times):
    model = made()
    model.module.decoder.output = Visits(model.module.decoder.output, times)
    return model


def test_a_cache_is_by_position():
    means = cache_of(visited([1, 0, 1]))["decoder.output.mean"]
    assert np.isnan(means).all(axis=1).tolist()[:3] == [False, True, False]
    with refused("decoder.output.mean is passed several times at position 0, and a cache keeps"):
        visited([2]).run_with_cache(TEXT)
    assert "decoder.output.mean" not in cache_of(visited([0]))


# ---- contexts ----


def test_hooks_leave_with_their_own_context_whatever_the_order():
    model = made()

    one, two = contextlib.ExitStack(), contextlib.ExitStack()
    one.enter_context(hooked(model, {"logits": lambda value, at: -value}))
    two.enter_context(hooked(model, {"logits": lambda value, at: value}))
    changed = model.predict(TEXT).output
    assert not is_hooked(made().module)  # another model
    one.close()  # the first leaves before the second
    assert model.predict(TEXT).output != changed
    assert is_hooked(model.module)
    two.close()
    assert not is_hooked(model.module)


@pytest.mark.parametrize("encodes", [True, False])
def test_a_hook_may_encode_or_leave_and_others_are_told_the_position_of_their_own_decoding(encodes):
    model = made()
    inside = []  # while the hook encodes
    positions = []

    def hook(value, at):
        if inside:
            return
        if encodes:
            inside.append(True)
            model.module.encode(torch.tensor([[3, 4]]), torch.tensor([2]))
            inside.clear()
        elif at.first == 2:
            own.close()

    def look(value, at):
        if not inside:
            positions.append(at.first)

    with hooked(model, {"attention.context": look}), contextlib.ExitStack() as own:
        own.enter_context(hooked(model, {"attention.weights": hook}))
        answer = model.predict(TEXT)
    assert len(answer.output_symbols) > 3
    assert positions == list(range(len(answer.output_symbols)))


def test_a_hook_may_look_at_what_is_fixed_and_not_a_number():
    model = made(arrangement="hard_monotonic")
    with torch.no_grad():
        model.module.encoder.embedding.weight.fill_(torch.nan)
    seen = []
    with (
        hooked(model, {"attention.weights": lambda value, at: seen.append(value)}),
        refused("the model's logits are nan"),
    ):
        model.predict(TEXT)
    assert seen[-1].isnan().any()


def test_a_task_that_outlives_its_context_has_no_hooks():
    model = made()
    plain = model.predict(TEXT).weights

    async def later():
        await asyncio.sleep(0)
        return model.predict(TEXT).weights

    async def outer():
        with hooked(model, {"attention.weights": lambda value, at: value.fill_(0.25)}):
            task = asyncio.ensure_future(later())
            assert (model.predict(TEXT).weights == 0.25).all()
        return await task

    assert np.array_equal(asyncio.run(outer()), plain)


def test_a_hook_that_no_value_passed_is_said(tiny_run):
    model = seq2attn.load("tiny", runs_dir=tiny_run.runs)
    looking = partial(hooked, model, {"attention.weights": lambda value, at: None})
    said = "through attention.weights of this model while it was"
    with pytest.warns(UserWarning, match=said), looking():
        seq2attn.evaluate("tiny", [2], samples=2, runs_dir=tiny_run.runs, temperature=2)
    # where it fails nothing is said of hooks: a warning is an error here
    with refused("my own"), looking():
        raise seq2attn.Seq2AttnError("my own")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_hooks_what_torch_compiles():
    model = made().module
    compiled = torch.compile(model, backend="eager")
    seen = []
    with hooked(compiled, {"attention.weights": lambda value, at: seen.append(at.name)}):
        logits = compiled(BATCH).logits
    assert set(seen) == {"attention.weights"}
    assert torch.equal(logits, model(BATCH).logits)
