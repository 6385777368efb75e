"""A look inside: quantities by name against plain formulas, patching, hooks, and other weights over
a data set.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from models import as_batch, each_arrangement, make_batch, make_model, make_task, predictor_of
from numpy.testing import assert_allclose
from refusal import refused
from tables import table
from test_attention_changes import make as make_kind
from textbook import gates

import seq2attn
from seq2attn.data.vocabulary import EOS
from seq2attn.model.points import hooked, is_hooked

TEXT, OTHER = "abcd", "dcab"
BATCH = as_batch(*make_batch((4, 4), steps=3))
WHOLE = ("decoder.state", "encoder.states")  # what a step reads, besides the symbol before it


def trained(model):
    predictor = predictor_of(model, make_task(alphabet="abcde", max_length=4))
    return seq2attn.TrainedModel(None, None, predictor, "none", 0)


def made(score="scaled", seed=5, **options):
    return trained(make_model(score, initial_state="last", seed=seed, **options))


def transformer():
    return trained(make_kind("transformer"))


def of_heads():
    changes = """
model.hidden=6 model.embedding=4 model.source_eos=false model.attention.heads=2
model.attention.history=coverage task.alphabet=abcde task.max_length=4
"""
    return seq2attn.new_model({}, changes.split())


def cache_of(model, texts=TEXT, **changes):
    return model.run_with_cache(texts, **changes)[1]


def every_row(cache, *names):
    return {(name, index): row for name in names for index, row in enumerate(cache[name])}


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


@each_arrangement
def test_quantities_are_those_of_the_formulas(arrangement):
    model = made(arrangement=arrangement, seed=3)
    answer, cache = model.run_with_cache(TEXT)
    attention = [f"attention.{name}" for name in "query keys scores weights context".split()]
    attention += ["attention.allowed", "attention.logits", "attention.normalised"]
    assert set(cache.names()) == {*WHOLE, "decoder.gates", *attention, "logits"}
    states = cache["encoder.states"]
    width = 5
    assert np.array_equal(cache["attention.weights"], answer.weights)
    assert_allclose(cache["attention.keys"], states / width**0.5)
    assert_allclose(cache["attention.scores"], cache["attention.query"] @ states.T / width**0.5)
    assert_allclose(cache["attention.weights"], softmax(cache["attention.scores"]))
    # without a window and a history
    assert np.array_equal(cache["attention.logits"], cache["attention.scores"])
    assert np.array_equal(cache["attention.normalised"], cache["attention.weights"])
    assert cache["attention.allowed"].all()
    assert_allclose(cache["attention.context"], cache["attention.weights"] @ states)
    likeliest = cache["logits"][:, EOS:].argmax(axis=1) + EOS  # of what may be written
    assert tuple(likeliest) == answer.output_ids
    tokens = model.task.target_vocabulary.tokens
    assert answer.output_symbols == tuple(tokens[index] for index in likeliest)
    state = cache["decoder.state"]
    (_, z, n) = cache["decoder.gates"].transpose(1, 0, 2)
    assert_allclose(state[0], states[-1])  # the initial state is the encoder's last
    assert_allclose(state[1:], ((1 - z) * n + z * state)[:-1])
    query = state if arrangement == "bahdanau" else (1 - z) * n + z * state
    assert_allclose(cache["attention.query"], query)
    assert len(answer.output_symbols) > 3
    assert not is_hooked(model.module)


@table(
    "cell, layers",
    """
gru | 1
gru | 2
lstm | 1
rnn | 1
""",
    "layers",
)
def test_gates_are_recomputed_from_the_weights(cell, layers):
    model = made(cell=cell, layers=layers)
    answer, cache = model.run_with_cache(TEXT)
    tensors = layers * (1 + (cell == "lstm"))
    expected_axes = ("step", "width") if tensors == 1 else ("step", "tensor", "width")
    assert cache.names()["decoder.state"] == expected_axes
    states = cache["decoder.state"].reshape(-1, tensors, 5)
    if cell == "rnn":
        assert "decoder.gates" not in cache
        return
    tensors = model.module.state_dict()
    prefix = "decoder.cell" if layers == 1 else "decoder.cell.cells.0"
    read = tensors["decoder.embedding.weight"][[1, *answer.output_ids[:-1]]]  # <sos>, then its own
    inputs = torch.cat([read, torch.tensor(cache["attention.context"])], dim=1)
    for x, state, found in zip(inputs, states, cache["decoder.gates"], strict=True):
        expected = torch.stack(gates(cell, tensors, prefix, x, torch.tensor(state[0])))
        assert len(found) == layers * len(expected)
        assert_allclose(found[: len(expected)], expected)


KINDS = {
    "bahdanau": made,
    "luong": partial(made, arrangement="luong"),
    "coverage": partial(made, history="coverage"),
    "lstm": partial(made, cell="lstm", layers=2),
    "none": partial(made, "none"),
    "transformer": transformer,
    "hard_monotonic": partial(made, arrangement="hard_monotonic"),
    "heads": of_heads,
}
FIXED = {"hard_monotonic": {"attention.weights", "attention.context"}}  # cannot be replaced


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "heads"])
def test_a_model_s_own_quantities_change_nothing_and_all_of_another_string_s_give_its_answer(kind):
    model = KINDS[kind]()
    (_, cache), (other, source) = map(model.run_with_cache, (TEXT, OTHER))
    assert set(cache.names()) == set(cache)
    names = [name for name in cache if name not in FIXED.get(kind, ())]
    together = [[name] for name in names] if kind == "bahdanau" else [names[::2], names[1::2]]
    for some in together:
        own = cache_of(model, patch=every_row(cache, *some))
        assert all(np.array_equal(own[quantity], cache[quantity]) for quantity in cache), some
    assert not np.allclose(source["logits"][0], cache["logits"][0])
    both = every_row(source, *(name for name in WHOLE if name in cache))
    patched, inside = model.run_with_cache(TEXT, patch=both)
    assert patched.output == other.output == model.predict(TEXT, patch=both).output
    # past weights and alignments are states of their own
    if kind not in ("coverage", "hard_monotonic"):
        assert_allclose(inside["logits"], source["logits"])
    assert [one.output for one in model.predict([TEXT, "abce"], patch=both)] == [other.output] * 2


def test_a_patch_begins_at_its_step_and_the_map_shows_its_effect():
    model = made()
    (answer, cache), (_, source) = map(model.run_with_cache, (TEXT, OTHER))
    for name in ("decoder.state", "attention.context", "attention.weights"):
        write = dict(enumerate(answer.output_symbols))
        patch = {(name, np.int64(2)): source[name][2]}
        found = cache_of(model, patch=patch, write=write)
        assert np.array_equal(found[name][2], source[name][2])
        assert np.array_equal(found["logits"][:2], cache["logits"][:2])
        drawn = seq2attn.patch_map(model, TEXT, OTHER, name)
        places = range(len(cache["logits"])), list(answer.output_ids)
        before, after = (softmax(one["logits"])[places] for one in (cache, found))
        lost = np.log(before / after)
        assert_allclose(drawn.effect[2], lost, atol=1e-12)
        assert abs(lost[2]) > 1e-4
        assert not np.tril(drawn.effect, -1).any()
    assert np.allclose(np.array(drawn.plot().collections[0].get_array()), drawn.effect)
    # rows of `attention.keys` are source positions, too
    rows = seq2attn.patch_map(model, TEXT, OTHER, "attention.keys").plot().get_yticklabels()
    assert "".join(label.get_text() for label in rows).startswith(TEXT)
    short = seq2attn.patch_map(model, TEXT, "ab", "encoder.states")
    assert short.effect.shape == (2, len(answer.output_symbols))
    assert "effect" not in repr(short)


@table(
    "kind, name, index, row, message",
    r"""
bahdanau | symbols | 0 | [0.0]
  | 'symbols' cannot be replaced in this model; allowed: .*decoder.state
bahdanau | decoder.state | -1 | [0.0, 0.0, 0.0, 0.0, 0.0] | found {\('decoder.state', -1\)
bahdanau | decoder.state | 0 | [0.0, 0.0, 0.0, 0.0]
  | patch: decoder.state at 0 has the shape \(5,\); found \(4,\)
bahdanau | attention.weights | 1 | x | attention.weights at 1 must be numbers, .*; found 'x'
transformer | attention.weights | 0 | [0.0, 0.0, 0.0, 0.0] | the shape \(2, 2, 4\); found \(4,\)
bahdanau | encoder.states | 4 | [0.0, 0.0, 0.0, 0.0, 0.0] | unknown position 4; allowed: 0 to 3
hard_monotonic | attention.context | 0 | [] | cannot be replaced in this model
""",
    "index row",
)
def test_a_row_that_does_not_fit_is_refused(kind, name, index, row, message):
    with refused(message):
        KINDS[kind]().run_with_cache(TEXT, patch={(name, index): row})


def test_what_is_no_patch_or_no_quantity_is_refused():
    for wrong in ({"decoder.state": 0}, [("decoder.state", 0, [0.0] * 5)]):
        with refused(r"patch must be \(name, step\) -> a row, .*; found .{1,2}'decoder"):
            made().run_with_cache(TEXT, patch=wrong)
    with refused(r"unknown quantity 'state'; this model has encoder.states, "):
        cache_of(made())["state"]


def test_what_is_not_a_string_a_run_or_a_keyword_is_named():
    model = made()
    for call in (model.predict, model.run_with_cache, model.evaluate):
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'patches'"):
            call(TEXT, patches={})
    for call in (seq2attn.load, seq2attn.evaluate):
        with pytest.raises(TypeError, match="TrainedModel"):
            call(model)
    with pytest.raises(TypeError, match="TrainedModel"):
        seq2attn.train(model)
    with refused("an override is KEY=VALUE; found 5"):
        seq2attn.train({}, [5])
    assert "'encoder.states': ('source', 'width')" in repr(cache_of(model))


# ---- many strings ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_of_many_strings_is_that_of_each(kind):
    model = KINDS[kind]()
    texts = "abc ab abcd ab cba".split()
    answers, cache = model.run_with_cache(texts)
    for row, text in enumerate(texts):
        answer, alone = model.run_with_cache(text)
        assert answer.output == answers[row].output
        assert alone.lengths == {"step": len(answer.output_symbols), "source": len(text)}
        assert {axis: length[row] for axis, length in cache.lengths.items()} == alone.lengths
        of_one = cache.string(row)
        assert of_one.lengths == alone.lengths
        assert of_one.names() == alone.names()
        for name, axes in cache.names().items():
            assert_allclose(of_one[name], alone[name], rtol=1e-5, atol=1e-6)
            assert axes == ("string", *alone.names()[name])
            assert alone[name].shape == tuple(
                alone.lengths.get(axis, size)
                for axis, size in zip(axes[1:], cache[name].shape[1:], strict=True)
            )
            whole = cache[name][row].copy()
            inside = tuple(map(slice, alone[name].shape))
            whole[inside] = 0
            assert not np.nan_to_num(whole, nan=0).any()  # the rest says nothing


def test_each_head_and_each_layer_is_inside():
    answer, cache = of_heads().run_with_cache(TEXT)
    assert cache.names()["attention.weights"] == ("step", "head", "source")
    assert cache.names()["attention.context"] == ("step", "head", "width")
    assert_allclose(cache["attention.weights"].mean(axis=1), answer.weights, atol=1e-7)
    answer, cache = transformer().run_with_cache(TEXT)
    assert cache.names()["attention.weights"] == ("step", "layer", "head", "source")
    assert_allclose(cache["attention.weights"][:, -1].mean(axis=1), answer.weights, atol=1e-7)
    assert cache.names()["attention.keys"] == ("source", "layer", "width")
    patch = {("attention.weights", 0): np.tile([0, 0, 0, 1.0], (2, 2, 1))}
    assert transformer().predict(TEXT, patch=patch).weights[0].tolist() == [0, 0, 0, 1]


@table(
    "kind",
    """
hard_monotonic
order 0
""",
)
def test_the_weights_of_hard_monotonic_are_those_of_the_answer(kind):
    answer, cache = made(arrangement=kind).run_with_cache(TEXT)
    assert np.array_equal(cache["attention.weights"], answer.weights)
    assert not np.allclose(cache["attention.transition"], answer.weights) or kind == "order 0"
    assert_allclose(cache["attention.transition"], cache["attention.normalised"])


# ---- hooks ----


def test_a_hook_sees_the_position_of_what_is_computed_at_once():
    model = made(arrangement="luong").module
    positions = {"decoder.state": [], "encoder.state": [], "logits": []}

    def look(value, at):
        positions[at.name].append(at.positions)

    with hooked(model, dict.fromkeys(positions, look)):
        model(BATCH)
        model(BATCH)
    one_by_one = [range(position, position + 1) for position in range(4)]
    assert positions == {
        "decoder.state": one_by_one[:3] * 2,
        "encoder.state": one_by_one * 2,
        "logits": [range(3)] * 2,
    }


def test_threads_and_tasks_do_not_notice_each_others_hooks():
    """Each asks for something else of one model, again and again, and gets what it gets alone."""
    model = made()
    _, other = model.run_with_cache(OTHER)
    asked = [
        partial(model.predict, TEXT),
        partial(model.predict, TEXT, force={(0, 3): 1.0, (1, 0): 1.0}),
        partial(model.predict, TEXT, patch=every_row(other, "encoder.states")),
        lambda: model.run_with_cache(TEXT, ban=[0])[0],
    ]
    alone = [ask().weights for ask in asked]
    assert not any(np.array_equal(one, alone[0]) for one in alone[1:])

    def repeated(number):
        return all(np.array_equal(asked[number]().weights, alone[number]) for _ in "ab")

    def scaled(number):
        return hooked(model, {"attention.weights": lambda weights, _: weights * number})

    async def task(number):
        with scaled(number):
            expected = model.predict(TEXT).weights
            await asyncio.sleep(0)  # the other tasks go on here, inside the context of this one
            return np.array_equal(model.predict(TEXT).weights, expected)

    async def in_tasks():
        return await asyncio.gather(*map(task, range(4)))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(repeated, range(4)))
    assert all(asyncio.run(in_tasks()))


def test_hooks_that_do_not_fit_are_refused():
    model = made()
    with refused(r"unknown point 'attention.weight'; did you mean 'attention.weights'\?"):
        hooked(model, {"attention.weight": None}).__enter__()
    for wrong, found in (
        (lambda weights, at: weights[..., 1:], r"torch.float64 \(1, 1, 3\)"),
        (lambda weights, at: weights.float(), r"torch.float32 \(1, 1, 4\)"),
        (lambda *_: 1.0, "1.0"),
    ):
        told = rf"attention.weights returned {found}; expected torch.float64 \(1, 1, 4\), or None"
        with refused(f"a hook of {told}"), hooked(model, {"attention.weights": wrong}):
            model.predict(TEXT)
    for wrong in (lambda weights: weights, 3, lambda weights, at, more: None):
        with refused(r"the hook of attention.weights must be a function of \(value, at\); found"):
            hooked(model, {"attention.weights": wrong}).__enter__()
    with refused("run_with_cache answers greedily, without beam"):
        model.run_with_cache(TEXT, beam=3)
    model = made(arrangement="hard_monotonic")
    doubled = hooked(model, {"attention.context": lambda context, at: context.mul_(2)})
    with refused("`hard_monotonic` reads no context"), doubled:
        model.predict(TEXT)


SMALL = """
task: {name: reverse, alphabet: abcdefgh, min_length: 2, max_length: 4}
model: {hidden: 24, embedding: 8, attention: {score: scaled}}
training: {steps: 110, batch_size: 24, learning_rate: 0.03, validation_samples: 2, snapshots: 0}
"""


@pytest.mark.slow  # it trains; what it patches is patched in the other tests
def test_attention_matters_to_a_trained_model(cli, blank_figures):
    values = yaml.safe_load(SMALL)
    run = seq2attn.train(values, name="small", progress=False)
    blind = ["model.attention.score=none", "training.steps=2"]
    seq2attn.train(values, blind, name="blind", progress=False)
    asked = "--frozen small --lengths 3 --samples 40 --plot importance.svg"
    rows = cli(f"analyze importance small {asked}").rows()
    found = {row["weights"]: float(row["exact_match"]) for row in rows}
    assert found["unchanged"] == found["frozen"] > 0.9
    assert max(found["permuted"], found["uniform"]) < 0.7
    for names in ("blind", "small --frozen blind"):
        assert "no attention" in cli(f"analyze importance {names}").err
    model = seq2attn.load(run)
    forced = model.evaluate([3], samples=20, force={(step, 2 - step): 1.0 for step in range(3)})
    assert forced.get("alignment", 3).value == 1.0
    assert forced.get("entropy", 3).value == 0.0
    flat = seq2attn.evaluate(run, [3], samples=40, temperature=1000.0)  # as good as uniform
    assert flat.get("exact_match", 3).value == found["uniform"]
    assert not run.evaluations.exists()
    with refused("unknown position 4; allowed: 0 to 3"):
        model.evaluate([3], ban=[4])
    written = model.evaluate([3], samples=40, write={0: "a", 3: "a"})  # no <eos> at step 3
    assert written.get("exact_match", 3).value == 0 < written.get("teacher_forced", 3).value
    padded = [
        model.evaluate([3], samples=40, padding=3, mask_padding=mask).get("exact_match", 3)
        for mask in (True, False)
    ]
    assert padded[0].value == found["unchanged"]
    assert padded[1].value < 1
