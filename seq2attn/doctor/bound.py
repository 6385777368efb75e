"""Notices what other people's code puts in the place of what examines it."""

import builtins
import inspect
import sys
from typing import Any

import torch
from torch import nn

OUTER = (builtins, torch, nn.functional)
"""modules whose functions the doctor computes with"""
CLASSES = (torch.Tensor, nn.Module)
"""classes of torch whose methods the doctor calls"""
OWN = ("seq2attn.doctor.", "seq2attn.findings.")
"""how the names of the doctor's own modules begin"""


def bind() -> dict[str, Any]:
    """Return the objects that names of the doctor, and of what it computes with, refer to now, by
    name: values in modules ("torch.exp"), the code of functions ("torch.exp, its code"), and
    attributes of classes ("Tensor.add").

    The names are bound once before and once after a file of a user runs: a file that patches one of
    these functions could make its own attention look right.
    """
    bound: dict[str, Any] = {}
    classes = [*CLASSES]
    # a copy: to look at a value may import a module, which changes `sys.modules`
    for module_name, module in sys.modules.copy().items():
        is_outer = module in OUTER
        if not is_outer and not module_name.startswith(OWN):
            continue
        for name, value in vars(module).items():
            # what cannot be called in torch is a setting, which a file may change
            if callable(value) or not is_outer:
                bound[f"{module_name}.{name}"] = value
            # a function whose code is exchanged stays the same object
            bound[f"{module_name}.{name}, its code"] = getattr(value, "__code__", None)
            if inspect.isclass(value) and str(getattr(value, "__module__", "")).startswith(OWN):
                classes.append(value)
    for cls in classes:
        for name in dir(cls):
            # static: a class method that is got from its class is a new object each time
            bound[f"{cls.__name__}.{name}"] = inspect.getattr_static(cls, name)
    return bound


def replaced(bound: dict[str, Any]) -> list[str]:
    """Return the names that refer to something else now than when `bind` returned `bound`."""
    now = bind()
    return [name for name, value in bound.items() if now.get(name) is not value]
