"""Operations of torch's graphs as the page's interpreter calls them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.export import default_decompositions

from seq2attn.pages import asset
from seq2attn.torch_private import decomposition_table

KINDS: dict[torch.dtype | None, str] = {
    **dict.fromkeys((torch.float32, torch.float64, torch.float16, torch.bfloat16), "float"),
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), "int"),
    torch.bool: "bool",
}
IGNORED = {"device", "layout", "pin_memory", "memory_format", "dtype", "generator", "implicit"}
"""arguments that change no number"""
APART = {("max", "dim"), ("min", "dim")}
"""overloads that return something else"""
SAME = {"detach", "alias", "dropout"}
"""operations whose result is their argument; a page's model is in evaluation mode"""


@cache
def operations() -> frozenset[str]:
    """Return the operations that the page's interpreter knows."""
    tables = re.findall(
        r"^const [A-Z_]+ = \{$(.*?)^\}$", asset("engine/operations.js"), re.M | re.S
    )
    return frozenset(re.findall(r"^  (?:async )?([a-z_]\w*)", "".join(tables), re.M))


def formulas(targets: Iterable[Any] = ()) -> dict[Any, Any]:
    """Return torch's own formulas for the operations that the page lacks, and for `targets`, as far
    as there are some.
    """
    every = _every_formula()
    wanted = {target: every[target] for target in targets if target in every}
    return {target: formula for target, formula in every.items() if not _is_known(target)} | wanted


@cache
def _every_formula() -> dict[Any, Any]:
    return {**decomposition_table, **default_decompositions()}


def _is_known(target: Any) -> bool:
    name = _base_name(target._schema) if hasattr(target, "_schema") else ""
    return name in operations() or name in _SPELLED or name in SAME


def _base_name(schema: Any) -> str:
    """Return "add" of torch.ops.aten.add_.Tensor."""
    name: str = schema.name.removeprefix("aten::")
    return name.removesuffix("_") if schema.is_mutable else name


def _schema(node: fx.Node) -> Any:
    return getattr(node.target, "_schema", None)


def is_kept(node: fx.Node) -> bool:
    """Return whether a node makes something: checks do not."""
    return bool(node.users) or writes(node)


def writes(node: fx.Node) -> bool:
    """Return whether a node writes into its first argument."""
    return bool(_schema(node)) and _schema(node).is_mutable


def is_view(node: fx.Node) -> bool:
    """Return whether a result shows memory of the first argument."""
    schema = _schema(node)
    if schema is None:
        return node.target is operator.getitem
    return any(result.alias_info is not None for result in schema.returns)


def is_same(node: fx.Node) -> bool:
    """Return whether a result is the first argument itself."""
    name = _name(node)
    if name == "to":
        return KINDS.get(_type(node)) == KINDS.get(_type(node.args[0]))
    return name in SAME


def _type(node: Any) -> torch.dtype | None:
    """Return the type of the numbers that a node makes; None if it makes no tensor."""
    return getattr(node.meta.get("val"), "dtype", None) if isinstance(node, fx.Node) else None


def _name(node: fx.Node) -> str:
    """Return "add" of torch.ops.aten.add.Tensor and of operator.add."""
    target: Any = node.target
    schema = _schema(node)
    if schema is None:
        return f"python_{target.__name__}"
    name = _base_name(schema)
    return f"{name}_{schema.overload_name}" if (name, schema.overload_name) in APART else name


def spelled(node: fx.Node) -> list[Any]:
    """Return the operation of a node and its arguments, as the page calls them."""
    name = _name(node)
    schema = _schema(node)
    if schema is None:
        return [name, *node.args]
    given: dict[str, Any] = {one.name: one.default_value for one in schema.arguments}
    given |= {**dict(zip(given, node.args, strict=False)), **node.kwargs}
    for ignored in IGNORED & given.keys():
        del given[ignored]
    if _type(node) is not None and _type(node) not in KINDS:
        return [f"{name} of {_type(node)}"]
    if name in _SPELLED:
        return _SPELLED[name](node, given)
    defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    while given and next(reversed(given)) in defaults:
        last = next(reversed(given))
        if isinstance(given[last], fx.Node) or given[last] != defaults[last]:
            break
        del given[last]
    return [name, *given.values()]


def _like(value: Any = None) -> Callable[[fx.Node, dict[str, Any]], list[Any]]:
    """Spell what fills a tensor with one number."""

    def spell(node: fx.Node, given: dict[str, Any]) -> list[Any]:
        number = given.get("fill_value", given.get("s", given.get("value", value)))
        kind = KINDS[node.meta["val"].dtype]
        if "size" in given or "s" in given:
            return ["full", list(given.get("size", ())), number, kind]
        return ["full_like", given["self"], number, kind]

    return spell


def _cast(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    kind = KINDS[node.meta["val"].dtype]
    return (
        ["same", given["self"]] if _is_kind(given["self"], kind) else ["cast", given["self"], kind]
    )


def _copied(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    """Spell what takes the place of all numbers of a tensor."""
    kind = KINDS[node.meta["val"].dtype]
    source = given["src"]
    if _is_kind(source, kind) and source.meta["val"].shape == node.meta["val"].shape:
        return ["same", source]
    return ["copy", given["self"], source]


def _is_kind(node: Any, kind: str) -> bool:
    return KINDS.get(_type(node) or torch.bool) == kind


def _arange(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    bounds = [given.get("start", 0), given["end"], given.get("step", 1)]
    return ["arange", *bounds, KINDS[node.meta["val"].dtype]]


def _ordered(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    return [_name(node), given["self"], given["dim"], given["descending"]]


def _norm(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    name = _name(node)
    return [name if given["ord"] == 2 else f"{name} of another order", *given.values()]


def _clamp(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    return ["clamp", given["self"], given.get("min"), given.get("max")]


def _convolution(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    axes = len(given["stride"])
    if axes > 1 or given.pop("transposed"):
        return [f"convolution of {axes} axes" if axes > 1 else "transposed convolution"]
    del given["output_padding"]
    return ["conv1d", *given.values()]


def _index(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    masks = [one for one in given["indices"] if _type(one) == torch.bool]
    return ["index by a mask" if masks else "index", *given.values()]


def _called(name: str, count: int | None = None) -> Callable[[fx.Node, dict[str, Any]], list[Any]]:
    """Spell an operation by another name, with its first arguments."""
    return lambda node, given: [name, *list(given.values())[:count]]


def _same(node: fx.Node, given: dict[str, Any]) -> list[Any]:
    return ["same", given["self"]]


_SPELLED: dict[str, Callable[[fx.Node, dict[str, Any]], list[Any]]] = {
    **dict.fromkeys(("zeros", "new_zeros", "zeros_like", "zero"), _like(0)),
    **dict.fromkeys(("empty", "new_empty", "empty_like"), _like(0)),
    **dict.fromkeys(("ones", "new_ones", "ones_like"), _like(1)),
    **dict.fromkeys(("full", "new_full", "full_like", "fill", "scalar_tensor"), _like()),
    **dict.fromkeys(("clone", "contiguous", "lift_fresh", "lift_fresh_copy"), _same),
    **dict.fromkeys(("to", "_to_copy", "type_as"), _cast),
    **dict.fromkeys(("sort", "argsort"), _ordered),
    "copy": _copied,
    "arange": _arange,
    "convolution": _convolution,
    "index": _index,
    "linalg_vector_norm": _norm,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamp),
    **dict.fromkeys(("view", "_unsafe_view"), _called("reshape")),
    "_softmax": _called("softmax", 2),
    "__and__": _called("bitwise_and"),
    "__or__": _called("bitwise_or"),
    "square": lambda node, given: ["pow", given["self"], 2],
    "rsub": lambda node, given: ["sub", given["other"], *list(given.values())[::2]],
}
"""operations that are written with other arguments than torch's; "same" is no operation: its value
is that of its argument"""
