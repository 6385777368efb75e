"""The recurrence in C as a differentiable function of tensors. Its arguments were checked by `recurrence`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import Kernels, Tensors


def gru(
    kernels: Kernels, tokens: Tensor, lengths: Tensor | None, weights: Tensors, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs (B, L, D) and each row's last one (B, D), which a row that has ended keeps.

    tokens (B, L); lengths (B,) from 1 to L, the longest first, None: all L; weights: embedding (V, E), weight_ih (3D, E),
    weight_hh (3D, D), bias_ih and bias_hh (3D,); state (B, D).
    """
    return Recurrence.apply(kernels, tokens, lengths, *weights, state, *[None] * 6)  # type: ignore[no-any-return,no-untyped-call]


def attentive_gru(
    kernels: Kernels, tokens: Tensor, lengths: Tensor | None, weights: Tensors, state: Tensor, score: Any, memory: Any
) -> tuple[Tensor, Tensor]:
    """Outputs beside contexts (B, L, D + Dv), and attention weights (B, L, S); weight_ih is (3D, E + Dv)."""
    additive = (score.query_map.weight, score.v.weight.squeeze(0)) if score.kernel == "additive" else (None, None)
    attended = (memory.keys, memory.values, memory.valid, memory.scale, *additive)
    return Recurrence.apply(kernels, tokens, lengths, *weights, state, *attended)  # type: ignore[no-any-return,no-untyped-call]


# Of the inputs that have gradients: embedding weight_ih weight_hh bias_ih bias_hh initial keys values query_weight v
_PLACES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 13)


class Recurrence(torch.autograd.Function):
    """Inputs in the order of binding.py -> outputs beside contexts (B, L, D + Dv), and attention weights (B, L, S).

    Without attention, in the place of the weights: the output at each row's end (B, D). A row that has ended keeps its last
    output and context, so that this is the one in the last column.
    """

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *inputs: Any) -> tuple[Tensor, Tensor]:
        inputs = tuple(one if one is None else one.contiguous() for one in inputs)
        tokens, _, _, _, weight_hh, _, _, _, keys, values, _, _, _, v = inputs
        (rows, steps), (_, width) = tokens.shape, weight_hh.shape
        gates = weight_hh.new_empty(rows * steps, 4 * width)
        weights = queries = None
        if keys is None:
            states = weight_hh.new_empty(rows, steps, width)
        else:
            states = weight_hh.new_empty(rows, steps, width + values.size(2))
            weights = weight_hh.new_zeros(rows, steps, keys.size(1))
            queries = None if v is None else weight_hh.new_empty(rows * steps, v.numel())
        results = (gates, states, weights, queries)
        kernels.forward(inputs, results)
        ctx.kernels = kernels
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)
        return states, states[:, -1].clone() if weights is None else weights

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor | None, grad_other: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; unlike once_differentiable this cannot be missed
            raise RuntimeError(
                "gradients of the compiled recurrence have no gradients; set SEQ2ATTN_KERNELS=off for them"
            )
        saved = ctx.saved_tensors
        inputs, results = saved[:14], saved[14:]
        states, weights = results[1], results[2]
        grads = (
            torch.zeros_like(states)
            if grad_states is None
            else grad_states.clone(memory_format=torch.contiguous_format)
        )
        grad_weights = None
        if weights is None and grad_other is not None:
            grads[:, -1] += grad_other
        elif grad_other is not None:
            grad_weights = grad_other.contiguous()
        keys, values = inputs[8:10]
        shared = (
            keys is not None and keys.shape == values.shape and keys.data_ptr() == values.data_ptr()
        )  # one gradient
        wanted = [
            place
            for place in _PLACES
            if inputs[place] is not None and (place != 7 or ctx.needs_input_grad[8]) and not (place == 9 and shared)
        ]
        likes = [inputs[place] for place in wanted]
        buffer = states.new_zeros(sum(like.numel() for like in likes))  # one: an allocation each would cost more
        gradients: list[Tensor | None] = [None] * 14
        for place, part in zip(wanted, torch._C._nn.unflatten_dense_tensors(buffer, likes), strict=True):
            gradients[place] = part
        written = [gradients[8 if place == 9 and shared else place] for place in _PLACES]
        ctx.kernels.backward(inputs, results, (grads, grad_weights, *written))
        return None, *gradients
