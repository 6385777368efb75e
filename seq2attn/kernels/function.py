"""The recurrence in C as a differentiable function of tensors. Its arguments were checked by `recurrence`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import FIXED, LEARNED, Kernels


def gru(kernels: Kernels, inputs: Mapping[str, Tensor | None]) -> tuple[Tensor, Tensor]:
    """Outputs (B, L, D) and each row's last one (B, D), which a row that has ended keeps.

    With attention: outputs beside contexts (B, L, D + Dc), with `combine` attentional vectors (B, L, D); and attention
    weights (B, L, S).
    inputs: by the names in binding.py, with the shapes in recurrence.c; those that are not needed may be missing.
    """
    results: tuple[Tensor, Tensor] = Recurrence.apply(kernels, *map(inputs.get, (*FIXED, *LEARNED)))  # type: ignore[no-untyped-call]
    return results


class Recurrence(torch.autograd.Function):
    """Inputs in the order of binding.py -> what `gru` returns.

    A row that has ended keeps its last output and context, so that the output at its end is the one in the last column.
    """

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *inputs: Any) -> tuple[Tensor, Tensor]:
        inputs = tuple(one if one is None else one.contiguous() for one in inputs)
        of = dict(zip((*FIXED, *LEARNED), inputs, strict=True))
        like, keys, v, past, combine = (of[name] for name in ("weight_hh", "keys", "v", "past_weight", "combine"))
        (rows, steps), (vocabulary, embedded), width = of["tokens"].shape, of["embedding"].shape, like.size(1)
        fed = context = of["weight_ih"].size(1) - embedded
        attention, taps, vectors, weights, queries, pasts = (0, 0, 0), (0, 0), None, None, None, None
        if combine is not None:
            context = combine.size(1) - width
            vectors = like.new_zeros(rows, steps, width)
        if keys is not None:
            attention = (*keys.shape[1:], of["values"].size(2))
            weights = like.new_zeros(rows, steps, keys.size(1))
        if v is not None:
            queries = like.new_empty(rows * steps, v.numel())
        if past is not None:
            taps = past.shape[:2]
            pasts = like.new_zeros(rows * steps, 2, past.size(1) - 1 + keys.size(1))
        states = like.new_empty(rows, steps, width + context)
        gates, before = like.new_empty(rows * steps, 4 * width), like.new_empty(rows * steps, width)
        results = (gates, before, states, vectors, weights, queries, pasts)
        sizes = (steps, rows, width, vocabulary, embedded, fed, *attention, context, *taps)
        kernels.forward(sizes, inputs, results)
        ctx.kernels, ctx.sizes = kernels, sizes
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)
        return states if vectors is None else vectors, states[:, -1].clone() if weights is None else weights

    @staticmethod
    def backward(ctx: Any, grad_features: Tensor | None, grad_other: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(FIXED) + len(LEARNED)
        saved = ctx.saved_tensors
        inputs, results = saved[:count], saved[count:]
        of = dict(zip(LEARNED, inputs[len(FIXED) :], strict=True))
        _, _, states, vectors, *_ = results
        features = states if vectors is None else vectors
        grads = (
            torch.zeros_like(features)
            if grad_features is None
            else grad_features.clone(memory_format=torch.contiguous_format)
        )
        grad_weights = None
        if of["keys"] is not None and grad_other is not None:
            grad_weights = grad_other.contiguous()
        elif grad_other is not None:
            grads[:, -1] += grad_other
        wanted = [
            name
            for name, needed in zip(LEARNED, ctx.needs_input_grad[1 + len(FIXED) :], strict=True)
            if of[name] is not None and (name != "initial" or needed)
        ]
        likes = [of[name] for name in wanted]
        buffer = states.new_zeros(sum(like.numel() for like in likes))  # one: an allocation each would cost more
        parts = torch._C._nn.unflatten_dense_tensors(buffer, likes)
        gradients: dict[str, Tensor] = dict(zip(wanted, parts, strict=True))
        own = (grads, None) if vectors is None else (torch.zeros_like(states), grads)
        ctx.kernels.backward(ctx.sizes, inputs, results, (*own, grad_weights, *map(gradients.get, LEARNED)))
        return None, *[None] * len(FIXED), *map(gradients.get, LEARNED)
