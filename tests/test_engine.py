"""The page's engine, in node: operations, decoding and training compute what PyTorch computes."""

import json
import operator
import os
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from engine import run
from inline import ROOT
from models import CPU, make_task
from pages import (
    CONFIGS,
    MECHANISMS,
    assert_agreement,
    for_page,
    in_pytorch,
    make_shown,
    random_texts,
    requests_of,
)
from tables import rows

from seq2attn.build import build_model, build_task
from seq2attn.config import load_config
from seq2attn.data.batches import Examples, drop_words, make_batch
from seq2attn.data.vocabulary import EOS
from seq2attn.inference.changes import Changes
from seq2attn.pages.functions import Function
from seq2attn.pages.graphs import operations, program_json
from seq2attn.pages.page import answer_json, model_json, untrained_models
from seq2attn.pages.tracing import exporting, trace
from seq2attn.pages.training import drawing, graph_of
from seq2attn.plugins import load_plugin
from seq2attn.training.step import TrainingStep, learning_rate

KINDS = {torch.float64: "float", torch.float32: "float", torch.int64: "int", torch.bool: "bool"}

# ---- operations ----

aten = torch.ops.aten


def numbers(*shape, start=0):
    """Numbers of both signs, none 0 and no two equal."""
    count = int(np.prod(shape))
    return torch.sin(torch.arange(start + 1.0, start + count + 1).double()).view(shape) * 2


A, B = numbers(2, 3), numbers(2, 3, start=9)
CUBE = numbers(2, 3, 4)
POSITIVE = A.abs() + 0.25
ROW = numbers(3)
WHOLE = torch.tensor([[-7, 7, 5], [4, -6, 0]])
OTHER = torch.tensor([[2, 2, -3], [3, 5, 1]])
BITS, MASK = torch.tensor([True, True, False]), torch.tensor([[True], [False]])
PLACES = torch.tensor([[0, -1], [1, 1]])
TIES = torch.tensor([[3.0, 1.0, 3.0], [2.0, 2.0, 0.0]]).double()
ODD = torch.tensor([1.0, float("inf"), float("nan"), -float("inf")]).double()
LARGE = numbers(442)  # the products of these are computed in WebAssembly
WIDE, HIGH = LARGE[:221].view(13, 17), LARGE[221:408].view(17, 11)
UNARY = "abs atan ceil cos erf exp expm1 floor neg relu round sigmoid sign sin tan tanh trunc"
OF_POSITIVE = "log log1p log2 reciprocal rsqrt sqrt"
BINARY = "add sub mul div maximum minimum eq ge gt le lt ne tanh_backward sigmoid_backward"
OF_INTEGERS = "fmod remainder bitwise_and bitwise_or bitwise_xor"
CASES = [
    *((name, A) for name in UNARY.split()),
    *((name, POSITIVE) for name in OF_POSITIVE.split()),
    *((name, A, B) for name in BINARY.split()),
    *((name, WHOLE, OTHER) for name in OF_INTEGERS.split()),
    *((f"logical_{name}", BITS, MASK) for name in ("and", "or")),
    ("add", CUBE, numbers(3, 1), 0.5),
    ("add", CUBE.mT[:, ::2], numbers(2, 2, 3, start=3)),
    ("sub", A, ROW, 2),
    ("mul", CUBE.transpose(0, 2), 3.0),
    ("div", WHOLE, 2),
    ("erf", A * 2),
    ("addcmul", A, B, ROW, 0.5),
    ("lerp", A, B, 0.25),
    ("lerp", A, B, POSITIVE),
    ("bitwise_not", WHOLE),
    ("bitwise_not", BITS),
    ("logical_not", WHOLE),
    ("isnan", ODD),
    ("clamp", A, -0.5, 1.0),
    ("clamp", A, None, B),
    ("softplus", A * 20, 2.0, 5.0),
    ("round", torch.tensor([0.5, 1.5, -0.5, -1.5, 2.4]).double()),
    ("masked_fill", WHOLE, MASK, 9),
    ("where", MASK, A, ROW),
    ("pow", A, 2),
    ("pow", POSITIVE, 0.5),
    ("pow", POSITIVE, B),
    ("pow", 2.0, A),
    # views
    ("reshape", CUBE.mT, [2, 12]),
    ("chunk", A, 2, 1),
    ("expand", MASK, [2, 2, -1]),
    ("expand_as", ROW, A),
    ("flatten", CUBE, 1),
    ("flip", CUBE, [0, -1]),
    ("mT", CUBE),
    ("permute", CUBE, [2, 0, -2]),
    ("select", CUBE, 1, -1),
    ("select_scatter", CUBE, numbers(2, 4, start=5), 1, 2),
    ("slice", CUBE, 1, 1),
    ("slice", CUBE, 2, -3, 9, 2),
    ("slice_scatter", CUBE, numbers(2, 2, 4, start=5), 1, 0, 2),
    ("split", CUBE, 3, 2),
    ("split_with_sizes", CUBE, [1, 3], 2),
    ("squeeze", CUBE[:1, :, :1]),
    ("squeeze", CUBE[:1, :, :1], 0),
    ("t", A),
    ("transpose", CUBE, 0, -1),
    ("unbind", CUBE, 1),
    ("unsqueeze", A, -2),
    ("view_as", A, A.mT),
    ("cat", [A, B.mT.mT[:, :1]], 1),
    ("stack", [A, B], 1),
    ("constant_pad_nd", A, [1, 0, -1, 2], 9.0),
    ("pad", A, [2, -1], "constant", 3.0),
    # along a dimension
    *((name, CUBE, [1]) for name in ("sum", "mean", "amax", "amin")),
    ("sum", WHOLE > 0),
    ("sum", CUBE.mT, [0, -1], True),
    ("mean", CUBE),
    ("prod", CUBE, 1),
    ("any", WHOLE > 4, 1, True),
    ("all", WHOLE > -7),
    ("max", CUBE),
    ("min", A, B),
    ("max_dim", TIES, 1),
    ("min_dim", A, 0, True),
    ("argmax", CUBE),
    ("argmax", TIES, 1),
    ("argmin", A, 0, True),
    ("linalg_vector_norm", CUBE, 2, [1]),
    ("softmax", CUBE * 800, 1),
    ("softmax", CUBE.mT, -1),
    ("cumsum", CUBE.mT, 1),
    ("cumprod", A, 0),
    ("logcumsumexp", torch.cat([A - 800, A], dim=1), 1),
    ("sort", TIES, 1, True),
    ("argsort", CUBE, 1),
    ("topk", A, 2),
    ("topk", CUBE, 2, 1, False),
    ("var", CUBE, [1]),
    ("var", A),
    # by places
    ("embedding", A, PLACES % 2),
    ("embedding_dense_backward", numbers(2, 2, 3), PLACES % 2, 4, 0, False),
    ("gather", A, 1, PLACES % 3),
    ("index", CUBE, [None, PLACES]),
    ("index", CUBE, [PLACES % 2, None, PLACES]),
    ("scatter", A, 1, PLACES % 3, 7.0),
    ("scatter", A, 1, PLACES % 3, B[:, :2]),
    ("scatter_add", A, 0, PLACES % 2, B[:, :2]),
    ("searchsorted", A.sort().values, B),
    ("searchsorted", TIES.sort().values, TIES, False, True),
    # products
    ("mm", A, B.mT),
    ("mm", WIDE, HIGH),
    ("mm", WIDE.mT, HIGH.mT.contiguous().mT[:13].contiguous()),
    ("mm", HIGH.mT, WIDE.mT),
    ("mm", HIGH.mT[:, ::2], WIDE.mT[::2]),
    ("addmm", ROW[:2], A, B.mT, 0.5, 2.0),
    ("bmm", CUBE, CUBE.mT),
    ("matmul", CUBE, numbers(4)),
    ("matmul", numbers(3), CUBE),
    ("matmul", numbers(3), ROW),
    ("matmul", CUBE, numbers(5, 1, 4, 2)),
    ("linear", CUBE, numbers(5, 4), numbers(5)),
    ("conv1d", CUBE, numbers(5, 3, 2), numbers(5), [2], [1], [2]),
    ("conv1d", CUBE[:, :2], numbers(4, 1, 3), None, [1], [1], [1], 2),
    ("layer_norm", CUBE, [4], numbers(4), numbers(4, start=7)),
    ("native_layer_norm", CUBE, [3, 4], None, None, 1e-5),
]
OF_PYTHON = """
add | 2 | 3 | 5
sub | 2 | 3 | -1
mul | 2 | 3 | 6
floordiv | -7 | 2 | -4
mod | -7 | 3 | 2
pow | 2 | 3 | 8
neg | 4 | -4
truediv | 1 | 2 | 0.5
"""
OWN = [  # what the page calls by another name, or with other arguments, than torch; the result
    ("cast", A, "int", A.long()),
    ("cast", WHOLE, "bool", WHOLE.bool()),
    ("cast", BITS, "float", BITS.double()),
    ("copy", A, ROW, ROW.expand(2, 3)),
    ("copy", WHOLE, 2, torch.full((2, 3), 2)),
    ("full", [2, 3], 7, "int", torch.full((2, 3), 7)),
    ("full_like", A, 1, "bool", torch.ones(2, 3).bool()),
    ("arange", 2, 11, 3, "int", torch.arange(2, 11, 3)),
    ("div", WHOLE, OTHER, "trunc", aten.div(WHOLE, OTHER, rounding_mode="trunc")),
    *((f"python_{name}", *map(json.loads, numbers)) for name, *numbers in rows(OF_PYTHON)),
    ("python_getitem", [A, ROW], 1, ROW),
    ("sym_size", CUBE, -1, 4),
]


def plain(tensor):
    numbers = tensor.flatten().double().tolist()
    return [
        KINDS[tensor.dtype],
        list(tensor.shape),
        [str(one).replace("inf", "Infinity") for one in numbers],
    ]


def case(operation, arguments):
    """A graph of one node, and its inputs."""
    inputs = {}

    def written(value):
        if isinstance(value, torch.Tensor):
            inputs[f"x{len(inputs)}"] = plain(value)
            return f"%x{len(inputs) - 1}"
        if isinstance(value, list):
            return [written(one) for one in value]
        return {"number": "Infinity"} if isinstance(value, float) and np.isinf(value) else value

    node = ["y", operation, *map(written, arguments)]
    graph = {"weights": [], "constants": {}, "nodes": [node], "outputs": {"y": "%y"}}
    return {"graph": {**graph, "inputs": {key: [] for key in inputs}}, "inputs": inputs}


KEYWORDS = dict(
    rows("""
add | 2 alpha
sub | 2 alpha
addcmul | 3 value
addmm | 3 beta alpha
searchsorted | 2 out_int32 right
""")
)  # how many arguments have no name, and those that torch takes by name only


def of_torch(operation, arguments):
    name = operation.removesuffix("_dim")
    count, *names = KEYWORDS.get(name, str(len(arguments))).split()
    plain, named = arguments[: int(count)], arguments[int(count) :]
    found = getattr(aten, name)(*plain, **dict(zip(names, named, strict=False)))
    return list(found) if isinstance(found, list | tuple) else [found]


def assert_same(found, expected, said):
    assert len(found) == len(expected), said
    for one, tensor in zip(found, expected, strict=True):
        assert one["shape"] == list(tensor.shape), said
        assert one["type"] == KINDS[tensor.dtype], said
        values = torch.tensor(list(map(float, one["data"])), dtype=torch.float64)
        wanted = tensor.flatten().to(values)
        assert torch.allclose(values, wanted, 1e-6, 1e-7, equal_nan=True), said


@pytest.fixture(scope="module")
def told(drawn, traced_once):
    """What node says to every case of this file, at once: name -> its answer."""
    calls = {
        "operations": (ONE_BY_ONE, [case(name, given) for name, *given in CASES]),
        "own": (ONE_BY_ONE, [case(name, given) for name, *given, _ in OWN]),
        "table": ("return Object.keys(OPERATIONS)", None),
        "apart": (ONE_BY_ONE, [taken_apart()]),
        "writes": (ONE_BY_ONE, [writing()]),
        "answers": (RULES, rules()),
        **{name: decoding(name) for name in GOLDEN},
        "drawn": (DRAWN, {name: drawing(*one)[1] for name, one in drawn.items()}),
        "exam": ("return examine(new Model(given_.spec), given_.strings, null);", exam()[0]),
        "exam strings": (DRAWN_STRINGS, None),
        "training": (STEPS, {"spec": trained(), "steps": 20, "rate": 8e-3, "mask": None}),
    }
    return dict(zip(calls, run(list(calls.values())), strict=True))


ONE_BY_ONE = """
const results = [];
for (const {graph, inputs} of given_) {
  const made_ = new Graph(graph, new Map()).run(mapValues(inputs, given));
  const show = one => (typeof one === "number" ? one : whole(one));
  results.push(Object.values(made_).map(one => [one].flat().map(show)));
}
return results;
"""


def test_every_operation_is_that_of_pytorch(told):
    for (name, *given), [found] in zip(CASES, told["operations"], strict=True):
        assert_same(found, of_torch(name, given), (name, given))
    for (name, *_, expected), [[found]] in zip(OWN, told["own"], strict=True):
        if isinstance(expected, torch.Tensor):
            assert_same([found], [expected], name)
        else:
            assert found == expected, name
    tried = {name for name, *_ in [*CASES, *OWN]}
    assert tried == operations() == set(told["table"])


# ---- operations that the page lacks, by torch's formulas ----


def products_of_views(x):
    y = x.repeat(8, 8)
    wide, high = y[:, :20], y[:20, 1:]  # with the strides of y, and large enough for WebAssembly
    return wide @ high + y[:20].T @ high + (high.T @ y[:20]).T


APART = {
    "activations": lambda x: F.gelu(x) + F.elu(x) * F.softplus(x) - F.leaky_relu(x) / F.silu(x),
    "limits": lambda x: F.hardtanh(x) + F.logsigmoid(x) + F.hardsigmoid(x) + (1 - x).square(),
    "attention": lambda x: (
        F.scaled_dot_product_attention(x, x, x, is_causal=True)
        + F.scaled_dot_product_attention(x, x, x, x > 0)
    ),
    "norms": lambda x: x.norm(1, 1) + x.norm(float("inf"), 0) + x.norm(dim=1),
    "shapes": lambda x: x.view(2, 8).unflatten(1, (2, -1)).reshape(4, 4).clamp(max=0.5),
    "softmax": lambda x: x.log_softmax(1) + x.logsumexp(1, keepdim=True) - (300 * x).log_softmax(1),
    "triangles": lambda x: x.tril() - x.triu(1) + torch.einsum("ij,kj->ik", x, x).std(),
    "places": lambda x: x.index_select(1, torch.tensor([1, 0])).repeat(1, 2),
    "views": products_of_views,
    "floor": lambda x: x // 0.3 + torch.addcdiv(x, x, x + 9) + torch.isinf(x / 0).double(),
}


def taken_apart():
    def all_of_them(given):
        return {name: function(given["x"]) for name, function in APART.items()}

    x = numbers(4, 4)
    with exporting("torch cannot take this apart"):
        function = Function("apart", all_of_them, {"x": x})
        graph = program_json(trace(torch.nn.Module(), function, function))
    return {"graph": graph, "inputs": {"x": plain(x)}}


def test_what_the_page_lacks_is_taken_apart_by_torch(told):
    for (name, function), found in zip(APART.items(), *told["apart"], strict=True):
        assert_same(found, [function(numbers(4, 4))], name)


# ---- what writes into a tensor ----


def written(given):
    """Results of writing into parts, views and copies."""
    x = given["x"]
    part = x.clone()
    part[:, 1] += 5
    part[0].mul_(2)
    turned = (x * 2).t()
    turned.fill_(3).add_(x.t())
    masked = torch.zeros_like(x).masked_fill_(x > 0, float("-inf"))
    doubled = x * 1
    shown = doubled.t()
    doubled.mul_(2)
    row, mask = (torch.zeros(2, 3).copy_(one) for one in (x[0], x > 0))
    filled = x.clone()
    filled[0] = 7
    filled[1].fill_(torch.tensor(3.0).double())
    return {
        "a part is added to": part + x,
        "a transposed copy": turned.t() - x,
        "a mask": masked.add_(x).exp(),
        "what was shown before": shown + x.t().reshape(3, 2),
        "a copied row and mask": torch.cat([mask, row]),
        "a number in a tensor": filled,
    }


def writing():
    return {"graph": graph_of(written, {"x": A}), "inputs": {"x": plain(A)}}


def test_what_writes_becomes_what_makes_another(told):
    for (name, expected), found in zip(written({"x": A}).items(), *told["writes"], strict=True):
        assert_same(found, [expected], name)
    names = [node[1] for node in writing()["graph"]["nodes"]]
    assert not any(name.endswith("_") and not name.startswith("_") for name in names)


# ---- decoding ----

GOLDEN = ["one of each", "pointer", "none"]
DECODE = "return decodeAll(given_.model, given_.requests)"


def decoding(name, **counts):
    shown = make_shown(name)
    predictor = shown.predictor
    model = predictor.model.train()
    described = model_json(shown)
    assert all(part.training for part in model.modules())
    asked = [for_page(predictor, *one) for one in requests_of(name, predictor, **counts)]
    return DECODE, {"model": described, "requests": asked}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_model_of_each_kind_decodes_as_in_pytorch(told, name):
    assert_agreement(name, make_shown(name).predictor, told[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_decodes_as_in_pytorch(name):
    counts = {"texts": int(os.environ.get("SEQ2ATTN_STRINGS", "1000")), "longest": 40}
    (found,) = run([decoding(name, **counts)])
    assert_agreement(name, make_shown(name).predictor, found, **counts)


# ---- the exam ----


def exam():
    """Strings whose right answers are what an untrained model writes, every other one with a letter
    changed; and the shares of right letters and strings.
    """
    shown = make_shown("none")
    predictor = shown.predictor
    strings = []
    of_given = of_own = whole = letters = 0
    for k, text in enumerate(random_texts(predictor, 6, longest=6)):
        own = in_pytorch(predictor, text)["tokens"]
        target = own[:-1] if own[-1] == EOS else own[:4]
        if k % 2:
            target[1] = 4 if target[1] != 4 else 5
        strings.append({"source": predictor.task.source_vocabulary.encode(text), "target": target})
        forced = in_pytorch(predictor, text, Changes(write=dict(enumerate(target))))["logits"]
        given = [EOS + logits[EOS:].argmax() for logits in forced]
        of_given += sum(map(operator.eq, given, target))
        of_own += sum(map(operator.eq, own, target))
        whole += own == [*target, EOS]
        letters += len(target)
    shares = of_given / letters, of_own / letters, whole / 6
    return {"spec": model_json(shown), "strings": strings}, shares


def test_the_exam_counts_letters_and_strings(told):
    _, shares = exam()
    found = told["exam"]
    assert (found["given"], found["own"], found["whole"]) == pytest.approx(shares)
    assert 0 < found["own"] < 1


DRAWN_STRINGS = """
const table = rows => tensor("int", [rows.length, 3], Float64Array.from(rows.flat()));
const counts = rows => Float64Array.from(rows, row => row.filter(Boolean).length);
const batch = rows => ({
  source: table(rows),
  target: table(rows.map(row => row.map(id => id && id + 1))),
  source_lengths: tensor("int", [2], counts(rows)),
  target_lengths: tensor("int", [2], counts(rows)),
});
const drawn = [batch([[4, 0, 0], [5, 6, 7]]), batch([[8, 9, 0], [4, 0, 0]])];
let n = 0;
return examStrings({draw: {spec: {inputs: {}}, run: () => drawn[n++ % 2]}}, () => 0);
"""


def test_strings_of_the_exam_are_the_longest_and_without_padding(told):
    found = told["exam strings"]
    assert len(found) == 16
    assert found[0] == {"source": [5, 6, 7], "target": [6, 7, 8]}
    assert found[-1] == {"source": [4], "target": [5]}
    assert {"source": [8, 9], "target": [9, 10]} in found


# ---- the rules of tasks ----

RULED = {"sort": ["banana", "a", "hello"], "recopy": ["5552226", "7", "24031"]}
RULES = """
return given_.map(({graph, ids}) => {
  const model = {graphs: {answer: new Graph(graph, new Map())}};
  return ids.map(one => rightAnswer(model, one));
});
"""


def rules():
    asked = []
    for name, texts in RULED.items():
        task = make_task(name)
        ids = [task.source_vocabulary.encode(text) for text in texts]
        asked.append({"graph": answer_json(task), "ids": ids})
    return asked


def test_the_right_answer_is_the_tasks_own(told):
    for (name, texts), found in zip(RULED.items(), told["answers"], strict=True):
        task = make_task(name)
        answers = [task.target_vocabulary.decode(ids) for ids in found]
        assert answers == [task.answer(text).text for text in texts]


# ---- training ----

FEW = "model.hidden=8 task.alphabet=abcd training.batch_size=4".split()
SMALL = [*FEW, "model.embedding=4", "task.max_length=3", "training.warmup=2"]
TINY = [*FEW, "task.min_length=1", "task.max_length=2", "training.warmup=2"]
RESETS = """
training.word_dropout=0.3 training.encoder_reset=0.3 training.reset_first=false
training.decoder_reset=0.3
"""
TRAINED = {
    **MECHANISMS,
    "dropout, resets": f"mechanisms.yaml model.cell=lstm model.dropout=0.5 model.layers=2 {RESETS}",
    "a plug-in's score": "scaled.yaml model.attention.score=metric",
    "a loss of states": "scaled.yaml training.losses=[cross_entropy,calm]",
}
CALM = """
from seq2attn import Loss
@register("calm", formula="mean of |s|^2")
class Calm(Loss):
    def forward(self, decoded, batch, states):  # (B, L, D)
        real = batch.decoder_output != 0
        return states.square().sum(2).where(real, 0).sum() / real.sum()
"""
STEPS = """
const {spec, steps, rate, mask} = given_;
const race = new Race([spec], 5), rows = [];
const [learner] = race.learners, first = learner.weights();
const whole = x => [x.shape, Array.from(numbersOf(x))];
const {train: graph} = learner.graphs, {run} = graph;
let random = [];
graph.run = given => {
  random = Object.entries(given).filter(([name]) => name.startsWith("random."));
  return run.call(graph, given);
};
for (let step = 0; step < steps; step++) {
  const {examples, each: [{loss}]} = race.advance(rate, mask);
  rows.push([loss, Object.values(examples).map(whole), random.map(([, one]) => whole(one))]);
}
const moments = name => Array.from(numbersOf(learner.values[`exp_avg.${name}`]));
const averages = spec.weights.flatMap(([name]) => moments(name));
const drawn = [1, 2].map(seed => new Race([spec], seed).learners[0].weights());
const plain = drawn.map(one => Array.from(one));
return [Array.from(first), rows, Array.from(learner.weights()), averages, plain];
"""


def trained(words="scaled.yaml", overrides=SMALL):
    name, *more = words.split()
    (shown,) = untrained_models({"model": load_config(CONFIGS / name, [*more, *overrides])})
    return model_json(shown)


def box_muller(radius, angle):
    return (-2 * (1 - radius).log()).sqrt() * (2 * torch.pi * angle).cos()


def plain_attention(query, keys, values, mask=None, rate=0.0, _=False):
    """What PyTorch's own does, whose numbers for dropout cannot be given."""
    scores = query @ keys.mT / query.size(-1) ** 0.5
    scores = scores if mask is None else scores + mask
    return F.dropout(scores.softmax(-1), rate) @ values


def replay(config, first, rows, rate):
    """The losses of these batches, the last weights and first moments, by the project's own
    training step.
    """
    model = build_model(config)
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.tensor(first[at : at + parameter.numel()]).view_as(parameter))
            at += parameter.numel()
    step = TrainingStep(model, config, CPU)
    losses = []
    step.faster_form = None
    for number, (_, given, random) in enumerate(rows):
        examples = Examples(*(torch.tensor(one).long().view(shape) for shape, one in given))
        batch = make_batch(examples, source_eos=config.model.source_eos)
        drawn = (torch.tensor(one).view(shape) for shape, one in random)
        normal = lambda *_, drawn=drawn: box_muller(*next(drawn))  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", lambda *_, drawn=drawn, **__: next(drawn))
            patch.setattr(torch, "randn_like", normal)
            patch.setattr(
                F,
                "dropout",
                lambda x, p, *_, drawn=drawn: x * (next(drawn) < 1 - p) / (1 - p) if p else x,
            )
            patch.setattr(F, "scaled_dot_product_attention", plain_attention)
            batch = drop_words(batch, config.training.word_dropout, torch.Generator())
            total = step.losses(step.forward(batch, number), batch)["loss"]
        assert next(drawn, None) is None
        step.gradients(total)
        share = learning_rate(config.training, number, 10**6) / config.training.learning_rate
        step.update(rate * share)
        losses.append(float(total.detach()))
    averages = [step.state[f"exp_avg.{name}"] for name, _ in model.named_parameters()]
    ends = (model.parameters(), averages)
    return losses, *(torch.cat([one.detach().flatten() for one in some]).numpy() for some in ends)


def agree(answer, config, rate=8e-3):
    """The largest differences of losses, weights and first moments from PyTorch's."""
    first, rows, *last, _ = answer
    losses, *expected = replay(config, first, rows, rate)
    pairs = zip(([row[0] for row in rows], *last), (losses, *expected), strict=True)
    return [np.abs(np.array(one) - np.array(other)).max() for one, other in pairs]


def test_training_steps_are_those_of_pytorch(told):
    """With memory that is used again from the first step on."""
    loss, weights, _ = agree(told["training"], load_config(CONFIGS / "scaled.yaml", SMALL))
    assert loss < 1e-3
    assert weights < 1e-2  # embeddings of symbols that no batch had, too
    *_, (one, other) = told["training"]
    assert all(a != b for a, b in zip(one, other, strict=True) if a)  # seeds draw other weights
    embedding = one[: 7 * 4]  # of the encoder: N(0, 1)
    assert abs(np.mean(embedding)) < 4 / len(embedding) ** 0.5  # four standard errors
    assert 0.5 < np.std(embedding) < 1.5


GUIDE = re.findall(r"```python\n(.*?)```", (ROOT / "docs/plugins.md").read_text("utf-8"), re.DOTALL)
DRAWN = """
const draw = spec => {
  const graph = new Graph(spec, new Map());
  const random = uniforms(1);
  return [1, 2, 3].map(() => mapValues(graph.run(randomInputs(spec, random)), whole));
};
return mapValues(given_, draw);
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Configs and their tasks. What draws the first is a graph; the others have examples."""
    file = tmp_path_factory.mktemp("drawn") / "pairs.tsv"
    file.write_text("ab\tx\nba\ty\nabba\tx y x\n")
    few = "training.batch_size=4"
    files = [f"task.train={file}", f"task.dev={file}"]
    configs = {
        "reverse": load_config(CONFIGS / "scaled.yaml", SMALL),
        "dates": load_config(CONFIGS / "dates.yaml", [few]),
        "pairs": load_config(CONFIGS / "pairs/small.yaml", [few, *files]),
    }
    return {name: (config, build_task(config)) for name, config in configs.items()}


def test_examples_are_those_of_the_task(told, drawn):
    """Each example that is drawn is right, and others are drawn next."""
    known = {"ab": "x", "ba": "y", "abba": "x y x"}
    for name, batches in told["drawn"].items():
        _, task = drawn[name]
        right = known.get if name == "pairs" else lambda text, task=task: task.answer(text).text
        for batch in batches:
            columns = []
            for one in batch.values():
                numbers = np.array(list(map(int, one["data"])))
                columns.append(numbers.reshape(one["shape"]).tolist())
            for source, length, target, count in zip(*columns, strict=True):
                read = task.source_vocabulary.decode(source[:length])
                assert task.target_vocabulary.decode(target[:count]) == right(read), name
        assert batches[0] != batches[1] != batches[2]


@pytest.mark.slow
@pytest.mark.parametrize("words", TRAINED.values(), ids=TRAINED)
def test_steps_of_every_mechanism_are_those_of_pytorch(tmp_path, own_scores, words):
    (tmp_path / "parts.py").write_text(GUIDE[0] + CALM)
    load_plugin(tmp_path / "parts.py")
    name, *more = words.split()
    asked = {"spec": trained(words, TINY), "steps": 2, "rate": 8e-3, "mask": None}
    (answer,) = run([(STEPS, asked)])
    loss, _, averages = agree(answer, load_config(CONFIGS / name, [*more, *TINY]))
    assert loss < 1e-5
    assert averages < 1e-5
