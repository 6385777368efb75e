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
OWN = ("seq2attn.doctor.", "seq2attn.findings.")


def bind() -> dict[str, Any]:
    """Return what the names of the doctor, and of the modules that it computes with, refer to now:
    values in modules, the code of functions, and attributes of classes.

    It is called before and after a file runs: a file that patches one of these functions could
    make its own attention look right.
    """
    bound, classes = {}, [*CLASSES]
    for name, module in sys.modules.copy().items():
        if module in OUTER or name.startswith(OWN):
            for known, value in vars(module).items():
                if module not in OUTER or callable(value):
                    bound[f"{name}.{known}"] = value
                bound[f"{name}.{known}, its code"] = getattr(value, "__code__", None)
                if str(getattr(value, "__module__", "")).startswith(OWN) and inspect.isclass(value):
                    classes.append(value)
    for cls in classes:
        for known in dir(cls):
            bound[f"{cls.__name__}.{known}"] = inspect.getattr_static(cls, known)
    return bound


def replaced(bound: dict[str, Any]) -> list[str]:
    """Return the names that mean something else than when `bind` returned this."""
    now = bind()
    return [name for name, value in bound.items() if now.get(name) is not value]
