"""Finds the line that a finding comes from, where it has a known form, and what should be there."""

import ast
import copy
import inspect
import linecache
from collections.abc import Iterator
from typing import Any

SQUEEZES = ("one-row", "batch", "length")
FILLS = ("padding-leak", "overflow")


def corrections(attention: Any, code: str) -> Iterator[str]:
    """Yield lines of the file of an attention that may be its cause, beside what they should be."""
    if not inspect.isclass(attention) and not inspect.isfunction(attention):
        attention = type(attention)
    try:
        tree = ast.parse("".join(linecache.getlines(inspect.getsourcefile(attention) or "")))
    except (TypeError, SyntaxError):
        return
    nodes: Iterator[Any] = ast.walk(tree)
    for node in nodes:
        better = _better(node, code)
        if better and better != ast.unparse(node):
            yield f"line {node.lineno}: {better} in place of {ast.unparse(node)}"


def _better(node: Any, code: str) -> str:
    """Return what should stand in the place of a node; the empty string if nothing is known."""
    call = copy.deepcopy(node.value if isinstance(node, ast.Expr) else node)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    name, is_bare = call.func.attr, not call.args and not call.keywords
    if code == "mask-ignored" and isinstance(node, ast.Expr) and name == "masked_fill":
        return f"{ast.unparse(call.func.value)} = {ast.unparse(call)}"
    if code in SQUEEZES and name == "squeeze" and is_bare:
        call.args = [ast.Name("dim")]
        return f"{ast.unparse(call)}, of the axis of length 1,"
    if code in FILLS and name.startswith("masked_fill") and len(call.args) == 2:
        call.args[1] = ast.Name("-torch.inf")
        return ast.unparse(call)
    return ""
