"""Finds the line that a finding comes from, where it has a known form, and what should be there."""

import ast
import inspect
import linecache
from collections.abc import Iterator
from typing import Any

SQUEEZES = ("one-row", "batch", "length")
FILLS = ("mask-constant", "padding-leak", "overflow")


def corrections(attention: Any, code: str) -> Iterator[str]:
    """Yield lines of an attention, and of what it calls in its file, beside what they should be."""
    if not inspect.isclass(attention) and not inspect.isfunction(attention):
        attention = type(attention)
    try:
        tree = ast.parse("".join(linecache.getlines(inspect.getsourcefile(attention) or "")))
    except (TypeError, SyntaxError):
        return
    defined = {node.name: node for node in tree.body if hasattr(node, "name")}
    waiting = [attention.__name__]
    while waiting:
        definition: Any = defined.pop(waiting.pop(), None)
        nodes: Iterator[Any] = ast.walk(definition) if definition else iter(())
        for node in nodes:
            better = _better(node, code)
            if better:
                yield f"line {node.lineno}: {better} in place of {ast.unparse(node)}"
            waiting += [node.id] if isinstance(node, ast.Name) else []


def _better(node: Any, code: str) -> str:
    """Return what should stand in the place of a node; the empty string if nothing is known."""
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    on, name = ast.unparse(call.func.value), call.func.attr
    if code == "mask-ignored" and call is not node and name == "masked_fill":
        return f"{on} = {ast.unparse(call)}"
    if code in SQUEEZES and name == "squeeze" and not call.args and not call.keywords:
        return f"{on}.squeeze(1)"
    is_fill = code in FILLS and name.startswith("masked_fill") and len(call.args) == 2
    if is_fill and ast.unparse(call.args[1]).lstrip("-")[:1].isdigit():
        return f"{on}.{name}({ast.unparse(call.args[0])}, -torch.inf)"
    return ""
