"""Models -> one HTML page that runs them: their graphs as JSON, their weights, and a small interpreter."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.predictor import Predictor
from seq2attn.pages.graphs import export_graphs
from seq2attn.pages.manifest import manifest
from seq2attn.pages.report_page import embedded

if TYPE_CHECKING:
    import onnx

SCRIPTS = (
    "pages/map.js",
    "pages/operations.js",
    "pages/model.js",
    "pages/view.js",
    "pages/page.js",
)
TYPES = {
    1: "float",
    6: "int",
    7: "int",
    9: "bool",
    10: "float",
    11: "double",
}  # ONNX's numbers of types, as in operations.js


@dataclass(frozen=True)
class Shown:
    """One model of a page."""

    name: str
    predictor: Predictor
    about: Mapping[str, str]
    """what the page says of it, such as its score"""
    examples: Sequence[str]
    """strings to begin with"""
    snapshots: Mapping[str, Mapping[str, Tensor]] | None = None
    """label -> weights, as in `state_dict`, in the order of training; None: only those of the predictor"""


def render(models: Sequence[Shown]) -> str:
    """The page for one model or two, with its styles, scripts, graphs and weights inline."""
    title = " and ".join(model.name for model in models)
    style, script = _read("pages/page.css"), "\n".join(map(_read, SCRIPTS))
    parts = {
        "title": html.escape(title),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": embedded({"models": [page_model(model) for model in models]}),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("pages/page.html"))


def page_model(shown: Shown) -> dict[str, Any]:
    """Graphs, manifest and weights of one model as JSON values. Raises `Seq2AttnError` for an operation the page lacks."""
    model = shown.predictor.model.to("cpu")
    exported = export_graphs(model)
    current = {name: tensor for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32}
    used = {one.name for graph in exported.graphs for one in graph.graph.initializer}
    weights = {name: tensor for name, tensor in current.items() if name in used}
    missing = {node.op_type for graph in exported.graphs for node in graph.graph.node} - operations()
    if missing:
        raise Seq2AttnError(
            f"the page cannot run {shown.name}: it lacks the ONNX operation {', '.join(sorted(missing))}",
            hint="`seq2attn export` writes the model's graphs for any ONNX runtime.",
        )
    snapshots = shown.snapshots or {"": current}
    return {
        "name": shown.name,
        "about": dict(shown.about),
        "examples": list(shown.examples),
        **manifest(shown.predictor, exported),
        "graphs": {graph.graph.name: plain_graph(graph, set(weights)) for graph in exported.graphs},
        "weights": [[name, list(tensor.shape)] for name, tensor in weights.items()],
        "snapshots": [
            {"label": label, "weights": _base64([tensors[name] for name in weights])}
            for label, tensors in snapshots.items()
        ],
    }


def operations() -> set[str]:
    """The ONNX operations that the page's interpreter knows."""
    table = _read("pages/operations.js").partition("const OPERATIONS = {")[2]
    return {
        name
        for pair in re.findall(r"(?:^  |, )([A-Z]\w+): |^  ([A-Z]\w+)\(", table, re.MULTILINE)
        for name in pair
        if name
    }


def plain_graph(model: onnx.ModelProto, weights: set[str]) -> dict[str, Any]:
    """A graph as JSON values; `weights`: the initializers that are kept elsewhere."""
    from onnx import helper, numpy_helper

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        if hasattr(value, "data_type"):  # a tensor
            array = numpy_helper.to_array(value)
            numbers = [_number(one) for one in array.flatten().tolist()]
            return {"type": TYPES[value.data_type], "shape": list(array.shape), "data": numbers}
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value

    graph = model.graph
    return {
        "inputs": [value.name for value in graph.input],
        "outputs": [value.name for value in graph.output],
        "weights": [one.name for one in graph.initializer if one.name in weights],
        "constants": {one.name: plain(one) for one in graph.initializer if one.name not in weights},
        "nodes": [
            [
                node.op_type,
                list(node.input),
                list(node.output),
                {one.name: plain(helper.get_attribute_value(one)) for one in node.attribute},
            ]
            for node in graph.node
        ],
    }


def _number(value: float) -> float | str:
    """A JSON value; JavaScript's Number() reads it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(tensors: Sequence[Tensor]) -> str:
    """float32 numbers, little-endian, one tensor after another."""
    array = torch.cat([tensor.detach().cpu().flatten() for tensor in tensors]).numpy()
    return base64.b64encode(array.astype("<f4").tobytes()).decode()


def _hash(text: str) -> str:
    """How the page's security policy names its only script and style: nothing else runs."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return files("seq2attn").joinpath(name).read_text(encoding="utf-8")
