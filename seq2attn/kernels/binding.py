"""`recurrence.c` as functions of tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

Field = Tensor | int | None

# `Recurrence` of recurrence.c, where each field is described: numbers, and pointers to a tensor's
_FIELDS = """
    steps: size, rows: size, width: size, vocabulary: size, embedding_width: size, sizes, offsets, tokens,
    embedding, weight_ih, weight_hh, bias_ih, bias_hh, initial, room,
    gates, befores, states, state_stride: size, step_stride: size,
    keys: size, key_width: size, context_width: size, projected, values, mask, scale, weights, query_weight, v, queries,
    grad_states, grad_weights, grad_gates, grad_queries, grad_scores, grad_initial,
    grad_embedding, grad_weight_ih, grad_weight_hh, grad_bias_ih, grad_bias_hh,
    grad_projected, grad_values, grad_query_weight, grad_v
"""


class _Recurrence(ctypes.Structure):
    _fields_ = [
        (field.split(":")[0].strip(), ctypes.c_int64 if ":" in field else ctypes.c_void_p)
        for field in _FIELDS.split(",")
    ]


class Kernels:
    """The functions of a shared library made of `recurrence.c`, for numbers of one dtype on a CPU.

    What they are given are the fields of its `Recurrence` by name: numbers, and tensors without gaps; None is NULL. Nothing
    is checked but the tokens.
    """

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        self._forward, self._backward, self._room = loaded.forward, loaded.backward, loaded.room
        for function in (self._forward, self._backward, self._room):
            function.argtypes, function.restype = [ctypes.POINTER(_Recurrence)], None
        self._forward.restype, self._room.restype = ctypes.c_int, ctypes.c_int64

    def forward(self, **fields: Field) -> None:
        """All steps, first to last. IndexError: a token is not in the vocabulary."""
        if not self._call(self._forward, fields):
            raise IndexError("a token is not in the vocabulary")

    def backward(self, **fields: Field) -> None:
        """All steps' gradients, last to first, and the weights'."""
        self._call(self._backward, fields)

    def _call(self, function: Callable[[_Recurrence], int | None], fields: dict[str, Field]) -> int | None:
        recurrence = _Recurrence(**{name: _number(field) for name, field in fields.items()})
        gates = fields["gates"]
        assert isinstance(gates, Tensor)
        room = gates.new_empty(self._room(recurrence))
        recurrence.room = room.data_ptr()
        return function(recurrence)


def _number(field: Field) -> int | None:
    return field.data_ptr() if isinstance(field, Tensor) else field
