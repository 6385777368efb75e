"""The recurrences of training in C, compiled when they are first wanted.

The same is said in PyTorch (`seq2attn/model/recurrence.py`, `attentive_recurrence.py`), which is what runs on a GPU, where
there is no C compiler, for scores that the C does not know, and wherever no gradient is asked for.
"""

from __future__ import annotations

import os
from functools import cache

import torch
from torch import Tensor

from seq2attn.kernels.compiler import MISSING, NoKernels, shared_library
from seq2attn.kernels.recurrence import Field, Kernels

SWITCH = "SEQ2ATTN_KERNELS"  # environment variable; `off`: PyTorch alone
LARGE = 2**22  # B x D^2
COMPILED = "compiled"

__all__ = ["COMPILED", "Field", "Kernels", "MISSING", "describe_kernels", "kernels_for"]

_TYPES = {torch.float32: "float", torch.float64: "double"}


def kernels_for(state: Tensor) -> Kernels | None:
    """The compiled recurrences for a first state (B, D) like this one: None where PyTorch's are to be taken.

    Those compiled use one thread. With more, PyTorch's are as fast from B x D^2 = 4 million on.
    """
    rows, width = state.shape
    if state.device.type != "cpu" or state.dtype not in _TYPES or not torch.is_grad_enabled():
        return None
    if rows * width**2 >= LARGE and torch.get_num_threads() > 1:
        return None
    found = _loaded(state.dtype, os.environ.get(SWITCH), os.environ.get("CC"))
    return found if isinstance(found, Kernels) else None


def describe_kernels(device: torch.device) -> str:
    """`COMPILED`, or why they are not."""
    if device.type != "cpu":
        return f"none for {device.type}"
    found = _loaded(torch.float32, os.environ.get(SWITCH), os.environ.get("CC"))
    return COMPILED if isinstance(found, Kernels) else found


@cache
def _loaded(dtype: torch.dtype, switch: str | None, compiler: str | None) -> Kernels | str:
    """The kernels, or why there are none."""
    if switch == "off":
        return f"{SWITCH} is off"
    try:
        library = shared_library(_TYPES[dtype], compiler or "cc")
    except NoKernels as error:
        return str(error)
    try:
        return Kernels(library)
    except (OSError, AttributeError) as error:
        return f"{library} cannot be loaded: {error}"
