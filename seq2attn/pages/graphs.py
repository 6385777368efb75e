"""Graphs as JSON, which the page's interpreter runs: what torch.export exports and what make_fx
traces, in one form.

    inputs: {name: shape}, where null is any size
    weights: [name in the model]
    constants: {name: [kind, shape, base64, width of a number]}
    nodes: [[name, operation, *arguments]], each after those that it reads
    outputs: {name: value}

A value is "%NAME", of an input, a weight, a constant or a node. An argument is a value, a number,
true, false, null, a word, a list of arguments, or {"number": "Infinity"}. A kind is float, int or
bool. An operation has the name and the arguments of torch.ops.aten, but for those that are spelled
below. It makes a new value and changes none: the page has no operation that writes, as `add_` does.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, count
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import default_decompositions

from seq2attn.pages import asset
from seq2attn.pages.tracing import Traced, line_of
from seq2attn.torch_private import decomposition_table

Graph = dict[str, Any]
WIDTHS = {
    "float": [torch.float32, torch.float64],
    "int": [torch.int8, torch.int16, torch.int32, torch.float64],
    "bool": [torch.int8],
}
"""how a constant of each kind may be stored, the smallest first"""


class Lacking(ValueError):
    """The page lacks operations."""

    operations: Sequence[Any] = ()
    """as they are called in torch's graphs"""


def program_json(traced: Traced) -> Graph:
    """Return the graph of a traced function, in the context of `exporting`. If the page lacks some
    of its operations, they are taken apart into others, where torch has a decomposition of them. A
    graph without any is not taken apart, since that takes as long as the export itself.

    Raises `Lacking` for operations that the page lacks nevertheless.
    """
    function, program, module, outputs = traced
    try:
        return graph_json(module, function.inputs, outputs)
    except Lacking as lacking:
        table = torch_decompositions(lacking.operations)
    # this also replaces what writes into a tensor by what makes another
    apart = program.run_decompositions(table).module(check_guards=False)
    return graph_json(apart, function.inputs, outputs)


def graph_json(traced: fx.GraphModule, inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """Return a traced graph as JSON, with what its outputs need, each computation once, and nothing
    else.

    traced: of its tensors, those of floats that the state dict has under `model.` are weights;
        others, such as tables, are constants. What no output needs is removed from it.
    inputs: names of its placeholders, in order. What it draws at random becomes inputs, too:
        `random.N`, uniform in [0, 1).
    outputs: names of its results, in order.

    Raises `Lacking` if the page lacks an operation.
    """
    graph = traced.graph
    _remove_idle(graph)
    input_names = chain(inputs, map("random.{}".format, count()))  # placeholders come first
    shapes, constants, nodes = {}, {}, []
    weights = set()
    saved = traced.state_dict()
    values: dict[fx.Node, str] = {}  # of each node, such as "%add"
    known: dict[str, str] = {}  # what a node computes, as JSON -> the first node that does
    lacking: dict[fx.Node, str] = {}  # node -> its operation
    for node in graph.nodes:
        name = node.name
        if node.op == "placeholder" or node.target == torch.ops.aten.rand.default:
            name = next(input_names)
            sizes = node.meta["val"].shape
            # any size: a symbol of torch's in place of a number
            shapes[name] = [size if isinstance(size, int) else None for size in sizes]
        elif node.op == "get_attr":
            name = node.target
            tensor = attrgetter(name)(traced)
            # the exported module has the model under this name; a table outside it, or one that
            # the state dict leaves out, is none of its weights
            if name.startswith("model.") and name in saved and tensor.is_floating_point():
                name = name.removeprefix("model.")
                weights.add(name)
            else:
                constants[name] = constant_json(tensor)
        elif node.op == "call_function":
            computed = _argument(spelled(node), values)
            if computed[0] not in operations():
                lacking[node] = computed[0]
            name = known.setdefault(json.dumps(computed), node.name)
            if name == node.name:
                nodes.append([name, *computed])
        values[node] = f"%{name}"
    if lacking:
        raise _lacking(lacking)
    results = _argument(graph.output_node().args[0], values)
    return {
        "inputs": shapes,
        "weights": sorted(weights),
        "constants": constants,
        "nodes": nodes,
        "outputs": dict(zip(outputs, results, strict=True)),
    }


def _remove_idle(graph: fx.Graph) -> None:
    """Remove nodes that compute nothing, whose result is their argument, and nodes that no output
    needs.
    """
    for node in graph.nodes:
        if node.op == "call_function":
            operation, *arguments = spelled(node)
            if operation == "same":
                node.replace_all_uses_with(arguments[0])
    # the rule says which nodes stay although no output needs them; torch's own would also keep its
    # checks of sizes
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))


def _lacking(operations: dict[fx.Node, str]) -> Lacking:
    """Return the error for nodes whose operations the page lacks: it names one, and has all."""
    first, operation = next(iter(operations.items()))
    # (`prims::` marks those that torch takes apart no further)
    operation = operation.removeprefix("prims::")
    error = Lacking(f"it lacks the operation {operation}{line_of(first)}")
    error.operations = [node.target for node in operations]
    return error


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


def _argument(value: Any, values: dict[fx.Node, str]) -> Any:
    """Return an argument of an operation as a JSON value: a node as its value, such as "%add".
    Infinities and NaN, which JSON lacks, become a text that `Number` in JavaScript reads.
    """
    if isinstance(value, fx.Node):
        return values[value]
    if isinstance(value, list | tuple):
        return [_argument(one, values) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value).replace("inf", "Infinity")}  # or "nan", as it is
    return value


# ---- operations of torch's graphs as the page's interpreter calls them ----

IGNORED = {"device", "layout", "pin_memory", "memory_format", "dtype", "generator", "implicit"}
IGNORED |= {"stable", "half_to_float", "non_blocking"}
"""arguments that change no number"""
RENAMED = {
    **dict.fromkeys(("clone", "contiguous", "lift_fresh", "lift_fresh_copy"), "same"),
    **dict.fromkeys(("detach", "detach_", "alias", "dropout"), "same"),
    **dict.fromkeys(("view", "_unsafe_view"), "reshape"),
    "_softmax": "softmax",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "clamp_min": "clamp",
}
"""torch's names of operations that the page calls otherwise; "same" is none: its value is that of
its argument (a page's model is in evaluation mode, without dropout)"""
FILLED = {
    **dict.fromkeys(
        ("zeros", "new_zeros", "zeros_like", "zero", "empty", "new_empty", "empty_like"), 0
    ),
    **dict.fromkeys(("ones", "new_ones", "ones_like"), 1),
}
"""operations that fill a tensor with one number"""


@cache
def operations() -> frozenset[str]:
    """Return the names of the operations that the page's interpreter knows, read from its tables in
    JavaScript: lines of two spaces, perhaps `async`, and a name, such as `add,`, `add: ...` or
    `add(...`, between `const TABLE = {` and `}`.
    """
    tables = re.findall(
        r"^const [A-Z_]+ = \{$(.*?)^\}$", asset("engine/operations.js"), re.M | re.S
    )
    return frozenset(re.findall(r"^  (?:async )?([a-z_]\w*)", "".join(tables), re.M))


def torch_decompositions(wanted: Iterable[Any] = ()) -> dict[Any, Any]:
    """Return torch's decompositions, functions that compute an operation by simpler ones: of the
    operations whose names the page lacks, and of `wanted`, as far as torch has any.

    wanted: operations that the page has for some arguments only, such as `index` without a mask.
    """
    known = {*operations(), *RENAMED, *_SPELLED}
    chosen = {}
    for target, decomposition in _every_decomposition().items():
        # one that writes, such as `add_`, counts as known by the one that does not
        if target in wanted or known.isdisjoint({_name(target), _name(target).removesuffix("_")}):
            chosen[target] = decomposition
    return chosen


@cache
def _every_decomposition() -> dict[Any, Any]:
    return {**decomposition_table, **default_decompositions()}


@cache
def _name(target: Any) -> str:
    """Return the name of an operation without what torch adds to it: "add" of
    torch.ops.aten.add.Tensor; but "max_dim" of torch.ops.aten.max.dim, since the page has that
    beside "max". Of a function of Python such as operator.add, "python_add".
    """
    if not hasattr(target, "_schema"):
        return f"python_{target.__name__}"
    name: str = target._schema.name.removeprefix("aten::")
    overload = f"{name}_{target._schema.overload_name}"
    return overload if overload in operations() else name


def kind_of(dtype: torch.dtype) -> str:
    """Return "float", "int", "bool" or "complex", of the numbers of a tensor."""
    if dtype == torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "int"


def _kind(value: Any) -> str | None:
    """Return the kind of the tensor that a node makes; None of anything else."""
    made = value.meta.get("val") if isinstance(value, fx.Node) else None
    return kind_of(made.dtype) if isinstance(made, Tensor) else None


Given = dict[str, Any]
"""the arguments of a node by their names in torch's schema"""


def spelled(node: fx.Node) -> list[Any]:
    """Return the operation of a node and its arguments, as the page calls them. The last arguments
    are left out as long as each has its default.

    For what the page cannot run, such as complex numbers, the operation is a name that no table has
    and that the error message about it shows.
    """
    target: Any = node.target
    name = _name(target)
    if not hasattr(target, "_schema"):  # a function of Python, such as operator.add of two sizes
        return [name, *node.args]
    if _kind(node) == "complex":
        return [f"{name} of complex numbers"]
    defaults = {one.name: one.default_value for one in target._schema.arguments}
    # `node.args` are the first of the arguments
    given: Given = {**defaults, **dict(zip(defaults, node.args, strict=False)), **node.kwargs}
    for ignored in IGNORED & given.keys():  # such as a device, which changes no number
        del given[ignored]
    if name in _SPELLED:  # the page takes other arguments than torch
        return _SPELLED[name](node, given)
    # the page knows an argument by its place: one before another that is needed must stay
    for last in reversed([*given]):
        if given[last] != defaults[last]:
            break
        del given[last]
    return [RENAMED.get(name, name), *given.values()]


def _filled(node: fx.Node, given: Given) -> list[Any]:
    """Spell what makes a tensor of equal numbers: `full(shape, number, kind)`, or `full_like` of a
    tensor in place of the shape.

    Torch's arguments end with the shape or that tensor (none for a single number), and then the
    number, unless the name says it: `zeros(shape)`, `new_full(tensor, shape, number)`.
    """
    name = _name(node.target)
    values = [*given.values()]
    number = FILLED[name] if name in FILLED else values.pop()
    shape = values[-1] if values else []  # or the tensor
    if isinstance(number, fx.Node):  # a number in a tensor, as where a row of weights is set to 0
        return ["copy", shape, number]
    return ["full_like" if isinstance(shape, fx.Node) else "full", shape, number, _kind(node)]


def _cast(node: fx.Node, given: Given) -> list[Any]:
    if _kind(given["self"]) == _kind(node):
        return ["same", given["self"]]
    return ["cast", given["self"], _kind(node)]


def _copied(node: fx.Node, given: Given) -> list[Any]:
    """Spell `copy_`, which replaces all numbers of a tensor: its result is the source itself,
    unless that must be repeated or cast.
    """
    source = given["src"]
    if _kind(source) == _kind(node) and source.meta["val"].shape == node.meta["val"].shape:
        return ["same", source]
    return ["copy", given["self"], source]


def _norm(node: fx.Node, given: Given) -> list[Any]:
    name = "linalg_vector_norm"
    return [name if given["ord"] == 2 else f"{name} of another order", *given.values()]


def _convolution(node: fx.Node, given: Given) -> list[Any]:
    if len(given["stride"]) > 1 or given.pop("transposed"):
        return ["convolution of several axes, or transposed"]
    del given["output_padding"]  # of transposed ones alone
    return ["conv1d", *given.values()]


def _index(node: fx.Node, given: Given) -> list[Any]:
    by_mask = any(_kind(one) == "bool" for one in given["indices"])
    return ["index by a mask" if by_mask else "index", *given.values()]


_SPELLED: dict[str, Callable[[fx.Node, Given], list[Any]]] = {
    **dict.fromkeys((*FILLED, "full", "new_full", "full_like", "fill", "scalar_tensor"), _filled),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    "copy": _copied,
    "arange": lambda node, given: [
        "arange",
        given.get("start", 0),
        given["end"],
        given.get("step", 1),
        _kind(node),
    ],
    "convolution": _convolution,
    "index": _index,
    "linalg_vector_norm": _norm,
    "rsub": lambda _, given: ["sub", given["other"], given["self"], given["alpha"]],
    "square": lambda _, given: ["pow", given["self"], 2],
}
"""operations that are written with other arguments than torch's; `["same", x]` stands for x itself,
without an operation"""
