"""The recurrences of training in C, compiled when they are first wanted.

The same is said in PyTorch (`seq2attn/model/recurrence.py`, `attentive_recurrence.py`), which is what runs on a GPU, where
there is no C compiler, for scores that the C does not know, and wherever no gradient is asked for.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from pathlib import Path

    from seq2attn.kernels.binding import Kernels

SWITCH = "SEQ2ATTN_KERNELS"  # environment variable: `on`, the default, or `off`, PyTorch alone
LARGE = 2**22  # B x D^2
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
    found = _found(state.dtype)
    return found[0] if isinstance(found, tuple) else None


def describe_kernels(device: torch.device) -> str:
    """Which compiled recurrences are at hand, by what they were made from, or why there are none."""
    if device.type != "cpu":
        return f"none for {device.type}"
    found = _found(torch.float32)
    return found if isinstance(found, str) else f"compiled, {found[1].stem}"


def why_slow(device: torch.device) -> str | None:
    """A sentence where training could be faster than it will be."""
    found = None if device.type != "cpu" or _switch() == "off" else _found(torch.float32)
    return f"{found}; training takes longer than it would compiled" if isinstance(found, str) else None


def _switch() -> str:
    said = os.environ.get(SWITCH) or "on"
    if said not in ("on", "off"):
        raise Seq2AttnError(f"{SWITCH}: unknown value {said!r}; allowed: on, off")
    return said


def _found(dtype: torch.dtype) -> tuple[Kernels, Path] | str:
    return _loaded(dtype, _switch(), os.environ.get("CC") or "cc")


@cache
def _loaded(dtype: torch.dtype, switch: str, compiler: str) -> tuple[Kernels, Path] | str:
    """The kernels and their library, or why there are none."""
    if switch == "off":
        return f"{SWITCH} is off"
    from seq2attn.kernels.binding import Kernels
    from seq2attn.kernels.compiler import NoKernels, shared_library

    try:
        library = shared_library(_TYPES[dtype], compiler)
    except NoKernels as error:
        return str(error)
    try:
        return Kernels(library), library
    except (OSError, AttributeError) as error:
        return f"what the C compiler ({compiler}) made cannot be loaded: {error}"
