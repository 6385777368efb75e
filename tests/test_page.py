"""The page of a model: it computes what PyTorch computes, shows it, and runs nothing else."""

import importlib.util
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from inline import ROOT
from numpy.testing import assert_allclose
from pages import (
    CONFIGS,
    DECODE,
    MECHANISMS,
    OnnxLoop,
    exported_once,
    for_page,
    in_pytorch,
    largest_differences,
    make_predictor,
    make_shown,
    random_changes,
    random_texts,
)
from refusal import refused

import seq2attn
from seq2attn.build import build_model, build_task
from seq2attn.config import load, load_config
from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.inference import trained_model
from seq2attn.inference.changes import Changes
from seq2attn.inference.predictor import Predictor
from seq2attn.model.points import places
from seq2attn.pages import asset
from seq2attn.parts import TASKS

pytest.importorskip("onnxscript", reason='needs the extra "export": pip install "seq2attn[export]"')

from seq2attn.pages import page as page_module
from seq2attn.pages.graphs import export_graphs, manifest, write_graphs
from seq2attn.pages.models import PageModel, run_models
from seq2attn.pages.page import model_json, operations, render
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.runs.run import find_run

LOGITS, WEIGHTS = 1e-4, 1e-4  # how closely page, onnxruntime and PyTorch agree
AT_ONCE = 20  # strings of a call of the browser
SAMPLE = "one of each"
CHANGED = 40  # strings of each mechanism that are decoded with changes too
NASTY = (
    "</script><script>document.title='executed'</script><img src=x "
    "onerror=\"document.title='executed'\">'&{{data}}"
)
STRANGE = [
    "</script>",
    "<b>",
    "&amp;",
    '"',
    "\\",
    "\x01",
    "\u202e",
    "שלום",
    "e\u0301\u0302",
    "{{data}}",
]


def open_page(browser, folder, page):
    (folder / "page.html").write_text(page, "utf-8")
    browser.console()
    browser.open(folder / "page.html")


def agreement(browser, tmp_path, name, texts, changed, longest=40):
    """The largest differences from PyTorch: logits and weights of the page, logits and weights of
    onnxruntime.

    Of `texts` random strings, and of the first `changed` again with random changes. Raises
    AssertionError where an answer differs.
    """
    shown = make_shown(name)
    predictor = shown.predictor
    exported = export_graphs(predictor.model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "export_graphs", lambda model: exported)
        open_page(browser, tmp_path, render([shown]))
    described = manifest(predictor, exported)
    requests = [(text, None) for text in random_texts(predictor, texts, longest=longest)]
    requests += [
        (
            text,
            random_changes(predictor, text, n, described["attends"], not described["force_reason"]),
        )
        for n, (text, _) in enumerate(requests[:changed])
    ]
    asked = [for_page(predictor, *one) for one in requests]
    expected = [in_pytorch(predictor, *one) for one in requests]
    answers = []
    for start in range(0, len(asked), AT_ONCE):
        some = json.dumps(asked[start : start + AT_ONCE])
        answers += browser.run(f"{DECODE} return decodeAll(new Model(data.models[0]), {some})")
    most = (
        3 if "by_key" in name else None
    )  # each step sharpens, which multiplies what rounding has changed
    differences = [largest_differences(answers, expected, most)]
    if described["attends"]:
        assert_explained(browser)
    if importlib.util.find_spec("onnxruntime"):
        write_graphs(tmp_path, exported, described)
        loop = OnnxLoop(tmp_path)
        differences.append(largest_differences([loop.decode(one) for one in asked], expected, most))
    return differences


def test_page_onnxruntime_and_pytorch_agree(browser, tmp_path):
    assert_close(agreement(browser, tmp_path, SAMPLE, 3, 3, longest=12))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_page_onnxruntime_and_pytorch_agree_with_every_mechanism(browser, tmp_path, name):
    found = agreement(
        browser, tmp_path, name, int(os.environ.get("SEQ2ATTN_STRINGS", "1000")), CHANGED
    )
    print(
        name, *(f"logits {logits:.1e} weights {weights:.1e}" for logits, weights in found), sep="  "
    )
    assert_close(found)


def test_a_page_of_one_symbol_writes_neither_padding_nor_the_start(browser, tmp_path):
    config = load_config(CONFIGS / "scaled.yaml", ["task.alphabet=a", "model.hidden=8"])
    task = build_task(config)
    model = build_model(config, task)
    model.decoder.output.bias.data[: SOS + 1] = 50.0
    predictor = Predictor(model, task, config.model.source_eos, torch.device("cpu"))
    open_page(browser, tmp_path, render([PageModel("one", predictor, {}, ["aa"])]))
    texts = ["a", "aaaa"]
    asked = json.dumps([for_page(predictor, text) for text in texts])
    found = browser.run(f"{DECODE} return decodeAll(new Model(data.models[0]), {asked})")
    answers = [list(answer.output_ids) for answer in predictor.predict(texts)]
    assert [one["tokens"] for one in found] == answers
    assert all(logits[PAD] > max(logits[EOS:]) for one in found for logits in one["logits"])
    assert min(map(min, answers)) >= EOS
    shown = "Array.from(document.querySelectorAll('.likeliest button'), one => one.textContent)"
    assert sorted(browser.run(f"return {shown}")) == ["a", "⏎"]


def assert_explained(browser):
    """The rows of score, softmax and weight end with the model's own numbers."""
    last = "Number(views[0].panel.rows[part].children[1].textContent.split(' = ').at(-1))"
    kinds = "[['score', 'scores'], ['softmax', 'softmax'], ['weight', 'weights']]"
    for t, j in ((0, 0), (1, 3)):
        for value, numbers in browser.run(
            f"choose({t}, {j}); const step = views[0].now.steps[state.step];"
            f"const here = (_, k) => k % views[0].now.width === {j};"
            f"return {kinds}.map(([part, name]) => [{last}, "
            f"Array.from(step[name].data).filter(here)])"
        ):
            assert any(value == pytest.approx(one, rel=1e-3, abs=1e-4) for one in numbers)


def assert_close(found):
    assert all(logits < LOGITS and weights < WEIGHTS for logits, weights in found), found


def test_every_operation_follows_the_definition_of_onnx(browser, tmp_path):
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    blank = tmp_path / "blank.html"
    blank.write_text("<!doctype html><title>operations</title>")
    browser.open(blank)
    requests = []
    expected = []
    for operation, inputs, attributes in CASES:
        arrays = {f"x{k}": np.array(one) for k, one in enumerate(inputs)}
        arrays = {
            name: one.astype(np.float32) if one.dtype == np.float64 else one
            for name, one in arrays.items()
        }
        outputs = OUTPUTS.get(operation, ["a"])
        node = helper.make_node(operation, list(arrays), outputs, **attributes)
        kinds = [
            (name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
            for name, one in arrays.items()
        ]
        ends = [(name, 0, None) for name in outputs]
        graph = helper.make_graph(
            [node],
            "case",
            *([helper.make_tensor_value_info(*one) for one in side] for side in (kinds, ends)),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        expected.append(ReferenceEvaluator(model).run(None, arrays))
        types = {"f": "float", "i": "int", "b": "bool"}
        plain = [
            {"type": types[one.dtype.kind], "shape": one.shape, "data": one.ravel().tolist()}
            for one in arrays.values()
        ]
        requests.append([operation, plain, attributes])
    answers = browser.run(
        f"{asset('multiply.js')} {asset('tensors.js')} {asset('operations.js')};"
        f"return {json.dumps(requests)}.map(([operation, inputs, attributes]) => {{"
        "const tensors = inputs.map(one => tensor(one.type, one.shape, "
        "Float64Array.from(one.data, Number)));"
        "const made = OPERATIONS[operation](tensors, attributes);"
        "return [made].flat().map(one => [one.shape, Array.from(one.data)]); })"
    )
    for (operation, *_), found, wanted in zip(CASES, answers, expected, strict=True):
        for (shape, values), array in zip(found, wanted, strict=True):
            assert tuple(shape) == np.shape(array), operation
            assert_allclose(
                values, np.ravel(array).astype(float), rtol=2e-6, atol=1e-6, err_msg=operation
            )
    assert operations() == {case[0] for case in CASES}


A = [[1.5, -2.0, 0.25], [0.0, 3.0, -0.75]]
B = [[0.5, 2.0, -1.0], [1.0, -3.0, 4.0]]
PLACES = [[0, -1], [1, 1]]
CUBE = np.arange(24.0).reshape(2, 3, 4) / 7 - 1
LARGE = np.sin(np.arange(442.0))  # the products of these are computed in WebAssembly
OUTPUTS = {"Split": ["a", "b"], "TopK": ["a", "b"], "LayerNormalization": ["a", "means", "factors"]}
UNARY = (
    "Abs Neg Exp Sin Cos Tan Atan Tanh Sigmoid Relu Softplus Softsign Sign Floor Ceil Erf "
    "LeakyRelu Elu Selu HardSigmoid"
)
BINARY = "Sum CastLike Greater GreaterOrEqual Add Sub Mul Div Max Min Less LessOrEqual Equal"
REDUCTIONS = "ReduceSum ReduceProd ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2"
CASES = [
    *((name, [A, B], {}) for name in BINARY.split()),
    *((name, [CUBE], {}) for name in "Identity Dropout Size Gelu".split()),
    ("Gelu", [A], {"approximate": "tanh"}),
    *((name, [A], {}) for name in UNARY.split()),
    *((name, [[[0.5, 2.0, 9.0]]], {}) for name in ("Sqrt", "Log", "Reciprocal")),
    ("Round", [[0.5, 1.5, -0.5, -1.5, 2.4]], {}),
    ("IsNaN", [[1.0, float("nan")]], {}),
    ("IsInf", [[1.0, float("inf"), -float("inf")]], {}),
    ("Add", [CUBE, [[1.0], [2.0], [3.0]]], {}),
    ("Add", [[[1.0], [2.0]], [10.0, 20.0, 30.0]], {}),
    ("Sub", [5.0, A], {}),
    ("Div", [[-7, 7], [2, 2]], {}),
    ("Mod", [[-7, 7], [3, -3]], {}),
    ("Pow", [[2.0, 3.0], [3.0, 2.0]], {}),
    ("Not", [[True, False]], {}),
    *((name, [[True, True, False], [True, False, False]], {}) for name in ("And", "Or", "Xor")),
    ("Where", [[[True], [False]], A, 7.0], {}),
    ("Where", [[[True, False, True], [False, False, True]], A, B], {}),
    ("Clip", [A, -0.5, 1.0], {}),
    ("Cast", [[1.7, -1.7, 0.0]], {"to": 7}),
    ("Cast", [[1.7, -1.7, 0.0]], {"to": 9}),
    ("Shape", [CUBE], {"start": 1}),
    ("ConstantOfShape", [[2, 3]], {}),
    ("Range", [2, 11, 3], {}),
    ("Expand", [[[1.0], [2.0]], [2, 2, 3]], {}),
    ("Tile", [A, [2, 2]], {}),
    ("Trilu", [CUBE], {"upper": 0}),
    ("Trilu", [CUBE, 1], {"upper": 1}),
    ("Reshape", [CUBE, [0, -1]], {}),
    ("Squeeze", [[[[1.0, 2.0]]], [0]], {}),
    ("Unsqueeze", [A, [0, 3]], {}),
    ("Flatten", [CUBE], {"axis": 2}),
    ("Concat", [A, B], {"axis": 1}),
    ("Split", [CUBE, [1, 3]], {"axis": 2}),
    ("Split", [A], {"axis": 1, "num_outputs": 2}),
    ("Gather", [CUBE, [[2, 0], [-1, 1]]], {"axis": 1}),
    ("GatherElements", [A, PLACES], {"axis": 1}),
    ("ScatterElements", [A, PLACES, [[7.0, 8.0], [9.0, 6.0]]], {"axis": 1}),
    (
        "ScatterElements",
        [A, PLACES, [[7.0, 8.0], [9.0, 6.0]]],
        {"axis": 1, "reduction": "add"},
    ),
    *(
        ("ScatterND", [CUBE, [[[0, -1]], [[1, 1]]], CUBE[:, :1]], {"reduction": kind})
        for kind in ("none", "add")
    ),
    ("Transpose", [CUBE], {"perm": [2, 0, 1]}),
    ("Transpose", [CUBE], {}),
    ("Slice", [CUBE, [0, -1], [9, -9], [1, 2], [2, -1]], {}),
    ("Slice", [CUBE, [1], [2], [0]], {}),
    ("Pad", [A, [1, 0, 0, 2], 9.0], {}),
    ("MatMul", [CUBE, np.arange(20.0).reshape(4, 5)], {}),
    ("MatMul", [CUBE, np.arange(24.0).reshape(2, 4, 3)], {}),
    ("MatMul", [LARGE.reshape(2, 13, 17), LARGE[:187].reshape(17, 11)], {}),
    (
        "Gemm",
        [LARGE[:221].reshape(17, 13), LARGE[:187].reshape(11, 17)],
        {"transA": 1, "transB": 1},
    ),
    ("MatMul", [[1.0, 2.0], A], {}),
    ("MatMul", [A, [1.0, 2.0, 3.0]], {}),
    (
        "Gemm",
        [A, [[1.0, 2.0, 3.0]] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]],
        {"transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    ("Gemm", [A, B], {"transA": 1}),
    (
        "Conv",
        [CUBE, np.arange(12.0).reshape(2, 3, 2), [1.0, 2.0]],
        {"pads": [1, 0], "strides": [2]},
    ),
    (
        "Conv",
        [np.arange(16.0).reshape(1, 4, 4), np.arange(12.0).reshape(4, 1, 3)],
        {"group": 4, "pads": [1, 1]},
    ),
    ("Softmax", [CUBE], {"axis": 1}),
    ("LogSoftmax", [A], {}),
    ("LayerNormalization", [CUBE, [1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.0, 1.0]], {"axis": -1}),
    ("CumSum", [A, 1], {"reverse": 1, "exclusive": 1}),
    ("CumSum", [A, 0], {}),
    ("ArgMax", [[[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]], {"axis": 1}),
    ("ArgMin", [A], {"axis": 0, "keepdims": 0}),
    ("TopK", [[[3.0, 1.0, 3.0], [2.0, 2.0, 0.0]], [2]], {"axis": 1, "largest": 0}),
    ("TopK", [CUBE, [2]], {"axis": 1}),
    *((name, [CUBE, [1]], {"keepdims": 0}) for name in REDUCTIONS.split()),
    ("ReduceSum", [CUBE, [0, -1]], {}),
    *((name, [np.abs(CUBE) + 1, [1]], {}) for name in ("ReduceSumSquare", "ReduceLogSum")),
    ("ReduceLogSumExp", [np.array(A) * 1000, [1]], {"keepdims": 0}),
]


# ---- what a person sees and does ----


@pytest.fixture(scope="module")
def predictor():
    return make_predictor("scaled.yaml model.hidden=8 model.embedding=4")


@pytest.fixture(scope="module")
def exported(predictor):
    return export_graphs(predictor.model)


@pytest.fixture(scope="module")
def rendered(predictor, exported):
    """A page of two models; their weights differ, and their graphs are the same."""
    other = make_predictor("scaled.yaml model.hidden=8 model.embedding=4", seed=2)
    snapshots = {"step 0": other.model.state_dict(), "step 9": predictor.model.state_dict()}
    models = [
        PageModel("first", predictor, {"score": "scaled"}, ["abc", "cab"], snapshots),
        PageModel("second", other, {"score": "scaled"}, ["abc"]),
    ]
    with pytest.MonkeyPatch.context() as patch, exported_once("export_answer"):
        patch.setattr(page_module, "export_graphs", lambda model: exported)
        return render(models)


@pytest.fixture
def shown(browser, tmp_path, rendered):
    browser.resize(1400, 900)
    open_page(browser, tmp_path, rendered)
    yield browser
    assert browser.console() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


TYPE = (
    "const type_ = text => { by('text').value = text; by('text').dispatchEvent(new "
    "Event('input')); };"
)
KEY = (
    "const key = (name, place = views[0].canvas) => place.dispatchEvent("
    "new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));"
)
ANSWER = (
    "[...views[0].find('.answer .tiles').querySelectorAll(':scope > "
    "button')].map(one => one.textContent)"
)
WEIGHTS_OF_STEPS = "views[0].now.steps.map(step => Array.from(step.weights.data))"


def predicted(predictor, text, **changes):
    return next(replace(predictor, changes=Changes(**changes)).predict([text], keep_weights=True))


def answer_of(predictor, text, **changes):
    return [
        "⏎" if one == "<eos>" else one
        for one in predicted(predictor, text, **changes).output_symbols
    ]


def test_the_answer_follows_each_keystroke_and_unknown_symbols_are_named(shown, predictor):
    for text in "c ca cab ab".split():
        assert shown.run(f"{TYPE} type_({text!r}); return {ANSWER}") == answer_of(predictor, text)
    for text, message in (("abQ", "does not know Q"), ("", "Type a string.")):
        assert message in shown.run(f"{TYPE} type_({text!r}); return by('message').textContent")
    stuck = (
        "const kept = Session.prototype.decode; Session.prototype.decode = () => "
        "broadcast([2, 1, 3], [4]); "
    )
    told = "Session.prototype.decode = kept; return by('message').textContent"
    assert "cannot read that: sizes 3 and 4 do not fit" in shown.run(
        f"{stuck} {TYPE} type_('ba'); {told}"
    )
    assert shown.run(f"{TYPE} type_('ab'); return by('message').textContent") == ""


@pytest.mark.parametrize(
    "keys, changes",
    [
        ("ArrowDown ArrowLeft ArrowLeft ArrowLeft Enter", {"force": {(1, 0): 1.0}}),
        ("ArrowLeft ArrowLeft ArrowLeft ArrowRight 3", {"force": {(0, 1): 0.3}}),
        ("ArrowLeft ArrowLeft ArrowLeft B", {"ban": [0]}),
        ("ArrowLeft ArrowLeft ArrowLeft b ArrowDown 0", {"ban": [(0, 0)], "force": {(1, 0): 0.0}}),
        ("Enter Delete", {}),
        ("Enter b B Escape", {}),
    ],
)
def test_keys_change_a_weight(shown, predictor, keys, changes):
    presses = "".join(f"key({one!r});" for one in keys.split())
    found = f"[{ANSWER}, {WEIGHTS_OF_STEPS}, by('reset').disabled]"
    answer, weights, unchanged = shown.run(f"{TYPE} {KEY} type_('cabd'); {presses} return {found}")
    assert answer == answer_of(predictor, "cabd", **changes)
    assert_allclose(weights, predicted(predictor, "cabd", **changes).weights, atol=WEIGHTS)
    assert unchanged == (not changes)


@pytest.mark.parametrize("text", ["HELLO&write=0,3", "constructor&position=2", "__proto__", ""])
def test_a_link_with_a_text_that_the_model_cannot_read(shown, tmp_path, predictor, text):
    shown.open(tmp_path / "page.html", f"?{text[:1]}#text={text}")
    keys = (
        "for (const name of ['Enter', 'ArrowDown', '5', 'b', 'Delete', 'constructor']) key(name);"
    )
    problem = shown.run(f"{KEY} {keys} play(); return by('message').textContent")
    assert problem.startswith("The model does not know" if text else "Type a string.")
    assert shown.run(f"{TYPE} undoAll(); type_('cab'); return {ANSWER}") == answer_of(
        predictor, "cab"
    )


def test_what_the_model_wrote_is_changed_beside_the_untouched_answer(shown, predictor):
    beside = ANSWER.replace(".answer .tiles", ".answer.untouched .tiles")
    hidden = "views[0].find('.answer.untouched').hidden"
    assert shown.run(f"{TYPE} type_('cab'); return {hidden}")
    changed = [False, answer_of(predictor, "cab"), answer_of(predictor, "cab", write={0: "e"})]
    assert (
        shown.run(f"state.write.set(0, 7); update(); return [{hidden}, {beside}, {ANSWER}]")
        == changed
    )
    by_key = (
        f"{KEY} state.write.clear(); update(); key('e', views[0].find('.answer "
        f".tiles').children[0]);"
    )
    assert shown.run(f"{by_key} return {ANSWER}") == changed[2]
    assert shown.run(f"{KEY} key('Backspace', document.body); return state.write.size") == 0


def test_a_weight_is_dragged(shown):
    drag = """
      const bar = views[0].panel.columns[1].weight, box = bar.getBoundingClientRect();
      const clientY = box.top + box.height / 4;
      bar.setPointerCapture = () => {};
      bar.hasPointerCapture = () => true;
      const move = (name, y) => {
        const at = {clientX: box.left + 2, clientY: y, bubbles: true};
        bar.dispatchEvent(new PointerEvent(name, at));
        return [...state.force];
      };
      return [move('pointerdown', clientY), move('pointermove', clientY + box.height / 4)];
    """
    assert shown.run(f"{TYPE} type_('cab'); {drag}") == [[["0,1", 0.75]], [["0,1", 0.5]]]


def test_a_position_is_banned_where_it_was_seen_and_loses_the_weight_that_was_set(shown):
    """Without a chosen cell a change is made at the largest weight, which stays chosen although it
    moves.
    """
    at, press = (
        "[views[0].position(), [...state.ban], [...state.force]]",
        "views[0].find('.cell').children[3].click();",
    )
    pressed = f"(() => {{ {press} return {at} }})()"
    (before, *_), once, twice = shown.run(
        f"{TYPE} type_('cab'); return [{at}, {pressed}, {pressed}]"
    )
    assert once == [before, [str(before)], []]
    assert twice == [before, [], []]
    change = "setWeight(0, 1, 0.6); setWeight(1, 1, 0.6); setWeight(0, 2, 0.1); ban('1');"
    assert shown.run(f"{change} return {at}.slice(1)") == [["1"], [["0,2", 0.1]]]
    banned = "setWeight(0, 1, 0.5); return [0, 1].map(t => views[0].map.banned(t, 1))"
    assert shown.run(banned) == [False, True]


def test_every_change_stands_in_the_bar_and_is_undone_there(shown):
    change = "Object.assign(state, {temperature: 5, padding: 2, mask: false});"
    change += "setWeight(0, 1, 1); ban('2'); hold('write', 1, 4);"
    chips = shown.run(
        f"{TYPE} type_('cab'); {change} return [...by('changes').children].map(one => "
        f"one.textContent)"
    )
    assert chips[:3] == ["temperature 5.00 ✕", "padding 2 ✕", "not masked ✕"]
    assert chips[3:5] == ["step 1, position 2: 1.00 ✕", "position 3: banned ✕"]
    assert chips[5].startswith("step 2 writes")
    masked = (
        "return [views[0].map.masked(3), (state.mask = null, update(), views[0].map.masked(3))]"
    )
    assert shown.run(masked) == [False, True]
    assert (
        shown.run(
            "while (by('changes').firstChild) by('changes').firstChild.click(); return isChanged()"
        )
        is False
    )


def test_keys_work_after_a_button_was_clicked(shown):
    press = (
        f"{KEY} const press = (button, name) => {{ button.click(); button.focus(); "
        f"key(name, button); }};"
    )
    for button, key, result, expected in (
        ("views[0].find('.next')", "ArrowDown", "state.step", 2),
        ("by('numbers')", "n", "state.numbers", False),
        ("views[0].panel.columns[1].symbol", "5", "[...state.force]", [["2,1", 0.5]]),
        ("by('numbers')", "Enter", "[...state.force]", [["2,1", 0.5]]),
    ):
        kept = "" if key == "Enter" else f"{TYPE} type_('cab');"
        assert shown.run(f"{press} {kept} press({button}, {key!r}); return {result}") == expected


@pytest.fixture(scope="module")
def fixed():
    """A model whose weights cannot be set."""
    return make_shown("mechanisms.yaml model.decoder=hard_monotonic")


@pytest.fixture(scope="module")
def graphs(fixed, predictor, exported):
    """What two models export, by model."""
    return {fixed.predictor.model: export_graphs(fixed.predictor.model), predictor.model: exported}


def test_weights_that_cannot_be_set_say_why(browser, tmp_path, fixed, graphs, monkeypatch):
    monkeypatch.setattr(page_module, "export_graphs", graphs.get)
    open_page(browser, tmp_path, render([fixed]))
    (place,) = places(fixed.predictor.model)["attention.weights"]
    known = place.point
    assert known.fixed
    controls = "[...document.querySelectorAll('.bar.weight, .cell button:first-of-type')]"
    titles = f"{controls}.map(one => [one.title, one.disabled || one.ariaDisabled])"
    said = browser.run(f"{TYPE} type_('cab'); return {titles}")
    assert said == [[known.fixed, True]] + [[known.fixed, "true"]] * 3
    reached = "[[...state.force], by('changes').children.length]"
    drag = "document.querySelector('.bar.weight').dispatchEvent(new PointerEvent('pointerdown'))"
    told = "by('toast').hidden ? '' : by('toast').textContent"
    keys = f"{KEY} key('Enter'); key('5'); {drag}; setWeight(0, 1, 1);"
    assert browser.run(f"{keys} return [...{reached}, {told}]") == [[], 0, known.fixed]
    browser.open(tmp_path / "page.html", "#text=cab&set=0,1,0.8&ban=0&temperature=2")
    assert browser.run(f"return {reached}") == [[], 2]
    weights = browser.run(f"return {WEIGHTS_OF_STEPS}")
    expected = predicted(fixed.predictor, "cab", ban=[0], temperature=2.0).weights
    assert_allclose(weights, expected, atol=WEIGHTS)
    assert "Move its attention" not in browser.run("return tourSteps().map(stop => stop.title)")
    assert browser.console() == []


def test_weights_are_set_in_the_one_of_two_models_that_has_no_fixed_ones(
    browser, tmp_path, fixed, predictor, graphs, monkeypatch
):
    monkeypatch.setattr(page_module, "export_graphs", graphs.get)
    other = replace(make_shown("scaled.yaml"), predictor=predictor)
    open_page(browser, tmp_path, render([fixed, other]))
    assert "Move its attention" in browser.run("return tourSteps().map(stop => stop.title)")
    first, second = browser.run(
        f"{TYPE} type_('cab'); setWeight(0, 1, 1);"
        "return views.map(view => [view.isForced(0, 1), "
        "Array.from(view.now.steps[0].weights.data)])"
    )
    for (is_forced, weights), model, force in (
        (first, fixed.predictor, {}),
        (second, predictor, {(0, 1): 1.0}),
    ):
        assert is_forced == bool(force)
        expected = predicted(model, "cab", force=force).weights[0]
        assert_allclose(weights, expected, atol=WEIGHTS)
    assert browser.console() == []


def test_temperature_padding_and_mask(shown, predictor):
    turn = f"""
      by('temperature').value = -0.3; by('temperature').dispatchEvent(new Event('input'));
      by('padding').value = 2; by('padding').dispatchEvent(new Event('change'));
      by('mask').click();
      return [state.temperature, {WEIGHTS_OF_STEPS}];
    """
    temperature, weights = shown.run(f"{TYPE} type_('cab'); {turn}")
    expected = predicted(predictor, "cab", temperature=temperature, padding=2, mask_padding=False)
    assert_allclose(weights, expected.weights, atol=WEIGHTS)


def test_a_link_restores_everything_and_a_damaged_one_is_harmless(shown):
    what = (
        "Object.entries(state).map(([name, value]) => [name, value instanceof Object ? "
        "[...value] : value])"
    )
    change = """
      Object.assign(state, {step: 1, position: 2, temperature: 0.5, padding: 1, mask: false,
        numbers: true,
        snapshots: [0, 0], force: new Map([["0,1", 0.25], ["1,2", 1]]), ban: new Set(["2", "0,0"]),
        write: new Map([[1, 4]])});
      update();
    """
    then = f"const before = {what}; restore(fragment()); return [before, {what}]"
    before, after = shown.run(f"{TYPE} type_('cab'); {change} {then}")
    assert before == after
    assert dict(after)["text"] == "cab"
    assert shown.run("restore('set=0,1,0.8;0,2,0.7'); return [...state.force]") == [
        ["0,1", 0.8],
        ["0,2", 0.2],
    ]
    for fragment in (
        "set=0,0,NaN;x;1,1,2&ban=<b>;1,2,3&write=0,999999;-1,3&temperature=-1&padding=1e9&snapshots=7,x&step=x",
        "%",
        "text=%F0%9F%98%80",
    ):
        left = (
            "[state.force.size, state.ban.size, state.write.size, state.temperature, "
            "state.padding, state.step]"
        )
        assert shown.run(f"restore({fragment!r}); update(); return {left}") == [0, 0, 0, 1, 0, 0]


def test_through_training_and_side_by_side(shown):
    assert shown.run("return views.map(view => view.find('h2').textContent)") == ["first", "second"]
    slide = (
        "const one = views[0].find('.snapshot input'); one.value = 0; "
        "one.dispatchEvent(new Event('input'));"
    )
    both = "views.map(view => Array.from(view.now.steps[0].logits.data))"
    before = shown.run(f"{TYPE} type_('cab'); return {both}")
    after = shown.run(f"{slide} return {both}")
    assert after[0] == after[1] == before[1] != before[0]
    tops = shown.run("return views.map(view => view.find('.answers').getBoundingClientRect().top)")
    assert tops[0] == tops[1]  # although only one has a slider


def test_the_saved_map_is_an_svg(shown):
    save = """
      let text = null;
      const make_ = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
      URL.createObjectURL = blob => { text = blob.text(); return 'data:,'; };
      HTMLAnchorElement.prototype.click = () => {};
      save();
      URL.createObjectURL = make_; HTMLAnchorElement.prototype.click = click;
      return text;
    """
    svg = shown.run(f"{TYPE} type_('cab'); {save}")
    assert svg.startswith("<svg xmlns=")
    assert re.findall(r"<text[^>]*>([^<])</text>", svg)[:3] == ["c", "a", "b"]


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_or_cut_off(shown, width):
    shown.resize(width, 844)
    shown.run(
        f"{TYPE} type_('abcdefghij'); state.force.set('0,0', 1); state.numbers = true; update();"
    )
    assert shown.run("return document.documentElement.scrollWidth") == width
    if width > 1000:
        widths = (
            "[...document.querySelectorAll('.maps .scroll')].map(one => [one.scrollWidth, "
            "one.clientWidth])"
        )
        assert all(inside <= room for inside, room in shown.run(f"return {widths}"))


# ---- what it refuses ----


def test_nothing_in_names_and_symbols_is_executed(
    browser, tmp_path, predictor, exported, monkeypatch
):
    monkeypatch.setattr(page_module, "export_graphs", lambda model: exported)
    task = TASKS.load("reverse")()
    task.source_vocabulary = task.target_vocabulary = Vocabulary(STRANGE, separator=" ")
    strange = replace(predictor, task=task)
    text = " ".join(STRANGE)
    open_page(browser, tmp_path, render([PageModel(NASTY, strange, {"score": NASTY}, [text])]))
    browser.run("state.force.set('0,0', 1); state.numbers = true; update(); save(); return 1")
    assert browser.run("return [document.title, document.querySelector('h1').textContent]") == [
        NASTY,
        NASTY,
    ]
    counted = (
        "[document.scripts.length, document.images.length, document.querySelectorAll('b b').length]"
    )
    assert browser.run(f"return {counted}") == [3, 0, 0]
    assert browser.run("return by('text').value") == text
    assert browser.run("return views[0].sources")[:7] == [
        "</script>",
        "<b>",
        "&amp;",
        '"',
        "\\",
        "␁",
        "202E",
    ]
    assert browser.console() == []


def test_no_script_but_the_pages_own_runs(browser, tmp_path, rendered):
    nasty = "</header><script>document.title = 'executed'</script>"
    open_page(browser, tmp_path, rendered.replace("</header>", nasty))
    assert browser.run("return document.title") == "first and second"
    assert any("Content Security Policy" in line for line in browser.console())


def test_an_operation_that_the_page_lacks_is_named(predictor, exported, monkeypatch):
    monkeypatch.setattr(page_module, "export_graphs", lambda model: exported)
    odd = PageModel("odd", predictor, {}, [])
    rule = page_module.export_answer(predictor.task)
    assert rule.graph.name in model_json(odd)["graphs"]
    rule.graph.node[0].op_type = "BitwiseXor"  # of the right answer: the page does without
    monkeypatch.setattr(page_module, "export_answer", lambda task: rule)
    assert rule.graph.name not in model_json(odd)["graphs"]
    monkeypatch.setattr(page_module, "operations", lambda: operations() - {"Softmax"})
    with refused("cannot run odd: it lacks the ONNX operation Softmax"):
        model_json(odd)


def test_the_command_writes_a_page(cli, browser, tmp_path, runs_copy):
    done = cli("page tiny --to tiny.html --text abc --snapshots 5").check()
    assert done.out == "tiny.html\n"
    browser.console()
    browser.open(tmp_path / "tiny.html")
    assert browser.run("return [document.title, by('text').value]") == ["tiny", "abc"]
    assert browser.console() == []


def test_what_a_pointer_copies_has_the_name_that_it_has_in_the_source(browser, tmp_path, cli):
    Path("few.tsv").write_text("ab\tb\nba\ta\nbb\tb\nac\ta\n")  # the targets have no c
    config = {
        "task": {"name": "pairs", "train": "few.tsv", "dev": "few.tsv"},
        "model": {"hidden": 6, "embedding": 4, "decoder": "pointer"},
        "training": {"epochs": 1, "batch_size": 4, "snapshots": 0},
    }
    run = seq2attn.train(config, name="few", device="cpu", progress=False)
    (shown,) = run_models([run])
    shown.predictor.model.decoder.generate.bias.data.fill_(-9.0)  # it copies at every step
    open_page(browser, tmp_path, render([shown]))
    said = []
    for text in ("azb", "zzyb", "cab", "yc"):
        answer = next(iter(shown.predictor.predict([text])))
        assert browser.run(f"{TYPE} type_('{text}'); return {ANSWER}")[: len(answer.output)] == [
            *answer.output
        ]
        said += answer.output
    assert {"z", "c"} & set(said)


def test_the_page_in_the_documentation_answers(browser):
    browser.console()
    docs = ROOT / "docs"
    browser.open(docs / "scaled.html")
    assert browser.run(f"{TYPE} type_('attention'); return {ANSWER}") == [*"noitnetta", "⏎"]
    words = "hello attention banana level mississippi".split()
    assert browser.run("return [...by('examples').children].map(one => one.textContent)") == words
    rows = r"^\| (?:none|step 1 attends.*|h banned|temperature 5|padding.*) \| (\w+) \|$"
    answers = re.findall(rows, (docs / "lesson.md").read_text("utf-8"), re.MULTILINE)
    changes = [
        "",
        "setWeight(0, 1, 1)",
        "ban('0')",
        "state.temperature = 5",
        "state.padding = 4; state.mask = false",
    ]
    for change, answer in zip(changes, answers, strict=True):
        assert (
            "".join(
                browser.run(f"undoAll(); type('hello'); {change}; update(); return {ANSWER}")[:-1]
            )
            == answer
        )
    browser.open(docs / "scaled.html", "#tour=3")
    assert (
        browser.run("return by('tour').querySelector('h2').textContent")
        == "3 of 10: How a score is made"
    )
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.console() == []


def counted(monkeypatch, module, name):
    """The calls of a function of a module, from now on."""
    calls = []
    function = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: calls.append(given) or function(*given))
    return calls


def test_a_run_that_kept_its_weights_is_shown_through_training(cli, tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(
        "model: {hidden: 8, embedding: 4}\ntask: {max_length: 3}\nevaluation: {samples: 2}\n"
        "training: {steps: 8, warmup: 0, batch_size: 2, validation_samples: 2, "
        "snapshots: 8, snapshot_weights: true}"
    )
    cli("train --config tiny.yaml --name kept").check()
    run = find_run(tmp_path / "runs", "kept")
    built = counted(monkeypatch, trained_model, "build_model")
    checked = counted(monkeypatch, load, "check_config")
    (all_of_them,) = run_models([run], "last", snapshots=100)
    assert list(all_of_them.snapshots)[:3] == ["after 0 steps", "after 1 step", "after 2 steps"]
    assert len(all_of_them.snapshots) == len(run.kept_steps()) > 8
    assert len(built) == 1
    assert len(checked) == 1  # one model, and its config is checked once
    (few,) = run_models([run], "last", snapshots=2)
    first, middle, last = few.snapshots
    assert first == "after 0 steps"
    assert last == "after 8 steps"
    assert middle in all_of_them.snapshots
    name, first = next(iter(few.predictor.model.named_parameters()))
    assert torch.equal(few.snapshots["after 8 steps"][name], first)
    assert not torch.equal(few.snapshots["after 0 steps"][name], first)
    kept = run.checkpoint("step-1")
    saved = load_checkpoint(kept)
    save_checkpoint(kept, {**saved.tensors, "model.other": torch.zeros(1)}, saved.state)
    with refused(r"step-1.*does not belong to this config"):
        run_models([run], "last", snapshots=100)


def test_mistakes_are_explained(cli, runs_copy):
    Path("b.yaml").write_text(
        "{task: {alphabet: xyz}, model: {hidden: 8}, training: {steps: 1, batch_size: "
        "2, warmup: 0}}"
    )
    Path("mine.html").write_text("<title>mine</title>")
    cli("train --config b.yaml --name other").check()
    for arguments, message in (
        ("tiny --to tiny.txt", "a page's file name ends with .html"),
        ("tiny --to mine.html/tiny.html", "mine.html/tiny.html: mine.html is not a folder"),
        ("tiny --to mine.html", "mine.html exists and is not a page"),
        ("tiny tiny tiny", "a page shows one run, or two side by side"),
        ("tiny --text ABC", "'ABC' has characters the model never saw"),
        ("tiny other", "tiny and other do not fit on one page: their vocabularies differ"),
    ):
        assert message in cli(f"page {arguments}").refusal
    assert Path("mine.html").read_text() == "<title>mine</title>"


def test_without_its_packages_a_command_says_how_to_get_them(cli, monkeypatch, runs_copy):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    for command in ("page", "export"):
        said = cli(command, "tiny").refusal
        assert "exporting a model needs the package onnxscript" in said
        assert 'pip install "seq2attn[export]"' in said
