"""The GRU recurrence whose input also holds the context that its last state attends to, as one differentiable function.

As `recurrence`, with attention in its loops: scores are asked for step by step (`StepwiseScore`), and what of their gradients
does not depend on the recurrence is left to the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.masks import additive_mask
from seq2attn.model.attention import Memory
from seq2attn.model.gates import by_step, token_gates, token_gates_backward
from seq2attn.model.packing import Packing
from seq2attn.model.recurrence import GRUWeights, weight_gradient
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
        (rows, width), sizes = state.shape, packing.sizes
        weight_ih = weight_ih.roll(width, 0)  # n, r, z
        token_weight, context_weight = weight_ih.split_with_sizes([embedding.size(1), values.size(2)], 1)
        all_gates = token_gates(tokens, embedding, token_weight, bias_ih, bias_hh)  # (N, 4D)
        features = state.new_empty(len(tokens), width + values.size(2))  # [s; c]
        states = features[:, :width].split_with_sizes(sizes)
        contexts = state.new_empty(len(tokens), 1, values.size(2))
        weights = state.new_zeros(packing.steps, rows, 1, values.size(1))
        context_weight_t = context_weight.t().clone()  # (Dv, 3D)
        context_weight_t[:, :width] *= 2  # gates hold 2n
        mask = None if valid is None else additive_mask(valid, state.dtype)
        stepwise, before, weight_hh_t = score.stepwise(keys), state, weight_hh.t()
        said = ctx.said = bool(state.any())  # a state of zeros says nothing
        steps = zip(sizes, by_step(all_gates, sizes), states, contexts.split_with_sizes(sizes), weights.unbind(0), strict=True)
        for size, gates, after, context, weight in steps:
            if size < rows:
                before = before[:size]
            scores = stepwise.scores(before.unsqueeze(1))  # (b, 1, S)
            if scale is not None:
                scores *= scale[:size]
            if mask is not None:
                scores += mask[:size]
            weight = torch.softmax(scores, dim=2, out=weight[:size])
            torch.bmm(weight, values[:size], out=context)  # (b, 1, Dv)
            gates.read.addmm_(context.squeeze(1), context_weight_t)
            if said:
                gates.said.addmm_(before, weight_hh_t)
            gates.activate()
            said = True
            before = torch.lerp(gates.n, before, gates.z, out=after)
        features[:, width:] = contexts.squeeze(1)
        ctx.packing, ctx.score, ctx.scale = packing, score, scale
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            tokens, embedding, weight_ih, weight_hh, all_gates, state, features, weights, keys, values
        )
        return features, weights.squeeze(2).transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_features: Tensor | None, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, embedding, weight_ih, weight_hh, all_gates, state, features, weights, keys, values = ctx.saved_tensors
        packing: Packing = ctx.packing
        sizes, width = packing.sizes, state.size(1)
        token_weight, context_weight = weight_ih.split_with_sizes([embedding.size(1), values.size(2)], 1)
        # (N, D + Dv), to which each step adds what goes through its state and its context
        grads = torch.zeros_like(features) if grad_features is None else grad_features.clone()
        grad_state = torch.zeros_like(state) if ctx.needs_input_grad[6] else None
        grad_states, grad_contexts = (grads[:, :width].split_with_sizes(sizes), grads[:, width:].split_with_sizes(sizes))
        states = (state, *features[:, :width].split_with_sizes(sizes))
        befores = [before[:size] for before, size in zip(states, sizes, strict=False)]
        gradients = torch.empty_like(all_gates)  # (N, 4D)
        grad_scores = torch.zeros_like(weights)  # (L, B, 1, S)
        stepwise, values_t = ctx.score.stepwise(keys), values.mT  # (B, Dv, S)
        stepwise.begin_backward(befores)
        passing = (grad_state, *grad_states)
        all_weights, into_all_scores = (
            [step[:size] for step, size in zip(tensor.unbind(0), sizes, strict=True)] for tensor in (weights, grad_scores)
        )
        all_steps, all_into = by_step(all_gates, sizes), by_step(gradients, sizes)
        for index in reversed(range(len(sizes))):
            size, grad, before, gates, into = sizes[index], grad_states[index], befores[index], all_steps[index], all_into[index]
            gates.backward(grad, before, into)
            grad_context = grad_contexts[index].addmm_(into.read, context_weight)
            grad_weight = torch.bmm(grad_context.unsqueeze(1), values_t[:size])  # (b, 1, S)
            if grad_weights is not None:
                grad_weight += grad_weights[:size, index].unsqueeze(1)
            into_scores = into_all_scores[index]
            torch._softmax_backward_data(grad_weight, all_weights[index], 2, state.dtype, grad_input=into_scores)
            if ctx.scale is not None:
                into_scores *= ctx.scale[:size]
            grad_query = stepwise.grad_query(before.unsqueeze(1), into_scores)
            passed = passing[index]
            if passed is not None:
                passed = passed[:size].addcmul_(grad, gates.z).addmm_(into.said, weight_hh)
                passed += grad_query.squeeze(1)
        grad_embedding, grad_token_weight, *grad_biases = token_gates_backward(gradients, tokens, embedding, token_weight)
        grad_context_weight = gradients[:, : 3 * width].t() @ features[:, width:]
        grad_weight_ih = torch.cat([grad_token_weight, grad_context_weight], dim=1).roll(-width, 0)
        grad_weight_hh = weight_gradient(gradients[:, width:], befores, ctx.said)
        queries = torch.cat(befores)  # (N, D)
        # (B, S, L) x (B, L, Dv): each value's gradient, over all steps at once
        grad_values = weights.squeeze(2).permute(1, 2, 0) @ packing.spread(grads[:, width:])
        grad_keys, *grad_parameters = stepwise.finish(
            packing.spread(queries), grad_scores.squeeze(2).transpose(0, 1)
        )
        of_the_gru = (None, grad_embedding, grad_weight_ih, grad_weight_hh, *grad_biases, grad_state)
        return *of_the_gru, None, None, grad_keys, grad_values, None, None, *grad_parameters
