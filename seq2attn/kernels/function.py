"""The recurrence in C as a differentiable function of tensors. Its arguments were checked by `recurrence`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import FIXED, LEARNED, RESULTS, Kernels


def gru(kernels: Kernels, inputs: Mapping[str, Tensor | None]) -> tuple[Tensor, Tensor]:
    """Outputs (B, L, D) and each row's last one (B, D), which a row that has ended keeps.

    inputs: by the names in binding.py, with the shapes in recurrence.c; those that are not needed may be missing.
    """
    found: tuple[Tensor, Tensor] = Recurrence.apply(kernels, *map(inputs.get, (*FIXED, *LEARNED)))  # type: ignore[no-untyped-call]
    return found


def attentive_gru(kernels: Kernels, inputs: Mapping[str, Tensor | None]) -> tuple[Tensor, Tensor]:
    """Outputs beside contexts (B, L, D + Dc), with `combine` attentional vectors (B, L, D); attention weights (B, L, S)."""
    return gru(kernels, inputs)


class Recurrence(torch.autograd.Function):
    """Inputs in the order of binding.py -> what `attentive_gru` returns.

    Without attention, in the place of the weights: the output at each row's end (B, D). A row that has ended keeps its last
    output and context, so that this is the one in the last column.
    """

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *inputs: Any) -> tuple[Tensor, Tensor]:
        inputs = tuple(one if one is None else one.contiguous() for one in inputs)
        of = dict(zip((*FIXED, *LEARNED), inputs, strict=True))
        like, embedding, keys = of["weight_hh"], of["embedding"], of["keys"]
        (rows, steps), (_, width) = of["tokens"].shape, like.shape
        context = 0
        results = dict.fromkeys(RESULTS)
        if keys is not None:
            context = (
                of["weight_ih"].size(1) - embedding.size(1) if of["combine"] is None else of["combine"].size(1) - width
            )
            results["weights"] = like.new_zeros(rows, steps, keys.size(1))
        if of["combine"] is not None:
            results["vectors"] = like.new_zeros(rows, steps, width)
        if of["v"] is not None:
            results["queries"] = like.new_empty(rows * steps, of["v"].numel())
        if of["past_weight"] is not None:
            results["pasts"] = like.new_zeros(rows * steps, 2, of["past_weight"].size(1) - 1 + keys.size(1))
        results["gates"] = like.new_empty(rows * steps, 4 * width)
        results["before"] = like.new_empty(rows * steps, width)
        states = results["states"] = like.new_empty(rows, steps, width + context)
        kernels.forward(inputs, tuple(results.values()))
        ctx.kernels = kernels
        ctx.save_for_backward(*inputs, *results.values())
        ctx.set_materialize_grads(False)
        features = states if results["vectors"] is None else results["vectors"]
        return features, states[:, -1].clone() if results["weights"] is None else results["weights"]

    @staticmethod
    def backward(ctx: Any, grad_features: Tensor | None, grad_other: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; unlike once_differentiable this cannot be missed
            raise RuntimeError(
                "gradients of the compiled recurrence have no gradients; set SEQ2ATTN_KERNELS=off for them"
            )
        count = len(FIXED) + len(LEARNED)
        saved = ctx.saved_tensors
        inputs, results = saved[:count], saved[count:]
        of = dict(zip((*FIXED, *LEARNED, *RESULTS), saved, strict=True))
        states, vectors, keys, values = (of[name] for name in ("states", "vectors", "keys", "values"))
        features = states if vectors is None else vectors
        grads = (
            torch.zeros_like(features)
            if grad_features is None
            else grad_features.clone(memory_format=torch.contiguous_format)
        )
        grad_weights = None
        if keys is not None and grad_other is not None:
            grad_weights = grad_other.contiguous()
        elif grad_other is not None:
            grads[:, -1] += grad_other
        shared = (
            keys is not None and keys.shape == values.shape and keys.data_ptr() == values.data_ptr()
        )  # one gradient
        wanted = [
            name
            for name, needed in zip(LEARNED, ctx.needs_input_grad[1 + len(FIXED) :], strict=True)
            if of[name] is not None and (name != "initial" or needed) and not (name == "values" and shared)
        ]
        likes = [of[name] for name in wanted]
        buffer = states.new_zeros(sum(like.numel() for like in likes))  # one: an allocation each would cost more
        parts = torch._C._nn.unflatten_dense_tensors(buffer, likes)
        gradients: dict[str, Tensor] = dict(zip(wanted, parts, strict=True))
        written = [gradients.get("keys" if name == "values" and shared else name) for name in LEARNED]
        own = (grads, None) if vectors is None else (torch.zeros_like(states), grads)
        ctx.kernels.backward(inputs, results, (*own, grad_weights, *written))
        return None, *[None] * len(FIXED), *map(gradients.get, LEARNED)
