"""One HTML page that runs models: their graphs as JSON, their weights, and a small interpreter."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import parameters_to_vector

from seq2attn.colours import CIVIDIS
from seq2attn.display.progress import Display
from seq2attn.display.signs import SIGNS
from seq2attn.errors import Seq2AttnError
from seq2attn.pages import asset, filled
from seq2attn.pages.graphs import export_answer, export_graphs, export_training, manifest
from seq2attn.pages.models import PageModel
from seq2attn.pages.training import training_settings

if TYPE_CHECKING:
    import onnx

ENGINE = ("multiply.js", "tensors.js", "operations.js", "model.js", "worker.js")
"""what runs models and trains them: in the page, and in its worker"""
SCRIPTS = (
    "drawing.js",
    "text.js",
    "explain.js",
    "step.js",
    "view.js",
    "changes.js",
    "play.js",
    "stops.js",
    "tour.js",
    "terms.js",
    "link.js",
    "train.js",
    "page.js",
)


def render(models: Sequence[PageModel], display: Display | None = None) -> str:
    """Return the page for one model or two, with styles, scripts, graphs and weights inline.

    display: shows which graphs are being exported.
    """
    data = {
        "models": _models_json(models, display or Display()),
        "colours": CIVIDIS,
        "signs": {symbol: sign.sign for symbol, sign in SIGNS.items()},
    }
    title = html.escape(" and ".join(model.name for model in models))
    return assemble(title, _embed(data), trains=any(model.config for model in models))


def assemble(title: str, data: str, *, trains: bool) -> str:
    """Return the page for data, JSON text that is safe in a script."""
    style = asset("page.css")
    engine = "\n".join(map(asset, ENGINE))
    script = "\n".join(map(asset, SCRIPTS))
    allowed = f"'{_hash(engine)}' '{_hash(script)}' 'wasm-unsafe-eval'"
    if trains:
        allowed += "; worker-src blob:"
    return filled("page.html", {
        "title": title,
        "style": style,
        "style_hash": _hash(style),
        "engine": engine,
        "script": script,
        "scripts": allowed,
        "data": data,
    })  # fmt: skip


def _models_json(models: Sequence[PageModel], display: Display) -> list[dict[str, Any]]:
    phases = sum(3 if model.config else 2 for model in models)
    display.begin("", phases)
    counted = itertools.count()

    def tell(text: str) -> None:
        phase = next(counted)
        display.step("", phase, f"exporting {text} ({phase + 1} of {phases})")

    described = [model_json(model, tell) for model in models]
    display.end("")
    return described


def model_json(
    page_model: PageModel, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Return manifest, graphs and weights of one model as JSON values.

    tell: called with what is exported next.

    Raises `Seq2AttnError` for an operation that the page's interpreter lacks, and as
    `export_graphs` does.
    """
    model = page_model.predictor.model
    task = page_model.predictor.task
    tell(f"the model of {page_model.name}")
    graphs = export_graphs(model)
    described = manifest(page_model.predictor, graphs)
    state = model.state_dict()
    used = {weight.name for graph in graphs for weight in graph.graph.initializer}
    weights = [name for name in state if name in used and state[name].dtype == torch.float32]
    training = None
    training_graphs = []
    if page_model.config:
        tell(f"the training of {page_model.name}")
        training_graphs = export_training(page_model.config, task)
        training = {**training_settings(page_model.config), "graphs": graphs_json(training_graphs)}
    missing = _missing([*graphs, *training_graphs])
    if missing:
        raise Seq2AttnError(
            f"the page cannot run {page_model.name}: "
            f"it lacks the ONNX operation {', '.join(missing)}",
            hint="`seq2attn export` writes the model's graphs for any ONNX runtime.",
        )
    answers = {}
    tell(f"the task of {page_model.name}")
    rule = export_answer(task)
    if rule and not _missing([rule]):
        graphs = [*graphs, rule]
    else:
        for text in page_model.examples:
            source, _, _features = text.partition("\t")
            answer = task.answer(source)
            if answer:
                answers[source] = task.target_vocabulary.encode(answer.text)
    snapshots = []
    for label, tensors in (page_model.snapshots or {"": state}).items():
        numbers = parameters_to_vector(tensors[name] for name in weights).detach().float().numpy()
        little_endian = numbers.astype("<f4").tobytes()
        snapshots.append({"label": label, "weights": base64.b64encode(little_endian).decode()})
    return {
        **described,
        "name": page_model.name,
        "about": page_model.about,
        "examples": page_model.examples,
        "parts": page_model.parts,
        "trained": [task.min_length, task.max_length],
        "answers": answers,
        "graphs": graphs_json(graphs, weights),
        "training": training,
        "weights": [[name, list(state[name].shape)] for name in weights],
        "snapshots": snapshots,
    }


def operations() -> set[str]:
    """Return the ONNX operations that the page's interpreter knows."""
    table = asset("operations.js").partition("const OPERATIONS = {")[2]
    return set(re.findall(r"(?:^  |, )([A-Z]\w+)(?:: |\()", table, re.MULTILINE))


def _missing(graphs: Iterable[onnx.ModelProto]) -> list[str]:
    """Return the operations in these graphs that the interpreter does not know."""
    used = {node.op_type for graph in graphs for node in graph.graph.node}
    return sorted(used - operations())


def graphs_json(models: Iterable[onnx.ModelProto], weights: Collection[str] = ()) -> dict[str, Any]:
    """Return graphs in ONNX's own JSON, by name.

    weights: names of the initializers that are left out.
    """
    import onnx

    to_json = onnx.serialization.registry.get("json").serialize_proto
    graphs = {}
    for model in models:
        graph = json.loads(to_json(model.graph))
        graph.pop("value_info", None)
        constants = graph.pop("initializer", ())
        graph["initializer"] = []
        for constant in constants:
            if constant["name"] not in weights:
                graph["initializer"].append(constant)
        graphs[graph["name"]] = graph
    return graphs


def _embed(data: Any) -> str:
    """Return JSON that is safe inside a script tag: ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _hash(text: str) -> str:
    """Return the name of a script or style in the page's security policy: nothing else runs."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
