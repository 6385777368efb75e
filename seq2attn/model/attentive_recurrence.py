"""The GRU recurrence whose input also holds the context that its last state attends to, as one differentiable function.

As `recurrence`, with attention in its loops: scores are asked for step by step (`StepwiseScore`), and what of their
gradients does not depend on the recurrence is left to the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels import kernels_for
from seq2attn.kernels.packing import Packing
from seq2attn.model.attention import Memory
from seq2attn.model.gates import by_step, token_gates, token_gates_backward
from seq2attn.model.masks import additive_mask
from seq2attn.model.recurrence import GRUWeights, weight_gradient
from seq2attn.model.scores import Score


def attentive_gru_recurrence(
    tokens: Tensor, weights: GRUWeights, state: Tensor, packing: Packing, score: Score, memory: Memory
) -> tuple[Tensor, Tensor]:
    """All [s_t; c_t] (N, D + Dv) of a GRU that reads tokens (B, L) and contexts, and its attention weights (B, L, S).

    state (B, D): the first; weights.weight_ih (3D, E + Dv).
    """
    kernels = kernels_for(state)
    if kernels is not None:
        from seq2attn.kernels.function import compiled_attentive_gru, is_compiled

        if is_compiled(score, memory, weights, state):
            return compiled_attentive_gru(kernels, tokens, weights, state, packing, score, memory)
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
        (rows, width), sizes, count = state.shape, packing.sizes, tokens.size(0)
        weight_ih = weight_ih.roll(width, 0)  # n, r, z
        token_weight, context_weight = weight_ih.split_with_sizes([embedding.size(1), values.size(2)], 1)
        all_gates = token_gates(tokens, embedding, token_weight, bias_ih, bias_hh)  # (N, 4D)
        features = state.new_empty(count, width + values.size(2))  # [s; c]
        contexts = state.new_empty(count, 1, values.size(2))
        weights = state.new_zeros(packing.steps, rows, 1, values.size(1))
        context_weight_t = context_weight.t().clone()  # (Dv, 3D)
        context_weight_t[:, :width] *= 2  # gates hold 2n
        attention = _StepwiseAttention(score, keys, values, valid, scale)
        before, weight_hh_t = state, weight_hh.t()
        said = ctx.said = bool(state.any())  # a state of zeros says nothing
        for size, gates, after, context, weight in zip(
            sizes,
            by_step(all_gates, sizes),
            features[:, :width].split_with_sizes(sizes),
            contexts.split_with_sizes(sizes),
            _first(weights, sizes),
            strict=True,
        ):
            if size < rows:
                before = before[:size]
            attention.attend(before, weight, context)
            gates.read.addmm_(context.squeeze(1), context_weight_t)
            if said:
                gates.said.addmm_(before, weight_hh_t)
            gates.activate()
            before, said = torch.lerp(gates.n, before, gates.z, out=after), True
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
        grad_states = grads[:, :width].split_with_sizes(sizes)
        grad_state = torch.zeros_like(state) if ctx.needs_input_grad[6] else None
        states = (state, *features[:, :width].split_with_sizes(sizes))
        befores = [before[:size] for before, size in zip(states, sizes, strict=False)]
        gradients = torch.empty_like(all_gates)  # (N, 4D)
        grad_scores = torch.zeros_like(weights)  # (L, B, 1, S)
        attention = _StepwiseAttention(ctx.score, keys, values, None, ctx.scale)
        attention.stepwise.begin_backward(befores)
        steps = zip(
            befores,
            by_step(all_gates, sizes),
            by_step(gradients, sizes),
            (grad_state, *grad_states[:-1]),
            grad_states,
            grads[:, width:].split_with_sizes(sizes),
            [None] * len(sizes) if grad_weights is None else _first(grad_weights.transpose(0, 1).unsqueeze(2), sizes),
            _first(weights, sizes),
            _first(grad_scores, sizes),
            strict=True,
        )
        for before, gates, into, passed, grad, grad_context, grad_weight, weight, into_scores in reversed(list(steps)):
            gates.backward(grad, before, into)
            grad_context.addmm_(into.read, context_weight)
            grad_query = attention.backward(before, weight, grad_context, grad_weight, into_scores)
            if passed is not None:
                passed = passed[: grad.size(0)].addcmul_(grad, gates.z).addmm_(into.said, weight_hh)
                passed += grad_query
        grad_embedding, grad_token_weight, *grad_biases = token_gates_backward(
            gradients, tokens, embedding, token_weight
        )
        grad_context_weight = gradients[:, : 3 * width].t() @ features[:, width:]
        grad_weight_ih = torch.cat([grad_token_weight, grad_context_weight], dim=1).roll(-width, 0)
        grad_weight_hh = weight_gradient(gradients[:, width:], befores, ctx.said)
        # (B, S, L) x (B, L, Dv): each value's gradient, over all steps at once
        grad_values = weights.squeeze(2).permute(1, 2, 0) @ packing.spread(grads[:, width:])
        grad_keys, *grad_parameters = attention.stepwise.finish(
            packing.spread(torch.cat(befores)), grad_scores.squeeze(2).transpose(0, 1)
        )
        of_the_gru = (None, grad_embedding, grad_weight_ih, grad_weight_hh, *grad_biases, grad_state)
        return *of_the_gru, None, None, grad_keys, grad_values, None, None, *grad_parameters


class _StepwiseAttention:
    """Attention with one query a row at a time, for the first b rows of the batch."""

    def __init__(self, score: Score, keys: Tensor, values: Tensor, valid: Tensor | None, scale: Tensor | None) -> None:
        self.stepwise, self.scale = score.stepwise(keys), scale
        self.values, self.values_t = values, values.mT  # (B, S, Dv), (B, Dv, S)
        self.mask = None if valid is None else additive_mask(valid, values.dtype)  # (B, 1, S)

    def attend(self, query: Tensor, weights: Tensor, context: Tensor) -> None:
        """query (b, D) -> weights (b, 1, S) and context (b, 1, Dv), written where they are wanted."""
        scores = self.stepwise.scores(query.unsqueeze(1))  # (b, 1, S)
        if self.scale is not None:
            scores *= self.scale[: query.size(0)]
        if self.mask is not None:
            scores += self.mask[: query.size(0)]
        torch.softmax(scores, dim=2, out=weights)
        torch.bmm(weights, self.values[: query.size(0)], out=context)

    def backward(
        self, query: Tensor, weights: Tensor, grad_context: Tensor, grad_weights: Tensor | None, into_scores: Tensor
    ) -> Tensor:
        """Gradients of the context (b, Dv) and, if any, of the weights (b, 1, S) -> the query's (b, D).

        That of the scores (b, 1, S) is written into `into_scores`.
        """
        into_weights = torch.bmm(grad_context.unsqueeze(1), self.values_t[: query.size(0)])  # (b, 1, S)
        if grad_weights is not None:
            into_weights += grad_weights
        torch._softmax_backward_data(into_weights, weights, 2, weights.dtype, grad_input=into_scores)
        if self.scale is not None:
            into_scores *= self.scale[: query.size(0)]
        return self.stepwise.grad_query(query.unsqueeze(1), into_scores).squeeze(1)


def _first(padded: Tensor, sizes: list[int]) -> list[Tensor]:
    """(L, B, ...) -> for each step its rows that take part."""
    return [step[:size] for step, size in zip(padded.unbind(0), sizes, strict=True)]
