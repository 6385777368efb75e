"""The GRU recurrence, with or without attention, as one differentiable function.

A GRU step of this size costs a processor more in bookkeeping than in arithmetic, so what does not depend on the recurrence
is taken out of the loop: the inputs' share of the gates comes in ready, logits are formed from the results of all steps at
once, and padding takes no part (`Packing`). The backward pass is written by hand: its loop runs over the state's gradient
alone, and each weight's gradient is one product over all steps.

Gates as in `torch.nn.GRU`: r = sigma(r~), z = sigma(z~), n = tanh(n~ + r * (W_hn s + b_hn)), s' = (1 - z) * n + z * s.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.masks import additive_mask
from seq2attn.model.attention import Memory
from seq2attn.model.packing import Packing
from seq2attn.scores import Score

aten = torch.ops.aten


def gru_recurrence(gates: Tensor, state: Tensor, weight: Tensor, bias_n: Tensor, packing: Packing) -> Tensor:
    """All states (N, D) of a GRU.

    gates (N, 3D): ordered r, z, n, what of them does not depend on the state (b_hn excepted); state (B, D): the first;
    weight (3D, D): W_h; bias_n (D,): b_hn.
    """
    states: Tensor = _Recurrence.apply(gates, state, weight, bias_n, packing, *[None] * 6)[0]  # type: ignore[no-untyped-call]
    return states


def attentive_gru_recurrence(
    gates: Tensor,
    state: Tensor,
    weight: Tensor,
    bias_n: Tensor,
    packing: Packing,
    *,
    context_weight: Tensor,
    score: Score,
    memory: Memory,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for a GRU whose input also holds the context that its last state attends to.

    context_weight (3D, Dv): W_i's share for the context. Returns states (N, D), contexts (N, Dv) and weights (N, S).
    """
    results: tuple[Tensor, Tensor, Tensor] = _Recurrence.apply(  # type: ignore[no-untyped-call]
        gates,
        state,
        weight,
        bias_n,
        packing,
        context_weight,
        memory.values,
        memory.valid,
        memory.scale,
        score,
        memory.keys,
        *score.parameters(),
    )
    return results


def token_gates(tokens: Tensor, embedding: nn.Embedding, weight: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor:
    """The gates' share of the input tokens, with the biases but b_hn: ids (N,) -> (N, 3D).

    weight (3D, E): W_i; biases (3D,). Computed once for each token of the vocabulary, where that is less work.
    """
    width = weight.size(0) // 3
    bias = bias_ih + F.pad(bias_hh[: 2 * width], (0, width))
    if embedding.num_embeddings <= tokens.numel():
        return F.embedding(tokens, F.linear(embedding.weight, weight, bias))
    return F.linear(embedding(tokens), weight, bias)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        state: Tensor,
        weight: Tensor,
        bias_n: Tensor,
        packing: Packing,
        context_weight: Any,  # this and the following as in attentive_gru_recurrence, or all None
        values: Any,
        valid: Any,
        scale: Any,
        score: Any,
        keys: Any,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        (count, width), sizes = (len(gates), state.size(1)), packing.sizes
        attends = keys is not None
        initial_and_states = gates.new_empty(len(state) + count, width)
        initial_and_states[: len(state)] = state
        states, new = initial_and_states[len(state) :], gates.new_empty(count, width)
        hidden_n = gates.new_empty(count, width)  # W_hn s + b_hn
        update = gates.new_empty(count, 2 * width)  # r, z
        weight_rz, weight_n = weight[: 2 * width].t(), weight[2 * width :].t()
        contexts = weights = None
        if attends:
            contexts = gates.new_empty(count, values.size(2))
            weights = gates.new_empty(count, 1, keys.size(1))
            stepwise, context_weight_t = score.stepwise(keys), context_weight.t()
            mask = None if valid is None else additive_mask(valid, gates.dtype)
        views = _by_step(sizes, gates, states, new, hidden_n, update, contexts, weights)
        before = state
        for size, given, after, n, from_state_n, rz, context, attention in views:
            if size < len(before):
                before = before[:size]
            if attends:
                scores = stepwise.scores(before.unsqueeze(1))  # (b, 1, S)
                if scale is not None:
                    scores *= scale[:size]
                if mask is not None:
                    scores += mask[:size]
                torch.softmax(scores, dim=2, out=attention)
                torch.bmm(attention, values[:size], out=context.unsqueeze(1))  # (b, 1, Dv)
                given = torch.addmm(given, context, context_weight_t)  # (b, 3D)
            torch.addmm(given[:, : 2 * width], before, weight_rz, out=rz).sigmoid_()
            r, z = rz[:, :width], rz[:, width:]
            torch.addmm(bias_n, before, weight_n, out=from_state_n)
            torch.addcmul(given[:, 2 * width :], r, from_state_n, out=n).tanh_()
            before = torch.lerp(n, before, z, out=after)
        ctx.score, ctx.scale, ctx.packing = score, scale, packing
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            state, initial_and_states, hidden_n, update, new, weight, context_weight, contexts, weights, values, keys
        )
        return states, contexts, None if weights is None else weights.squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor | None, grad_contexts: Tensor | None, grad_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        state, states, hidden_n, update, new, weight, context_weight, contexts, weights, values, keys = (
            ctx.saved_tensors
        )
        packing: Packing = ctx.packing
        sizes, (count, width) = packing.sizes, new.shape
        attends = keys is not None
        before = states.index_select(0, packing.previous)  # (N, D)
        factors = _gate_factors(before, hidden_n, update, new)
        gradients = torch.empty_like(factors)  # (N, 4, D): the state's gradient times the factors
        flat = gradients.view(count, 4 * width)
        into_hidden, into_gates = flat[:, : 3 * width], flat[:, width:]
        weight_nrz = weight.roll(width, 0)  # in the order of the factors
        # (N, D), to which each step adds what goes through its state
        grads = torch.zeros_like(new) if grad_states is None else grad_states.clone()
        if attends:
            stepwise = ctx.score.stepwise(keys)
            values_t = values.mT  # (B, Dv, S)
            into_contexts = torch.empty_like(contexts)  # (N, Dv)
            into_scores = torch.empty_like(weights)  # (N, 1, S)
            if grad_contexts is None:
                grad_contexts = torch.zeros_like(contexts)
        views = _by_step(
            sizes,
            factors,
            gradients,
            update[:, width:],
            grads,
            before if attends else None,
            weights,
            grad_contexts,
            grad_weights,
            into_contexts if attends else None,
            into_scores if attends else None,
        )
        grad_state = torch.zeros_like(state)
        steps = zip(reversed(views), [*reversed([view[4] for view in views[:-1]]), grad_state], strict=True)
        for (size, factor, gradient, z, grad, *attending), earlier in steps:
            passed = earlier if size == len(earlier) else earlier[:size]  # the gradient of the state before
            torch.mul(grad.unsqueeze(1), factor, out=gradient)
            flat_gradient = gradient.view(size, 4 * width)
            passed.addcmul_(grad, z).addmm_(flat_gradient[:, : 3 * width], weight_nrz)
            if attends:
                query, attention, from_contexts, from_weights, to_context, to_scores = attending
                torch.addmm(from_contexts, flat_gradient[:, width:], context_weight, out=to_context)
                to_attention = torch.bmm(to_context.unsqueeze(1), values_t[:size])  # (b, 1, S)
                if from_weights is not None:
                    to_attention += from_weights.unsqueeze(1)
                torch._softmax_backward_data(to_attention, attention, 2, grad.dtype, grad_input=to_scores)
                if ctx.scale is not None:
                    to_scores *= ctx.scale[:size]
                passed += stepwise.grad_query(query.unsqueeze(1), to_scores).squeeze(1)
        grad_weight = (into_hidden.t() @ before).roll(-width, 0)
        grad_bias_n = into_hidden[:, :width].sum(dim=0)
        results: tuple[Tensor | None, ...] = (into_gates, grad_state, grad_weight, grad_bias_n, None)
        if not attends:
            return *results, *[None] * 6
        grad_context_weight = into_gates.t() @ contexts
        # (B, S, L) x (B, L, Dv): each value's gradient, over all steps at once
        grad_values = packing.unpack(weights.squeeze(1)).mT @ packing.unpack(into_contexts)
        from_score = stepwise.finish(packing.unpack(before), packing.unpack(into_scores.squeeze(1)))
        return *results, grad_context_weight, grad_values, None, None, None, *from_score


def _by_step(sizes: list[int], *packed: Tensor | None) -> list[tuple[Any, ...]]:
    """For each step its size and its rows of each tensor (N, ...), as views; None for a tensor that is not there.

    Made all at once: made one by one, views would cost more than what is done with them.
    """
    nothing = [None] * len(sizes)
    columns = [nothing if tensor is None else torch.split(tensor, sizes) for tensor in packed]
    return list(zip(sizes, *columns, strict=True))


def _gate_factors(before: Tensor, hidden_n: Tensor, update: Tensor, new: Tensor) -> Tensor:
    """What the gradient of s' is multiplied with for those of W_hn s + b_hn, r~, z~ and n~: (N, 4, D)."""
    count, width = new.shape
    r, z = update.chunk(2, dim=1)
    factors = new.new_empty(count, 4, width)
    into_hidden_n, into_r, into_z, into_n = factors.unbind(1)
    aten.tanh_backward(1 - z, new, grad_input=into_n)  # (1 - z) * (1 - n^2)
    torch.mul(into_n, r, out=into_hidden_n)
    torch.mul(into_n, hidden_n, out=into_r)
    aten.sigmoid_backward(into_r, r, grad_input=into_r)  # * r * (1 - r)
    torch.sub(before, new, out=into_z)
    aten.sigmoid_backward(into_z, z, grad_input=into_z)  # * z * (1 - z)
    return factors
