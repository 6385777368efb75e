"""The GRU recurrence whose input also holds the context that its last state attends to, as one differentiable function.

As `recurrence`, and with attention in its loops: scores are asked for step by step (`StepwiseScore`), and what of their
gradients does not depend on the recurrence is left to the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.masks import additive_mask
from seq2attn.model.attention import Memory
from seq2attn.model.gates import activate, gate_factors, token_gates, token_gates_backward
from seq2attn.model.packing import Packing
from seq2attn.model.recurrence import GRUWeights, by_step
from seq2attn.scores import Score


def attentive_gru_recurrence(
    tokens: Tensor, weights: GRUWeights, state: Tensor, packing: Packing, score: Score, memory: Memory
) -> tuple[Tensor, Tensor]:
    """All [s_t; c_t] (N, D + Dv) of a GRU that reads tokens (B, L) and contexts, and its weights (B, L, S).

    state (B, D): the first; weights.weight_ih (3D, E + Dv).
    """
    results: tuple[Tensor, Tensor] = _AttentiveRecurrence.apply(  # type: ignore[no-untyped-call]
        packing.pack(tokens),
        *weights,
        state,
        packing,
        score,
        memory.keys,
        memory.values,
        memory.valid,
        memory.scale,
        *score.parameters(),
    )
    return results


class _AttentiveRecurrence(torch.autograd.Function):
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
        score: Score,
        keys: Tensor,
        values: Tensor,
        valid: Tensor | None,
        scale: Tensor | None,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        rows, width = state.shape
        weight_ih = weight_ih.roll(width, 0)  # n, r, z
        token_weight, context_weight = weight_ih.split_with_sizes([embedding.size(1), values.size(2)], 1)
        gates = token_gates(tokens, embedding, token_weight, bias_ih, bias_hh)  # (N, 4D)
        all_states = gates.new_empty(rows + len(gates), width)  # the first, then those of all steps
        all_states[:rows] = state
        states, before, weight_hh_t = all_states[rows:], state, weight_hh.t()
        contexts = gates.new_empty(len(gates), 1, values.size(2))
        weights = gates.new_zeros(packing.steps, rows, 1, values.size(1))
        context_weight_t = context_weight.t().clone()  # (Dv, 3D)
        context_weight_t[:, :width] *= 2  # gates hold 2n
        mask = None if valid is None else additive_mask(valid, gates.dtype)
        stepwise = score.stepwise(keys)
        for attention, (size, nrz, rzh, rz, n, r, z, h, after, context) in zip(
            weights,
            by_step(
                packing.sizes,
                gates[:, : 3 * width],
                gates[:, width:],
                gates[:, width : 3 * width],
                *gates.chunk(4, dim=1),
                states,
                contexts,
            ),
            strict=True,
        ):
            if size < len(before):
                before = before[:size]
            scores = stepwise.scores(before.unsqueeze(1))  # (b, 1, S)
            if scale is not None:
                scores *= scale[:size]
            if mask is not None:
                scores += mask[:size]
            weight = torch.softmax(scores, dim=2, out=attention[:size])
            torch.bmm(weight, values[:size], out=context)  # (b, 1, Dv)
            nrz.addmm_(context.squeeze(1), context_weight_t)
            rzh.addmm_(before, weight_hh_t)
            activate(n, rz, r, h)
            before = torch.lerp(n, before, z, out=after)
        ctx.packing, ctx.score, ctx.scale = packing, score, scale
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            tokens, embedding, weight_ih, weight_hh, gates, all_states, contexts, weights, keys, values
        )
        return torch.cat([states, contexts.squeeze(1)], dim=1), weights.squeeze(2).transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_features: Tensor | None, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, embedding, weight_ih, weight_hh, gates, all_states, contexts, weights, keys, values = ctx.saved_tensors
        packing: Packing = ctx.packing
        count, width = len(gates), all_states.size(1)
        token_weight, context_weight = weight_ih.split_with_sizes([embedding.size(1), values.size(2)], 1)
        # (N, D + Dv), to which each step adds what goes through its state and its context
        if grad_features is None:
            grads = gates.new_zeros(count, width + values.size(2))
        else:
            grads = grad_features.clone()
        grad_states, grad_contexts = grads[:, :width], grads[:, width:]
        before = all_states.index_select(0, packing.previous)  # (N, D)
        factors = gate_factors(before, gates)
        gradients = torch.empty_like(factors)  # (N, 4, D): the state's gradient times the factors
        flat = gradients.view(count, 4 * width)
        grad_state = gates.new_zeros(packing.rows, width)
        grad_scores = torch.zeros_like(weights)  # (L, B, 1, S)
        stepwise, values_t = ctx.score.stepwise(keys), values.mT  # (B, Dv, S)
        steps = by_step(
            packing.sizes,
            grad_states,
            factors,
            gradients,
            gates[:, 2 * width : 3 * width],
            flat[:, : 3 * width],
            flat[:, width:],
            grad_contexts,
            before.unsqueeze(1),
        )
        earlier = [grad_state, *(step[1] for step in steps[:-1])]
        for index in reversed(range(len(steps))):
            size, grad, factor, gradient, z, into_nrz, into_rzh, grad_context, query = steps[index]
            torch.mul(grad.unsqueeze(1), factor, out=gradient)
            passed = earlier[index] if size == len(earlier[index]) else earlier[index][:size]
            passed.addcmul_(grad, z).addmm_(into_rzh, weight_hh)
            grad_context.addmm_(into_nrz, context_weight)
            grad_weight = torch.bmm(grad_context.unsqueeze(1), values_t[:size])  # (b, 1, S)
            if grad_weights is not None:
                grad_weight += grad_weights[:size, index].unsqueeze(1)
            into_scores = grad_scores[index, :size]
            torch._softmax_backward_data(grad_weight, weights[index, :size], 2, gates.dtype, grad_input=into_scores)
            if ctx.scale is not None:
                into_scores *= ctx.scale[:size]
            passed += stepwise.grad_query(query, into_scores).squeeze(1)
        grad_embedding, grad_token_weight, *grad_biases = token_gates_backward(flat, tokens, embedding, token_weight)
        grad_context_weight = flat[:, : 3 * width].t() @ contexts.squeeze(1)
        grad_weight_ih = torch.cat([grad_token_weight, grad_context_weight], dim=1).roll(-width, 0)
        grad_weight_hh = flat[:, width:].t() @ before
        # (B, S, L) x (B, L, Dv): each value's gradient, over all steps at once
        grad_values = weights.squeeze(2).permute(1, 2, 0) @ packing.unpack(grad_contexts)
        from_score = stepwise.finish(packing.unpack(before), grad_scores.squeeze(2).transpose(0, 1))
        of_the_gru = (None, grad_embedding, grad_weight_ih, grad_weight_hh, *grad_biases, grad_state)
        grad_keys, *grad_parameters = from_score
        return *of_the_gru, None, None, grad_keys, grad_values, None, None, *grad_parameters
