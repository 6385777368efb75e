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

from seq2attn.masks import masked_softmax
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
        sizes, (count, width) = packing.sizes, (len(gates), state.size(1))
        both, last = slice(0, 2 * width), slice(2 * width, None)
        states, new = gates.new_empty(count, width), gates.new_empty(count, width)
        hidden = gates.new_empty(count, 3 * width)  # W_h s, then + b_hn
        update = gates.new_empty(count, 2 * width)  # r, z
        attends = keys is not None
        contexts = gates.new_empty(count, 1, values.size(2) if attends else 0)
        weights = gates.new_empty(count, 1, keys.size(1) if attends else 0)
        views = _by_step(
            sizes,
            gates,
            states,
            new,
            hidden,
            hidden[:, both],
            hidden[:, last],
            update,
            update[:, :width],
            update[:, width:],
            contexts,
            weights,
        )
        weight_t = weight.t().contiguous()
        context_weight_t: Any = context_weight.t().contiguous() if attends else None
        before = state
        for size, given, after, n, from_state, from_state_rz, from_state_n, rz, r, z, context, attention in views:
            before = before[:size]
            if attends:
                scores = score(before.unsqueeze(1), keys[:size])  # (b, 1, S)
                if scale is not None:
                    scores = scores * scale[:size]
                masked_softmax(scores, None if valid is None else valid[:size], out=attention)
                torch.bmm(attention, values[:size], out=context)  # (b, 1, Dv)
                given = torch.addmm(given, context.squeeze(1), context_weight_t)  # (b, 3D)
            torch.mm(before, weight_t, out=from_state)
            torch.add(given[:, both], from_state_rz, out=rz).sigmoid_()
            from_state_n += bias_n
            torch.addcmul(given[:, last], r, from_state_n, out=n).tanh_()
            before = torch.lerp(n, before, z, out=after)
        ctx.score, ctx.scale, ctx.packing = score, scale, packing
        ctx.save_for_backward(
            state, states, hidden, update, new, weight, context_weight, contexts, weights, values, keys
        )
        if not attends:
            return states, None, None
        return states, contexts.squeeze(1), weights.squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor | None, grad_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        state, states, hidden, update, new, weight, context_weight, contexts, weights, values, keys = ctx.saved_tensors
        packing: Packing = ctx.packing
        sizes, (count, width) = packing.sizes, new.shape
        attends = keys is not None
        previous = torch.split(states, sizes)
        before = torch.cat(
            [state[: sizes[0]], *(s[:size] for s, size in zip(previous, sizes[1:], strict=False))]
        )  # (N, D)
        factors = _gate_factors(before, hidden, update, new)
        gradients = torch.empty_like(factors)  # (N, 4, D): the state's gradient times the factors
        flat = gradients.view(count, 4 * width)
        into_hidden, into_gates = flat[:, : 3 * width], flat[:, width:]
        weight_nrz = weight.roll(width, 0)  # in the order of the factors
        if attends:
            score_gradient = ctx.score.gradient(keys)
            values_t = values.mT  # (B, Dv, S)
            into_contexts = torch.empty_like(contexts)  # (N, 1, Dv)
            into_scores = torch.empty_like(weights)  # (N, 1, S)
        views = _by_step(
            sizes,
            factors,
            gradients,
            into_hidden,
            into_gates,
            update[:, width:],
            before,
            grad_states,
            weights,
            grad_contexts if attends else None,
            grad_weights if attends else None,
            into_contexts if attends else None,
            into_scores if attends else None,
        )
        grad_state = torch.zeros_like(state)
        for view in reversed(views):
            size, factor, gradient, to_hidden, to_gates, z, query, from_states, attention, *rest = view
            grad = grad_state[:size]
            grad += from_states
            torch.mul(grad.unsqueeze(1), factor, out=gradient)
            torch.addcmul(to_hidden @ weight_nrz, grad, z, out=grad)
            if attends:
                from_contexts, from_weights, to_context, to_scores = rest
                torch.mm(to_gates, context_weight, out=to_context.squeeze(1))
                if from_contexts is not None:
                    to_context += from_contexts.unsqueeze(1)
                to_attention = torch.bmm(to_context, values_t[:size])  # (b, 1, S)
                if from_weights is not None:
                    to_attention += from_weights.unsqueeze(1)
                torch._softmax_backward_data(to_attention, attention, 2, grad.dtype, grad_input=to_scores)
                if ctx.scale is not None:
                    to_scores *= ctx.scale[:size]
                grad += score_gradient.step(query.unsqueeze(1), to_scores).squeeze(1)
        grad_weight = (into_hidden.t() @ before).roll(-width, 0)
        grad_bias_n = into_hidden[:, :width].sum(dim=0)
        results: tuple[Tensor | None, ...] = (into_gates, grad_state, grad_weight, grad_bias_n, None)
        if not attends:
            return *results, *[None] * 6
        grad_context_weight = into_gates.t() @ contexts.squeeze(1)
        # (B, S, L) x (B, L, Dv): each value's gradient, over all steps at once
        grad_values = packing.unpack(weights.squeeze(1)).mT @ packing.unpack(into_contexts.squeeze(1))
        from_score = score_gradient.finish(packing.unpack(before), packing.unpack(into_scores.squeeze(1)))
        return *results, grad_context_weight, grad_values, None, None, None, *from_score


def _by_step(sizes: list[int], *packed: Tensor | None) -> list[tuple[Any, ...]]:
    """For each step its size and its rows of each tensor (N, ...), as views; None for a tensor that is not there.

    Made all at once: made one by one, views would cost more than what is done with them.
    """
    nothing = [None] * len(sizes)
    columns = [nothing if tensor is None else torch.split(tensor, sizes) for tensor in packed]
    return list(zip(sizes, *columns, strict=True))


def _gate_factors(before: Tensor, hidden: Tensor, update: Tensor, new: Tensor) -> Tensor:
    """What the gradient of s' is multiplied with for those of W_hn s + b_hn, r~, z~ and n~: (N, 4, D)."""
    count, width = new.shape
    r, z, hidden_n = update[:, :width], update[:, width:], hidden[:, 2 * width :]
    factors = new.new_empty(count, 4, width)
    into_n = aten.tanh_backward(1 - z, new)  # (1 - z) * (1 - n^2)
    factors[:, 3] = into_n
    torch.mul(into_n, r, out=factors[:, 0])
    factors[:, 1] = aten.sigmoid_backward(into_n.mul_(hidden_n), r)  # * r * (1 - r)
    factors[:, 2] = aten.sigmoid_backward(before - new, z)  # * z * (1 - z)
    return factors
