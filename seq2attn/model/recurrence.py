"""The GRU recurrence over tokens, as one differentiable function.

A GRU step of this size costs a processor more in bookkeeping than in arithmetic, so what does not depend on the recurrence
is taken out of the loop: the input tokens' share of the gates (`gates`), and padding takes no part (`Packing`). The backward
pass is written by hand: its loop runs over the state's gradient alone, and each weight's gradient is one product over all
steps. With attention: `attentive_recurrence`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.gates import activate, gate_factors, token_gates, token_gates_backward
from seq2attn.model.packing import Packing


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
        return GRUWeights(embedding.weight, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)


def gru_recurrence(tokens: Tensor, weights: GRUWeights, state: Tensor, packing: Packing) -> Tensor:
    """All states (N, D) of a GRU that reads tokens (B, L); state (B, D): the first."""
    states: Tensor = _Recurrence.apply(packing.pack(tokens), *weights, state, packing, False)[0]  # type: ignore[no-untyped-call]
    return states


def read_to_the_end(tokens: Tensor, weights: GRUWeights, packing: Packing) -> tuple[Tensor, Tensor]:
    """The same from a state of zeros, unpacked: states (B, L, D), and each row's last one (B, D).

    Past a row's end stands its last state; gradients do not pass there.
    """
    state = weights.weight_hh.new_zeros(len(tokens), weights.weight_hh.size(1))
    read: tuple[Tensor, Tensor] = _Recurrence.apply(packing.pack(tokens), *weights, state, packing, True)  # type: ignore[no-untyped-call]
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
        hold: bool,
    ) -> tuple[Tensor, Tensor | None]:
        width = state.size(1)
        weight_ih = weight_ih.roll(width, 0)  # n, r, z
        gates = token_gates(tokens, embedding, weight_ih, bias_ih, bias_hh)  # (N, 4D)
        all_states = gates.new_empty(len(state) + len(gates), width)  # the first, then those of all steps
        all_states[: len(state)] = state
        states, before, weight_hh_t = all_states[len(state) :], state, weight_hh.t()
        for size, rzh, rz, n, r, z, h, after in by_step(
            packing.sizes,
            gates[:, width:],
            gates[:, width : 3 * width],
            *gates.chunk(4, dim=1),
            states,
        ):
            if size < len(before):
                before = before[:size]
            rzh.addmm_(before, weight_hh_t)
            activate(n, rz, r, h)
            before = torch.lerp(n, before, z, out=after)
        ctx.packing, ctx.hold = packing, hold
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(tokens, embedding, weight_ih, weight_hh, gates, all_states)
        if not hold:
            return states, None
        held = states.index_select(0, packing.held).view(len(state), packing.steps, width)
        return held, held[:, -1].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, embedding, weight_ih, weight_hh, gates, all_states = ctx.saved_tensors
        packing: Packing = ctx.packing
        count, width = len(gates), all_states.size(1)
        # (N, D), to which each step adds what goes through its state
        if grad_states is None:
            grads = gates.new_zeros(count, width)
        else:
            grads = packing.pack(grad_states) if ctx.hold else grad_states.clone()
        if grad_last is not None:
            grads.index_add_(0, packing.last, grad_last)
        before = all_states.index_select(0, packing.previous)  # (N, D)
        factors = gate_factors(before, gates)
        gradients = torch.empty_like(factors)  # (N, 4, D): the state's gradient times the factors
        flat = gradients.view(count, 4 * width)
        grad_state = gates.new_zeros(packing.rows, width)
        steps = by_step(packing.sizes, grads, factors, gradients, gates[:, 2 * width : 3 * width], flat[:, width:])
        earlier = [grad_state, *(step[1] for step in steps[:-1])]
        for passed, (size, grad, factor, gradient, z, into_rzh) in zip(reversed(earlier), reversed(steps), strict=True):
            torch.mul(grad.unsqueeze(1), factor, out=gradient)
            if size < len(passed):
                passed = passed[:size]
            passed.addcmul_(grad, z).addmm_(into_rzh, weight_hh)
        grad_embedding, grad_weight_ih, *grad_biases = token_gates_backward(flat, tokens, embedding, weight_ih)
        grad_weight_hh = flat[:, width:].t() @ before
        return None, grad_embedding, grad_weight_ih.roll(-width, 0), grad_weight_hh, *grad_biases, grad_state, None, None


def by_step(sizes: list[int], *packed: Tensor) -> list[tuple[Any, ...]]:
    """For each step its size and its rows of each tensor (N, ...), as views.

    Made all at once: made one by one, views would cost more than what is done with them.
    """
    return list(zip(sizes, *(torch.split(tensor, sizes) for tensor in packed), strict=True))
