"""Graphs as JSON, which the page's interpreter runs: what torch.export exports and what make_fx
traces, in one form.

    inputs: {name: shape}, where null is any size
    weights: [name in the model]
    constants: {name: [kind, shape, base64, width of a number]}
    nodes: [[name, operation, *arguments]], each after those that it reads
    outputs: {name: value}

A value is "%NAME", of an input, a weight, a constant or a node. An argument is a value, a number,
true, false, null, a word, a list of arguments, or {"number": "Infinity"}. A kind is float, int or
bool. An operation has the name and the arguments of torch.ops.aten, but for those of `spelling.py`.
It makes a new value and changes none: what writes into a tensor in PyTorch is written as what makes
another.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2attn.pages.spelling import (
    KINDS,
    formulas,
    is_kept,
    is_same,
    is_view,
    operations,
    spelled,
    writes,
)
from seq2attn.pages.tracing import Traced, line_of

Graph = dict[str, Any]
WIDTHS = {"float": [torch.float32], "int": [torch.int8, torch.int16, torch.int32], "bool": []}
"""how a constant of each kind may be stored, the smallest first; a last one is float64"""


def program_json(traced: Traced) -> Graph:
    """Return the graph of a function. Operations that the page lacks are taken apart, where torch
    knows how.

    Raises `Lacking` for operations that the page lacks nevertheless.
    """
    function, program, outputs = traced
    try:
        writer = _written(program, function.inputs)
    except _SharedMemory:
        program = program.run_decompositions({})  # which leaves no operation that writes
        writer = _written(program, function.inputs)
    lacking = [node.target for node in writer.lacking(writer.graph(outputs)).values()]
    if lacking:
        with sdpa_kernel(SDPBackend.MATH):
            program = program.run_decompositions(formulas(lacking))
        writer = _written(program, function.inputs)
    return writer.complete(outputs)


def _written(program: ExportedProgram, inputs: Iterable[str]) -> _Writer:
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    held |= signature.inputs_to_lifted_tensor_constants
    given = dict(zip(signature.user_inputs, inputs, strict=True))
    named = {}
    weights = {}
    constants = {}
    for node in program.graph.find_nodes(op="placeholder"):
        kept = program.state_dict.get(held.get(node.name, ""))
        if node.name in given:
            named[node] = given[node.name]
        elif kept is not None and kept.is_floating_point():
            weights[node] = held[node.name].removeprefix("model.")
        else:
            constants[node] = program.constants[held[node.name]] if kept is None else kept
    writer = _Writer(named, weights, constants)
    writer.write(program.graph)
    return writer


def trace_json(traced: fx.GraphModule, inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """Return the graph of a trace by make_fx. Its random numbers become inputs `random.N`, uniform
    in [0, 1).

    Raises `Lacking` for operations that the page lacks, and `ValueError` for a trace that writes
    into memory that another tensor shows.
    """
    graph = traced.graph
    named = dict(zip(graph.find_nodes(op="placeholder"), inputs, strict=True))
    drawn = graph.find_nodes(op="call_function", target=torch.ops.aten.rand.default)
    named |= {node: f"random.{number}" for number, node in enumerate(drawn)}
    constants = {node: getattr(traced, node.target) for node in graph.find_nodes(op="get_attr")}
    writer = _Writer(named, {}, constants)
    writer.write(graph)
    return writer.complete(outputs)


def constant_json(tensor: Tensor) -> list[Any]:
    """Return kind, shape, numbers and width of a tensor, in as few bytes as hold it exactly."""
    kind = KINDS.get(tensor.dtype, "float")
    width = torch.int8 if kind == "bool" else torch.float64
    for smaller in WIDTHS[kind]:
        if torch.equal(tensor.to(smaller).to(tensor.dtype), tensor) or smaller == tensor.dtype:
            width = smaller
            break
    numbers = tensor.to(width).flatten().numpy().tobytes()
    name = str(width).removeprefix("torch.")
    return [kind, list(tensor.shape), base64.b64encode(numbers).decode(), name]


# ---- nodes ----


class Lacking(ValueError):
    """The page lacks an operation."""


class _SharedMemory(ValueError):
    """An operation writes into memory that another tensor shows."""


class _Tensor:
    """A tensor of the trace: its value so far, every node that shows its memory, and of a view what
    it shows a part of, and how.
    """

    def __init__(self, value: Any, source: _Tensor | None = None, view: Any = None) -> None:
        self.value = value
        self.source = source
        self.view = view
        self.memory: list[tuple[fx.Node, _Tensor]] = source.memory if source else []
        self.parts: dict[int, Any] = dict(source.parts) if source else {}
        if source and view[0] == "python_getitem":
            self.parts[id(source)] = view[2]  # which of a list

    def is_apart(self, other: _Tensor) -> bool:
        """Return whether two tensors are, or show, different parts of a list, such as a split's."""
        return any(other.parts.get(split, part) != part for split, part in self.parts.items())


class _Writer:
    """Writes the nodes of a graph, each computation once.

    inputs, weights: the nodes that are these, with their names.
    constants: the nodes that are constants.
    """

    def __init__(
        self,
        inputs: Mapping[fx.Node, str],
        weights: Mapping[fx.Node, str],
        constants: Mapping[fx.Node, Tensor],
    ) -> None:
        self.inputs = inputs
        self.weights = weights
        self.constants = {node.name: tensor for node, tensor in constants.items()}
        self.tensors = {node: _Tensor(f"%{name}") for node, name in {**inputs, **weights}.items()}
        kept: dict[int, _Tensor] = {}
        for node, tensor in constants.items():
            self.tensors[node] = kept.setdefault(id(tensor), _Tensor(f"%{node.name}"))
        self.nodes: list[list[Any]] = []
        self.known: dict[str, str] = {}
        self.callers: dict[str, fx.Node] = {}
        self.results: Any = ()

    def write(self, graph: fx.Graph) -> None:
        places = {node: place for place, node in enumerate(graph.nodes)}
        for node in graph.nodes:
            if node.op == "output":
                results = node.args[0]
                values = results.values() if isinstance(results, dict) else results
                self.results = self.argument(list(values))
            elif node.op == "call_function" and node not in self.tensors and is_kept(node):
                self.tensors[node] = self.tensor(node, places)
            tensor = self.tensors.get(node)
            if tensor:
                tensor.memory.append((node, tensor))

    def tensor(self, node: fx.Node, places: Mapping[fx.Node, int]) -> _Tensor:
        """Return what a node makes. One that writes gives its tensor a new value."""
        first = node.args[0] if node.args else None
        source = self.tensors.get(first) if isinstance(first, fx.Node) else None
        if source and is_same(node):
            return source
        operation, *arguments = spelled(node)
        made = self.computed(node.name, operation, arguments)
        self.callers.setdefault(operation, node)
        if source is None:
            return _Tensor(made)
        if writes(node):
            self.overwrite(source, made, node, places)
            return source
        if is_view(node):
            return _Tensor(made, source, [operation, *arguments])
        return _Tensor(made)

    def overwrite(
        self, tensor: _Tensor, made: str, node: fx.Node, places: Mapping[fx.Node, int]
    ) -> None:
        """Give a tensor a new value, and everything that it shows a part of.

        Raises `_SharedMemory` if another tensor that is read later shows it, too.
        """
        later = set()
        for other, shown in tensor.memory:
            readers = [user for user in other.users if places[user] > places[node]]
            if shown is tensor.source and tensor.view[0] == "python_getitem":
                readers = [user for user in readers if user.args[1] == tensor.view[2]]
            if readers and not shown.is_apart(tensor):
                later.add(shown)
        tensor.value = made
        whole = tensor
        while whole.source and later - {tensor}:
            operation, _, *place = whole.view
            if operation not in ("select", "slice"):
                break
            part, whole = whole, whole.source
            name = f"{node.name}.{len(self.nodes)}"
            scattered = [whole.value, part.value, *place]
            whole.value = self.computed(name, f"{operation}_scatter", scattered)
            later.discard(whole)
        if later - {tensor}:
            raise _SharedMemory(f"{node.name} writes into memory that another tensor shows")

    def computed(self, name: str, operation: str, arguments: Sequence[Any]) -> str:
        """Write a computation, unless it was written before; return its value."""
        written = [operation, *self.argument(arguments)]
        if operation == "same":
            return written[1]
        key = json.dumps(written)
        if key not in self.known:
            self.known[key] = f"%{name}"
            self.nodes.append([name, *written])
        return self.known[key]

    def argument(self, value: Any) -> Any:
        """Return an argument as a JSON value."""
        if isinstance(value, fx.Node):
            return self.tensors[value].value
        if isinstance(value, list | tuple):
            return [self.argument(one) for one in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": str(value).replace("inf", "Infinity")}
        return value

    def lacking(self, graph: Graph) -> dict[str, fx.Node]:
        """Return the operations of a graph that the page lacks, each with a node that calls it."""
        used = dict.fromkeys(operation for _, operation, *_ in graph["nodes"])
        return {name: self.callers[name] for name in used if name not in operations()}

    def complete(self, outputs: Iterable[str]) -> Graph:
        """Return the graph. Raises `Lacking` for operations that the page lacks."""
        graph = self.graph(outputs)
        for name, node in self.lacking(graph).items():
            raise Lacking(f"it lacks the operation {name.removeprefix('prims::')}{line_of(node)}")
        return graph

    def graph(self, outputs: Iterable[str]) -> Graph:
        """Return the graph, with what its outputs need."""
        results = dict(zip(outputs, self.results, strict=True))
        needed = set(_values(list(results.values())))
        nodes = []
        for node in reversed(self.nodes):
            if f"%{node[0]}" in needed:
                needed |= set(_values(node[2:]))
                nodes.append(node)
        shapes = {}
        for input_node, name in self.inputs.items():
            sizes = input_node.meta["val"].shape
            shapes[name] = [size if isinstance(size, int) else None for size in sizes]
        constants = {}
        for name, tensor in self.constants.items():
            if f"%{name}" in needed:
                constants[name] = constant_json(tensor)
        return {
            "inputs": shapes,
            "weights": sorted(name for name in self.weights.values() if f"%{name}" in needed),
            "constants": constants,
            "nodes": nodes[::-1],
            "outputs": results,
        }


def _values(argument: Any) -> Iterable[str]:
    """Yield the values that an argument names."""
    if isinstance(argument, list):
        for one in argument:
            yield from _values(one)
    elif isinstance(argument, str) and argument.startswith("%"):
        yield argument
