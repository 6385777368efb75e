"""Notices what other people's code puts in the place of what examines it."""

import builtins
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

OUTER = (builtins, torch, nn.functional, torch.Tensor, nn.Module)
"""what the doctor computes with"""


def bind() -> dict[str, Any]:
    """Return what the names of the doctor and of what it computes with mean now."""
    bound = {}
    for space in _spaces():
        for name, value in _held(space):
            code = getattr(value, "__code__", None)
            bound[f"{space.__name__}.{name}"] = value, code
    return bound


def replaced(bound: dict[str, Any]) -> list[str]:
    """Return the names that mean something else than when `bind` returned this."""
    now = bind()
    changed = []
    for name, (value, code) in bound.items():
        other, other_code = now.get(name, (None, None))
        if other is not value or other_code is not code:
            changed.append(name)
    return changed


def _spaces() -> Iterator[Any]:
    yield from OUTER
    for name, module in sys.modules.copy().items():
        if name.startswith(("seq2attn.doctor.", "seq2attn.findings.")):
            yield module
            for value in vars(module).copy().values():
                if isinstance(value, type) and value.__module__ == name:
                    yield value


def _held(space: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values: of a class its base classes' too, of torch the functions alone."""
    if isinstance(space, type):
        for name in dir(space):
            yield name, inspect.getattr_static(space, name)
        return
    is_own = space not in OUTER
    for name, value in vars(space).items():
        if is_own or callable(value):
            yield name, value
