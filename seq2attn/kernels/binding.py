"""The functions of the compiled library, called with tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

# The fields of `Recurrence` in recurrence.c, where each is described, in its order: eight sizes,
#   steps rows width vocabulary embedding_width key_count key_width context_width
# and pointers to the inputs, results and gradients, then to the workspace, then four that the C sets itself:
#   tokens lengths embedding weight_ih weight_hh bias_ih bias_hh initial keys values valid scale query_weight v
#   gates states weights queries
#   grad_states grad_weights grad_embedding grad_weight_ih grad_weight_hh grad_bias_ih grad_bias_hh grad_initial
#   grad_keys grad_values grad_query_weight grad_v
_WORKSPACE = 8 + 14 + 4 + 12
_Recurrence = ctypes.c_int64 * (_WORKSPACE + 1 + 4)  # each field has 8 bytes
_TYPES = {torch.float32: "float", torch.float64: "double"}
Tensors = Sequence[Any]  # each a Tensor or None


class Kernels:
    """The recurrence on a CPU, for tensors of one dtype and one kind of processor.

    Tensors stand in the order above, None for those that are not needed. Only the tokens are checked: shapes and dtypes
    must fit, and tensors must be contiguous.
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

    def forward(self, inputs: Tensors, results: Tensors) -> None:
        """All steps, first to last. IndexError: a token is not in the vocabulary."""
        if not self._call(self._forward, inputs, results):
            raise IndexError("a token is not in the vocabulary")

    def backward(self, inputs: Tensors, results: Tensors, gradients: Tensors) -> None:
        """All steps' gradients, last to first, and the weights'."""
        self._call(self._backward, inputs, results, gradients)

    def _call(self, function: Any, inputs: Tensors, results: Tensors, gradients: Tensors = ()) -> int:
        tokens, embedding, weight_hh, keys, values = (inputs[place] for place in (0, 2, 4, 8, 9))
        (rows, steps), attention = tokens.shape, (0, 0, 0)
        if keys is not None:
            attention = (keys.size(1), keys.size(2), values.size(2))
        sizes = (steps, rows, weight_hh.size(1), *embedding.shape, *attention)
        pointers = [0 if one is None else one.data_ptr() for one in (*inputs, *results, *gradients)]
        recurrence = _Recurrence(*sizes, *pointers)
        workspace = weight_hh.new_empty(self._workspace_size(recurrence))
        recurrence[_WORKSPACE] = workspace.data_ptr()
        result: int = function(recurrence)
        return result
