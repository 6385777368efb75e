"""The functions of the compiled library, called with tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

# The fields of `Recurrence` in recurrence.c, where each is described, in its order: sizes,
#   steps rows width vocabulary embedding_width fed_width key_count key_width value_width context_width channels taps
SIZES = 12
# pointers to the inputs, of which the first have no gradients,
FIXED = ("tokens", "lengths", "kept", "noise", "valid", "scale")
LEARNED = (
    *("embedding", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "initial", "keys", "values", "query_weight", "v"),
    *("past_weight", "power", "combine"),
)
# to the results, and to the gradients of three of these and of what is learned,
RESULTS = ("gates", "before", "states", "vectors", "weights", "queries", "pasts")
_POINTERS = len(FIXED) + len(LEARNED) + len(RESULTS) + 3 + len(LEARNED)
# to the workspace, and four that the C sets itself.
_Recurrence = ctypes.c_int64 * (SIZES + _POINTERS + 1 + 4)  # each field has 8 bytes
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
        self._dtype = dtype
        suffix = f"_{_TYPES[dtype]}_{variant}"
        self._forward, self._backward, self._workspace_size, size = (
            getattr(library, name + suffix) for name in ("forward", "backward", "workspace_size", "recurrence_size")
        )
        self._backward.restype, self._workspace_size.restype = None, ctypes.c_int64
        size.restype = ctypes.c_int64
        if size() != ctypes.sizeof(_Recurrence):
            raise OSError(f"its structure has {size()} bytes, binding.py's {ctypes.sizeof(_Recurrence)}")

    def forward(self, sizes: Sequence[int], inputs: Tensors, results: Tensors) -> None:
        """All steps, first to last. IndexError: a token is not in the vocabulary."""
        if not self._call(self._forward, sizes, (*inputs, *results)):
            raise IndexError("a token is not in the vocabulary")

    def backward(self, sizes: Sequence[int], inputs: Tensors, results: Tensors, gradients: Tensors) -> None:
        """All steps' gradients, last to first, and the weights'."""
        self._call(self._backward, sizes, (*inputs, *results, *gradients))

    def _call(self, function: Any, sizes: Sequence[int], tensors: Tensors) -> int:
        pointers = [0 if one is None else one.data_ptr() for one in tensors]
        recurrence = _Recurrence(*sizes, *pointers)
        workspace = torch.empty(self._workspace_size(recurrence), dtype=self._dtype)
        recurrence[SIZES + _POINTERS] = workspace.data_ptr()
        result: int = function(recurrence)
        return result
