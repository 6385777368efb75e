"""The GRU recurrence over tokens, as one differentiable function.

A GRU step of this size costs a processor more in bookkeeping than in arithmetic, and memory that was not just touched costs
as much again. So what does not depend on the recurrence is taken out of the loop (`token_gates`), padding takes no part
(`Packing`), and results are written where they are wanted. The backward pass is written by hand: its loop goes through the
states' gradients alone, and each weight's gradient is one product over all steps. With attention: `attentive_recurrence`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.kernels import kernels_for
from seq2attn.kernels.packing import Packing
from seq2attn.model.gates import by_step, token_gates, token_gates_backward


class GRUWeights(NamedTuple):
    """What a GRU and the embedding before it have learned, under torch's names."""

    embedding: Tensor
    """(V, E)"""
    weight_ih: Tensor
    """(3D, E), or wider where more than the token is read"""
    weight_hh: Tensor
    """(3D, D)"""
    bias_ih: Tensor
    """(3D,)"""
    bias_hh: Tensor
    """(3D,)"""

    @staticmethod
    def of(embedding: nn.Embedding, gru: nn.GRU) -> GRUWeights:
        """Those of a GRU of one layer."""
        return GRUWeights(embedding.weight, *gru.all_weights[0])


def gru_recurrence(tokens: Tensor, weights: GRUWeights, state: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """States (B, L, D) of a GRU that reads tokens (B, L), and each row's last one (B, D); state (B, D): the first.

    At positions that take no part stands the row's last state; gradients do not pass there.
    """
    kernels = kernels_for(state)
    if kernels is not None:
        from seq2attn.kernels.function import compiled_gru

        return compiled_gru(kernels, tokens, weights, state, packing)
    read: tuple[Tensor, Tensor] = _Recurrence.apply(packing.pack(tokens), *weights, state, packing)  # type: ignore[no-untyped-call]
    return read


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        embedding: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        state: Tensor,
        packing: Packing,
    ) -> tuple[Tensor, Tensor]:
        (rows, width), sizes = state.shape, packing.sizes
        weight_ih = weight_ih.roll(width, 0)  # n, r, z
        all_gates = token_gates(tokens, embedding, weight_ih, bias_ih, bias_hh)  # (N, 4D)
        states = state.new_empty(rows, packing.steps, width)
        previous, weight_hh_t = state, weight_hh.t()
        said = ctx.said = bool(state.any())  # a state of zeros says nothing
        for size, gates, following in zip(sizes, by_step(all_gates, sizes), states.unbind(1), strict=True):
            before, after = previous, following  # (B, D)
            if size < rows:
                following[size:] = previous[size:]
                before, after = previous[:size], following[:size]
            if said:
                gates.said.addmm_(before, weight_hh_t)
            gates.activate()
            torch.lerp(gates.n, before, gates.z, out=after)
            previous, said = following, True
        ctx.packing = packing
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(tokens, embedding, weight_ih, weight_hh, all_gates, state, states)
        return states, previous.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, embedding, weight_ih, weight_hh, all_gates, state, states = ctx.saved_tensors
        packing: Packing = ctx.packing
        sizes, width = packing.sizes, state.size(1)
        # (B, L, D), to which each step adds what goes through its state
        grads = torch.zeros_like(states) if grad_states is None else grad_states.clone()
        if grad_last is not None:
            grads[packing.last] += grad_last
        grad_state = torch.zeros_like(state) if ctx.needs_input_grad[6] else None
        befores = [before[:size] for before, size in zip((state, *states.unbind(1)), sizes, strict=False)]
        gradients = torch.empty_like(all_gates)  # (N, 4D)
        columns = grads.unbind(1)  # (B, D) each
        steps = zip(
            befores,
            by_step(all_gates, sizes),
            by_step(gradients, sizes),
            (grad_state, *columns[:-1]),
            columns,
            strict=True,
        )
        for before, gates, into, passed, column in reversed(list(steps)):
            grad = column[: before.size(0)]
            gates.backward(grad, before, into)
            if passed is not None:
                passed[: before.size(0)].addcmul_(grad, gates.z).addmm_(into.said, weight_hh)
        grad_embedding, grad_weight_ih, *grad_biases = token_gates_backward(gradients, tokens, embedding, weight_ih)
        grad_weight_hh = weight_gradient(gradients[:, width:], befores, ctx.said)
        of_the_inputs = (None, grad_embedding, grad_weight_ih.roll(-width, 0), grad_weight_hh, *grad_biases)
        return *of_the_inputs, grad_state, None


def weight_gradient(gradients: Tensor, befores: list[Tensor], said: bool) -> Tensor:
    """Of W_h: gradients (N, 3D) of what the states (b, D) before each step said -> (3D, D).

    said: whether the first of them said something, or was zeros.
    """
    if not said:
        gradients, befores = gradients[befores[0].size(0) :], befores[1:] or [befores[0][:0]]
    return gradients.t() @ torch.cat(befores)
