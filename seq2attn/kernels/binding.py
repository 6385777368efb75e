"""The functions of the compiled library, called with tensors."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

Field = Tensor | int | None

# The fields of `Recurrence` in recurrence.c, where each is described, in its order: numbers, and pointers to tensors
_NAMES = """
    steps rows width vocabulary embedding_width sizes offsets tokens
    embedding weight_ih weight_hh bias_ih bias_hh initial workspace gates states state_stride step_stride
    key_count key_width context_width keys values mask scale weights query_weight v queries
    grad_states grad_weights grad_initial grad_embedding grad_weight_ih grad_weight_hh grad_bias_ih grad_bias_hh
    grad_keys grad_values grad_query_weight grad_v
"""
FIELDS = _NAMES.split()
_INDEX = {name: index for index, name in enumerate(FIELDS)}
_Recurrence = ctypes.c_int64 * len(FIELDS)  # each field has 8 bytes
_TYPES = {torch.float32: "float", torch.float64: "double"}


class Kernels:
    """The recurrence on a CPU, for tensors of one dtype and one kind of processor.

    Keyword arguments are the fields of `Recurrence`; a missing one is NULL or 0. Nothing but the tokens is checked: shapes
    and dtypes must fit, and tensors must be contiguous. `workspace` is allocated here.
    """

    def __init__(self, library: ctypes.CDLL, dtype: torch.dtype, variant: str) -> None:
        """OSError: the library's `Recurrence` has other fields."""
        self.variant = variant
        suffix = f"_{_TYPES[dtype]}_{variant}"
        self._forward, self._backward, self._workspace_size, size = (
            getattr(library, name + suffix) for name in ("forward", "backward", "workspace_size", "recurrence_size")
        )
        self._backward.restype, self._workspace_size.restype = None, ctypes.c_int64
        size.restype = ctypes.c_int64
        if size() != ctypes.sizeof(_Recurrence):
            raise OSError(f"its structure has {size()} bytes, binding.py's {ctypes.sizeof(_Recurrence)}")

    def forward(self, **fields: Field) -> None:
        """All steps, first to last. IndexError: a token is not in the vocabulary."""
        if not self._call(self._forward, fields):
            raise IndexError("a token is not in the vocabulary")

    def backward(self, **fields: Field) -> None:
        """All steps' gradients, last to first, and the weights'."""
        self._call(self._backward, fields)

    def _call(self, function: Any, fields: dict[str, Field]) -> int:
        recurrence = _Recurrence()
        for name, field in fields.items():
            if field is not None:
                recurrence[_INDEX[name]] = field if isinstance(field, int) else field.data_ptr()
        gates = fields["gates"]
        assert isinstance(gates, Tensor)
        workspace = gates.new_empty(self._workspace_size(recurrence))
        recurrence[_INDEX["workspace"]] = workspace.data_ptr()
        result: int = function(recurrence)
        return result
