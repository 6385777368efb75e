"""The recurrence in C: its functions, called with tensors, and the differentiable function made of
them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

# The fields of `Recurrence` in recurrence.c, where each is described, in its order: sizes, steps
# rows width vocabulary embedding_width fed_width key_count key_width value_width context_width
# channels taps distances
SIZES = 13
# pointers to the inputs, of which the first have no gradients,
FIXED = ("tokens", "lengths", "kept", "noise", "valid", "scale", "returning")
LEARNED = (
    *(
        "embedding",
        "weight_ih",
        "weight_hh",
        "bias_ih",
        "bias_hh",
        "initial",
        "keys",
        "values",
        "query_weight",
        "v",
    ),
    *("past_weight", "power", "moves", "combine"),
)
INPUTS = (*FIXED, *LEARNED)
# to the results, and to the gradients of three of these and of what is learned,
RESULTS = ("gates", "before", "states", "vectors", "weights", "queries", "pasts")
_POINTERS = len(INPUTS) + len(RESULTS) + 3 + len(LEARNED)
# to the workspace, and four that the C sets itself.
_Recurrence = ctypes.c_int64 * (SIZES + _POINTERS + 1 + 4)  # each field has 8 bytes
_TYPES = {torch.float32: "float", torch.float64: "double"}
Tensors = Sequence[Any]  # each a Tensor or None


class Kernels:
    """The recurrence on a CPU, for tensors of one dtype and one kind of processor.

    Tensors stand in the order above, None for those that are not needed. Only the tokens are
    checked: shapes and dtypes must fit, and tensors must be contiguous.
    """

    def __init__(self, library: ctypes.CDLL, dtype: torch.dtype, variant: str) -> None:
        """OSError: the library's `Recurrence` has other fields."""
        self.variant = variant
        self._dtype = dtype
        suffix = f"_{_TYPES[dtype]}_{variant}"
        self._forward, self._backward, self._workspace_size, size = (
            getattr(library, name + suffix)
            for name in ("forward", "backward", "workspace_size", "recurrence_size")
        )
        self._backward.restype, self._workspace_size.restype = None, ctypes.c_int64
        size.restype = ctypes.c_int64
        if size() != ctypes.sizeof(_Recurrence):
            raise OSError(
                f"its structure has {size()} bytes, function.py's {ctypes.sizeof(_Recurrence)}"
            )

    def forward(self, sizes: Sequence[int], inputs: Tensors, results: Tensors) -> None:
        """All steps, first to last. IndexError: a token is not in the vocabulary."""
        if not self._call(self._forward, sizes, (*inputs, *results)):
            raise IndexError("a token is not in the vocabulary")

    def backward(
        self, sizes: Sequence[int], inputs: Tensors, results: Tensors, gradients: Tensors
    ) -> None:
        """All steps' gradients, last to first, and the weights'."""
        self._call(self._backward, sizes, (*inputs, *results, *gradients))

    def _call(self, function: Any, sizes: Sequence[int], tensors: Tensors) -> int:
        pointers = [0 if one is None else one.data_ptr() for one in tensors]
        recurrence = _Recurrence(*sizes, *pointers)
        workspace = torch.empty(self._workspace_size(recurrence), dtype=self._dtype)
        recurrence[SIZES + _POINTERS] = workspace.data_ptr()
        result: int = function(recurrence)
        return result


def gru(kernels: Kernels, inputs: Mapping[str, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """Outputs (B, L, D), and None. A row that has ended keeps its last output.

    With attention: outputs beside contexts (B, L, D + Dc), with `combine` attentional vectors (B,
    L, D); and attention weights (B, L, S). inputs: by the names above, with the shapes in
    recurrence.c; those that are not needed may be missing.
    """
    return Recurrence.apply(kernels, *map(inputs.get, INPUTS))  # type: ignore[no-untyped-call]


class Recurrence(torch.autograd.Function):
    """Inputs in the order above -> what `gru` returns."""

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        inputs = tuple(one if one is None else one.contiguous() for one in inputs)
        of = dict(zip(INPUTS, inputs, strict=True))
        like, keys, v, past, combine = (
            of[name] for name in ("weight_hh", "keys", "v", "past_weight", "combine")
        )
        (rows, steps), (vocabulary, embedded), width = (
            of["tokens"].shape,
            of["embedding"].shape,
            like.size(1),
        )
        fed = context = of["weight_ih"].size(1) - embedded
        attention, taps, vectors, weights, queries, pasts = (
            (0, 0, 0),
            (0, 0, 0),
            None,
            None,
            None,
            None,
        )
        if combine is not None:
            context = combine.size(1) - width
            vectors = like.new_zeros(rows, steps, width)
        if keys is not None:
            attention = (*keys.shape[1:], of["values"].size(2))
            weights = like.new_zeros(rows, steps, keys.size(1))
        if v is not None:
            queries = like.new_empty(rows * steps, v.numel())
        if past is not None:
            taps = (*past.shape[:2], 0 if of["moves"] is None else past.size(2))
            pasts = like.new_zeros(rows * steps, max(taps[0], 2), past.size(1) - 1 + keys.size(1))
        states = like.new_empty(rows, steps, width + context)
        gates, before = like.new_empty(rows * steps, 4 * width), like.new_empty(rows * steps, width)
        results = (gates, before, states, vectors, weights, queries, pasts)
        sizes = (steps, rows, width, vocabulary, embedded, fed, *attention, context, *taps)
        kernels.forward(sizes, inputs, results)
        ctx.kernels, ctx.sizes = kernels, sizes
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)
        return states if vectors is None else vectors, weights

    @staticmethod
    def backward(
        ctx: Any, grad_features: Tensor | None, grad_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        inputs, results = ctx.saved_tensors[: len(INPUTS)], ctx.saved_tensors[len(INPUTS) :]
        of = dict(zip(INPUTS, inputs, strict=True))
        _, _, states, vectors, *_ = results
        features = states if vectors is None else vectors
        grads = (
            torch.zeros_like(features)
            if grad_features is None
            else torch.empty_like(features).copy_(grad_features)
        )
        grad_weights = None if grad_weights is None else grad_weights.contiguous()
        wanted = [
            name
            for name, needed in zip(LEARNED, ctx.needs_input_grad[1 + len(FIXED) :], strict=True)
            if of[name] is not None and (name != "initial" or needed)
        ]
        likes = [of[name] for name in wanted]
        buffer = states.new_zeros(
            sum(like.numel() for like in likes)
        )  # one: an allocation each would cost more
        parts = torch._C._nn.unflatten_dense_tensors(buffer, likes)
        gradients: dict[str, Tensor] = dict(zip(wanted, parts, strict=True))
        own = (grads, None) if vectors is None else (torch.zeros_like(states), grads)
        ctx.kernels.backward(
            ctx.sizes, inputs, results, (*own, grad_weights, *map(gradients.get, LEARNED))
        )
        return None, *[None] * len(FIXED), *map(gradients.get, LEARNED)
