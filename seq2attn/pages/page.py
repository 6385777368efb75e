"""One HTML page that runs models: their graphs as JSON, their weights, and a small interpreter."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import FEATURES
from seq2attn.display.console import Display
from seq2attn.display.signs import SIGNS, weight_colour
from seq2attn.errors import Seq2AttnError
from seq2attn.pages import asset, filled
from seq2attn.pages.graphs import Graph, program_json
from seq2attn.pages.manifest import manifest
from seq2attn.pages.models import PageModel
from seq2attn.pages.tracing import exporting, trace_answer, trace_model
from seq2attn.pages.training import training_graphs, training_settings

ENGINE = """
multiply tensors elements axes places products operations graph session text formula explanation
exam learner worker
""".split()
"""what runs models, trains and explains them: in the page, and in its worker"""
VIEW = "dom symbols pen map vector terms bars parts step answer maps view charts".split()
CONTROLS = """
state changes play seen samples stops pairs learning tour link train page
""".split()
ELSEWHERE = "`seq2attn export` writes the model's graphs for any ONNX runtime."


def render(models: Sequence[PageModel], display: Display | None = None) -> str:
    """Return the page, as HTML, for one model or two, with styles, scripts, graphs and weights
    inline.

    display: shows which model is being exported; None: nothing is shown.
    """
    data = {
        "models": _models_json(models, display or Display()),
        # of the weights 0, 1/255, ..., 1
        "colours": [f"#{bytes(weight_colour(level / 255)).hex()}" for level in range(256)],
        # what is shown in place of `<eos>`, of a space and so on
        "signs": {symbol: sign.sign for symbol, sign in SIGNS.items()},
    }
    title = " and ".join(model.name for model in models)
    if len(models) == 1:
        title = models[0].title or title
    return assemble(html.escape(title), _embed(data), trains=any(model.config for model in models))


def assemble(title: str, data: str, *, trains: bool) -> str:
    """Return the page, as HTML, for data, JSON text that is safe in a script.

    Its security policy allows its two scripts and two styles, which are known by their hashes, and
    nothing else; the checksum of its data lets the page notice that it is damaged.

    title: text that is safe in HTML. trains: whether it may start a worker, in which it trains.
    """
    style = asset("view/page.css")
    waiting = asset("view/waiting.css")
    engine = script("engine", ENGINE)  # alone, since the worker runs it, too
    shown = script("view", VIEW) + script("controls", CONTROLS)
    # WebAssembly: the products of matrices in the engine are compiled C
    allowed = f"'{_hash(engine)}' '{_hash(shown)}' 'wasm-unsafe-eval'"
    if trains:
        allowed += "; worker-src blob:"  # ends the list of scripts, and begins that of workers
    return filled("view/page.html", {
        "title": title,
        "style": style,
        "waiting": waiting,
        "styles": f"'{_hash(waiting)}' '{_hash(style)}'",
        "engine": engine,
        "script": shown,
        "scripts": allowed,
        "data": data,
        "checksum": f"{zlib.adler32(data.encode()):08x}",
    })  # fmt: skip


def script(folder: str, names: Sequence[str]) -> str:
    """Return the files of a folder as one script."""
    return "\n".join(['"use strict";', *(asset(f"{folder}/{name}.js") for name in names)])


def _models_json(models: Sequence[PageModel], display: Display) -> list[dict[str, Any]]:
    display.begin("", len(models))
    described = []
    for number, model in enumerate(models):
        display.step("", number, f"exporting {model.name} ({number + 1} of {len(models)})")
        described.append(model_json(model))
    display.end("")
    return described


def model_json(page_model: PageModel) -> dict[str, Any]:
    """Return manifest, graphs and weights of one model as JSON values, which `Model` in JavaScript
    takes.

    Raises `Seq2AttnError` for an operation that the page's interpreter lacks, for a model that is
    to be trained in the page and cannot be (`training_graphs`), and as `trace_model` does.
    """
    predictor = page_model.predictor
    task = predictor.task
    traced = trace_model(predictor.model)
    with exporting(f"the page cannot run {page_model.name}", ELSEWHERE):
        graphs = {one.function.name: program_json(one) for one in traced}
    # before the graph of the task's rule is added: the manifest names only those of the model
    described = manifest(predictor, list(graphs))

    training: dict[str, Any] | None = None
    if page_model.config:  # only a model that is trained in the page has one
        training = training_settings(page_model.config)
        training["graphs"] = training_graphs(page_model.config, task)
    rule = answer_json(task)
    if rule:
        graphs["answer"] = rule

    state = predictor.model.state_dict()
    used = {weight for graph in graphs.values() for weight in graph["weights"]}
    weights = [name for name in state if name in used]
    return {
        **described,
        "name": page_model.name,
        "about": page_model.about,
        "examples": page_model.examples,
        "parts": page_model.parts,
        "trained": [task.min_length, task.max_length],  # lengths of strings in training
        # with the task's rule, the page computes right answers itself
        "answers": {} if rule else _answers(task, page_model.examples),
        "graphs": graphs,
        "training": training,
        "weights": [[name, list(state[name].shape)] for name in weights],
        # a model without snapshots has a single one, which needs no label
        "snapshots": [
            {"label": label, "weights": _numbers(tensors, weights)}
            for label, tensors in (page_model.snapshots or {"": state}).items()
        ],
    }


def _answers(task: Task, texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the right answers, as ids, by source without its features, to those texts to which the
    task knows one.
    """
    answers = {}
    for text in texts:
        source, _, _features = text.partition(FEATURES)
        answer = task.answer(source)
        if answer:
            answers[source] = task.target_vocabulary.encode(answer.text)
    return answers


def answer_json(task: Task) -> Graph | None:
    """Return the rule of a task, source -> target, as a graph; None for a task that has none, and
    for a rule that the page cannot run.
    """
    traced = trace_answer(task)
    # an operation that the page lacks is not a failure: the page then does without the rule
    with contextlib.suppress(Seq2AttnError), exporting("the page cannot run this rule"):
        return program_json(traced) if traced else None
    return None


def _numbers(tensors: Mapping[str, Tensor], names: Sequence[str]) -> str:
    """Return weights after each other as little-endian float32, in base64."""
    numbers = torch.cat([tensors[name].detach().flatten().float() for name in names])
    return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode()


def _embed(data: Any) -> str:
    """Return JSON that is safe inside a script tag: ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _hash(text: str) -> str:
    """Return the name of a script or style in the page's security policy: nothing else runs."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
