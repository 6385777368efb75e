"""Operations of torch's graphs as the page's interpreter calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.export import default_decompositions

from seq2attn.pages import asset
from seq2attn.torch_private import decomposition_table

IGNORED = {"device", "layout", "pin_memory", "memory_format", "dtype", "generator", "implicit"}
IGNORED |= {"stable", "half_to_float", "non_blocking"}
"""arguments that change no number"""
RENAMED = {
    **dict.fromkeys(("clone", "contiguous", "lift_fresh", "lift_fresh_copy"), "same"),
    **dict.fromkeys(("detach", "alias", "dropout"), "same"),
    **dict.fromkeys(("view", "_unsafe_view"), "reshape"),
    "_softmax": "softmax",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "clamp_min": "clamp",
}
"""torch's names of operations that the page calls otherwise; "same" is none: its value is that of
its argument (a page's model is in evaluation mode, without dropout)"""
FILLED = {
    **dict.fromkeys(("zeros", "new_zeros", "zeros_like", "zero"), 0),
    **dict.fromkeys(("empty", "new_empty", "empty_like"), 0),
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
    chosen = {}
    for target, decomposition in _every_decomposition().items():
        if target in wanted or not _is_known(target):
            chosen[target] = decomposition
    return chosen


@cache
def _every_decomposition() -> dict[Any, Any]:
    return {**decomposition_table, **default_decompositions()}


def _is_known(target: Any) -> bool:
    name = _base_name(target._schema) if hasattr(target, "_schema") else ""
    return name in operations() or name in RENAMED or name in _SPELLED


def _base_name(schema: Any) -> str:
    """Return the name of an operation without what torch adds to it: "add" of
    torch.ops.aten.add_.Tensor; but "max_dim" of torch.ops.aten.max.dim, since the page has that
    beside "max".
    """
    name: str = schema.name.removeprefix("aten::")
    if schema.is_mutable:  # it writes into a tensor; its name then ends with _
        name = name.removesuffix("_")
    overload = f"{name}_{schema.overload_name}"
    return overload if overload in operations() else name


def _schema(node: fx.Node) -> Any:
    """Return torch's description of the operation of a node; None for a function of Python."""
    return getattr(node.target, "_schema", None)


def _name(node: fx.Node) -> str:
    """Return "add" of torch.ops.aten.add.Tensor, and "python_add" of operator.add."""
    target: Any = node.target
    schema = _schema(node)
    return _base_name(schema) if schema else f"python_{target.__name__}"


def writes(node: fx.Node) -> bool:
    """Return whether a node writes into its first argument."""
    return bool(_schema(node)) and _schema(node).is_mutable


def is_view(node: fx.Node) -> bool:
    """Return whether a result shows memory of the first argument."""
    returns = _schema(node).returns if _schema(node) else ()
    # getitem: one of several results that an operation returned; dropout: changes nothing, since a
    # page's model is in evaluation mode
    is_argument = _name(node) in ("python_getitem", "dropout")
    return is_argument or any(result.alias_info for result in returns)


def kind_of(dtype: torch.dtype) -> str:
    """Return "float", "int" or "bool", of the numbers of a tensor that are not complex."""
    if dtype == torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "int"


def _type(node: Any) -> torch.dtype | None:
    """Return the type of the numbers that a node makes; None if it makes no tensor."""
    return getattr(node.meta.get("val"), "dtype", None) if isinstance(node, fx.Node) else None


def _kind(node: fx.Node) -> str:
    return kind_of(node.meta["val"].dtype)


Given = dict[str, Any]
"""the arguments of a node by their names in torch's schema"""


def spelled(node: fx.Node) -> list[Any]:
    """Return the operation of a node and its arguments, as the page calls them. The last arguments
    are left out as long as each has its default.

    For what the page cannot run, such as complex numbers, the operation is a name that no table has
    and that the error message about it shows.
    """
    name = _name(node)
    schema = _schema(node)
    if schema is None:  # a function of Python, such as operator.add of two sizes
        return [name, *node.args]
    dtype = _type(node)
    if dtype is not None and dtype.is_complex:
        return [f"{name} of {dtype}"]
    defaults = {one.name: one.default_value for one in schema.arguments}
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
    name = _name(node)
    values = [*given.values()]
    number = FILLED[name] if name in FILLED else values.pop()
    shape = values[-1] if values else []  # or the tensor
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


def _arange(node: fx.Node, given: Given) -> list[Any]:
    return ["arange", given.get("start", 0), given["end"], given.get("step", 1), _kind(node)]


def _norm(node: fx.Node, given: Given) -> list[Any]:
    name = _name(node)
    return [name if given["ord"] == 2 else f"{name} of another order", *given.values()]


def _convolution(node: fx.Node, given: Given) -> list[Any]:
    axes = len(given["stride"])
    if axes > 1:
        return [f"convolution of {axes} axes"]
    if given.pop("transposed"):
        return ["transposed convolution"]
    del given["output_padding"]  # of transposed ones alone
    return ["conv1d", *given.values()]


def _index(node: fx.Node, given: Given) -> list[Any]:
    masks = [one for one in given["indices"] if _type(one) == torch.bool]
    return ["index by a mask" if masks else "index", *given.values()]


def _reverse_difference(node: fx.Node, given: Given) -> list[Any]:
    return ["sub", given["other"], given["self"], given["alpha"]]


_SPELLED: dict[str, Callable[[fx.Node, Given], list[Any]]] = {
    **dict.fromkeys((*FILLED, "full", "new_full", "full_like", "fill", "scalar_tensor"), _filled),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    "copy": _copied,
    "arange": _arange,
    "convolution": _convolution,
    "index": _index,
    "linalg_vector_norm": _norm,
    "rsub": _reverse_difference,
    "square": lambda _, given: ["pow", given["self"], 2],
}
"""operations that are written with other arguments than torch's; `["same", x]` stands for x itself,
without an operation"""
