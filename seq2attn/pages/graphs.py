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
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2attn.pages.spelling import (
    is_view,
    kind_of,
    operations,
    spelled,
    torch_decompositions,
    writes,
)
from seq2attn.pages.tracing import Traced, line_of

Graph = dict[str, Any]
Node = list[Any]
"""name, operation, arguments"""
WIDTHS = {
    "float": [torch.float32, torch.float64],
    "int": [torch.int8, torch.int16, torch.int32, torch.float64],
    "bool": [torch.int8],
}
"""how a constant of each kind may be stored, the smallest first"""


class Lacking(ValueError):
    """The page lacks operations."""

    def __init__(self, reason: str, operations: Sequence[Any] = ()) -> None:
        super().__init__(reason)
        self.operations = operations


class SharedMemory(Lacking):
    """An operation writes into memory that another tensor shows later."""


def program_json(traced: Traced) -> Graph:
    """Return the graph of a traced function. If the page lacks some of its operations, they are
    taken apart into others, where torch has a decomposition of them. A graph without any is not
    taken apart, since that takes as long as the export itself.

    Raises `Lacking` for operations that the page lacks nevertheless.
    """
    function, program, module, outputs = traced
    try:
        return graph_json(module, function.inputs, outputs)
    except Lacking as lacking:
        table = torch_decompositions(lacking.operations)
    # MATH: the decomposition of attention that consists of basic operations
    with sdpa_kernel(SDPBackend.MATH):
        # it also replaces all writing in place, and so helps where `lacking` is a SharedMemory
        apart = program.run_decompositions(table).module(check_guards=False)
    return graph_json(apart, function.inputs, outputs)


def graph_json(traced: fx.GraphModule, inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """Return a traced graph as JSON, with what its outputs need, and nothing else.

    traced: of its tensors, those of floats that the state dict has under `model.` are weights;
        others, such as tables, are constants. It is changed: what writes makes tensors instead.
    inputs: names of its placeholders, in order. What it draws at random becomes inputs, too:
        `random.N`, uniform in [0, 1).
    outputs: names of its results, in order.

    Raises `Lacking` if the page lacks an operation, and `SharedMemory` where writing into a tensor
    cannot be replaced.
    """
    graph = traced.graph
    _let_writes_make_tensors(graph)
    # the node of each input -> its name
    given = dict(zip(graph.find_nodes(op="placeholder"), inputs, strict=True))
    drawn = graph.find_nodes(op="call_function", target=torch.ops.aten.rand.default)
    given |= {node: f"random.{number}" for number, node in enumerate(drawn)}
    shapes = {}
    for node, name in given.items():
        sizes = node.meta["val"].shape
        # any size: a symbol of torch's in place of a number
        shapes[name] = [size if isinstance(size, int) else None for size in sizes]

    stored, constants = _stored(traced)
    weights = set(stored.values()) - constants.keys()
    writer = _Writer({node: f"%{name}" for node, name in {**given, **stored}.items()})
    results = writer.write_all(graph)
    nodes, needed = writer.needed_for(results)
    _check_operations(graph, nodes)
    return {
        "inputs": shapes,
        "weights": sorted(name for name in weights if f"%{name}" in needed),
        "constants": {
            name: constant_json(tensor)
            for name, tensor in constants.items()
            if f"%{name}" in needed
        },
        "nodes": nodes,
        "outputs": dict(zip(outputs, results, strict=True)),
    }


def _stored(traced: fx.GraphModule) -> tuple[dict[fx.Node, str], dict[str, Tensor]]:
    """Return the nodes that read a stored tensor, a weight or a constant, each with its name; and
    the constants by name.

    A weight has its name in the model, a constant that of the first node that reads it.
    """
    names: dict[fx.Node, str] = {}
    constants: dict[str, Tensor] = {}
    # the exported module has the model under this name; a table outside it, or one that the state
    # dict leaves out, is none of its weights
    saved = {name for name in traced.state_dict() if name.startswith("model.")}
    for node in traced.graph.find_nodes(op="get_attr"):
        tensor = attrgetter(node.target)(traced)
        if node.target in saved and tensor.is_floating_point():
            names[node] = node.target.removeprefix("model.")
        else:
            known = [name for name, constant in constants.items() if constant is tensor]
            names[node] = known[0] if known else node.name
            constants[names[node]] = tensor
    return names, constants


def _check_operations(graph: fx.Graph, nodes: Sequence[Node]) -> None:
    """Raise `Lacking` if the page lacks an operation of these nodes.

    nodes: as JSON. graph: that they were written from, which knows the lines of their calls.
    """
    lacking = {name: operation for name, operation, *_ in nodes if operation not in operations()}
    callers = [node for node in graph.nodes if node.name in lacking]
    if callers:
        first = callers[0]  # the message names one, the error has all
        operation = lacking[first.name].removeprefix("prims::")  # torch's, of its simplest ones
        reason = f"it lacks the operation {operation}{line_of(first)}"
        raise Lacking(reason, [node.target for node in callers])


def constant_json(tensor: Tensor) -> list[Any]:
    """Return kind, shape, numbers in base64, and width of a tensor. The width is the name of the
    smallest type of its kind that holds each of its numbers exactly, such as int8 for small whole
    ones; of the widest one if none does, as for NaN.
    """
    kind = kind_of(tensor.dtype)
    for width in WIDTHS[kind]:
        if torch.equal(tensor.to(width).to(tensor.dtype), tensor):
            break
    numbers = tensor.to(width).flatten().numpy().tobytes()  # in the last width that was tried
    name = str(width).removeprefix("torch.")
    return [kind, list(tensor.shape), base64.b64encode(numbers).decode(), name]


# ---- nodes ----


def _let_writes_make_tensors(graph: fx.Graph) -> None:
    """Replace writing into a tensor, as `y.add_(x)` does, by making another: whatever reads y after
    that operation reads its result instead.

    Raises `SharedMemory` where that is not enough: another tensor, such as `y.t()`, shows the same
    memory and is read afterwards.
    """
    position = {node: number for number, node in enumerate(graph.nodes)}

    # nodes stand in the order in which they run
    def later_readers(tensor: fx.Node, operation: fx.Node) -> list[fx.Node]:
        return [reader for reader in tensor.users if position[reader] > position[operation]]

    # tensor -> all tensors in its memory, itself too: one list, which grows, for all of them
    in_memory_of: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        in_memory_of[node] = [node]
        target = node.args[0] if node.args else None  # what it writes into, or shows
        if node.op != "call_function" or not isinstance(target, fx.Node):
            continue
        if writes(node):
            for reader in later_readers(target, node):
                reader.replace_input_with(target, node)
            for other in in_memory_of[target]:  # `target` itself has no later reader any more
                if later_readers(other, node):
                    raise SharedMemory(f"{node.name} writes into memory that {other.name} shows")
        if writes(node) or is_view(node):  # its result lies in the memory of `target`
            in_memory_of[target].append(node)
            in_memory_of[node] = in_memory_of[target]


class _Writer:
    """Writes the nodes of a graph as JSON, each computation once.

    values: node -> its value, such as "%add". At first of the nodes that compute nothing, inputs,
        weights and constants; then of each node that is written, too.
    """

    def __init__(self, values: dict[fx.Node, str]) -> None:
        self.values = values
        self.nodes: list[Node] = []
        self.known: dict[str, str] = {}  # what a node computes, as JSON -> its value

    def write_all(self, graph: fx.Graph) -> Any:
        """Write every node of a graph; return what the graph returns."""
        for node in graph.nodes:
            if node.op == "call_function" and node not in self.values:
                self.values[node] = self.write(node)
        return self.argument(graph.output_node().args[0])

    def write(self, node: fx.Node) -> str:
        """Write what a node computes; return its value, such as "%add". Nothing is written for what
        another node has computed before, nor for what only returns its argument.
        """
        written = list(map(self.argument, spelled(node)))  # operation and arguments
        if written[0] == "same":  # nothing to compute: the result is the argument
            return str(written[1])
        key = json.dumps(written)
        if key not in self.known:
            self.known[key] = f"%{node.name}"
            self.nodes.append([node.name, *written])
        return self.known[key]

    def argument(self, value: Any) -> Any:
        """Return an argument of an operation as a JSON value: a node as its value, such as "%add".
        Infinities and NaN, which JSON lacks, become a text that `Number` in JavaScript reads.
        """
        if isinstance(value, fx.Node):
            return self.values[value]
        if isinstance(value, list | tuple):
            return list(map(self.argument, value))
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": str(value).replace("inf", "Infinity")}  # or "nan", as it is
        return value

    def needed_for(self, results: Any) -> tuple[list[Node], set[str]]:
        """Return the nodes that these results are computed from, and the names of all values that
        are needed: the results, and what those nodes read.
        """
        needed = set(_values(results))
        nodes: list[Node] = []
        for name, *computation in reversed(self.nodes):  # a node comes after all that it reads
            if f"%{name}" in needed:
                needed |= set(_values(computation))
                nodes.insert(0, [name, *computation])
        return nodes, needed


def _values(argument: Any) -> Iterable[str]:
    """Yield the values, such as "%add", that an argument names, also inside lists."""
    if isinstance(argument, list):
        for one in argument:
            yield from _values(one)
    elif isinstance(argument, str) and argument.startswith("%"):
        yield argument
