"""The GRU recurrence, with or without attention, as one differentiable function.

A GRU step of this size costs a processor more in bookkeeping than in arithmetic, so all that does not depend on the
recurrence is taken out of the loop: the inputs' share of the gates and the values' come in ready, contexts and logits are
formed from the results of all steps at once. The backward pass is written by hand: its loop runs over the state's gradient
alone, and each weight's gradient is one product over all steps. Rows whose sequence has ended are left out of the loop.

Gates as in `torch.nn.GRU`: r = sigma(r~), z = sigma(z~), n = tanh(n~ + r * (W_hn s + b_hn)), s' = (1 - z) * n + z * s.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.masks import valid_mask
from seq2attn.scores import Score

aten = torch.ops.aten


def gru_recurrence(gates: Tensor, state: Tensor, weight: Tensor, bias_n: Tensor, sizes: Sequence[int]) -> Tensor:
    """All states of a GRU over L steps.

    gates (L, B, 3D): of each step, ordered r, z, n, all that does not depend on the state (b_hn excepted); state (B, D):
    the first; weight (3D, D): W_h; bias_n (D,): b_hn; sizes: how many rows take part in each step, the first so many,
    never more than in the step before. Returns (L, B, D), zeros for rows that take no part.
    """
    states: Tensor
    states, _ = _Recurrence.apply(gates, state, weight, bias_n, sizes, None, None, None, None)  # type: ignore[no-untyped-call]
    return states


def attentive_gru_recurrence(
    gates: Tensor,
    state: Tensor,
    weight: Tensor,
    bias_n: Tensor,
    sizes: Sequence[int],
    *,
    score: Score,
    keys: Tensor,
    gate_values: Tensor,
    excluded: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The same for a GRU whose input also holds a context: the average of values under softmax(score(s_{t-1}, keys)).

    keys (B, S, ...) from `score.project`; gate_values (B, S, 3D): W_c v of each value, W_c the context's input weights, so
    that their average is the context's share of the gates; excluded (B, 1, S): 0 where a key may be attended to, the lowest
    number where not; each row has one that may be. Returns states (L, B, D) and weights (L, B, S).
    """
    states, weights = _Recurrence.apply(  # type: ignore[no-untyped-call]
        gates, state, weight, bias_n, sizes, gate_values, excluded, score, keys, *score.parameters()
    )
    return states, weights


def token_gates(tokens: Tensor, embedding: nn.Embedding, weight: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor:
    """The gates' share of the input tokens, with the biases: tokens (...) ids -> (..., 3D), `gates` for a recurrence.

    weight (3D, E): W_i; biases (3D,). Computed for each token of the vocabulary once, where that is less work.
    """
    width = weight.size(0) // 3
    bias = bias_ih + F.pad(bias_hh[: 2 * width], (0, width))  # b_hn stays in the recurrence: r is multiplied with it
    if embedding.num_embeddings <= tokens.numel():
        return F.embedding(tokens, F.linear(embedding.weight, weight, bias))
    return F.linear(embedding(tokens), weight, bias)


def step_sizes(lengths: Tensor, steps: int) -> list[int]:
    """How many rows take part in each step: those alive, if rows come longest first; otherwise all of them throughout."""
    listed = lengths.tolist()
    if any(earlier < later for earlier, later in itertools.pairwise(listed)):
        return [len(listed)] * steps
    sizes: list[int] = valid_mask(lengths, steps).sum(dim=0).tolist()
    return sizes


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        state: Tensor,
        weight: Tensor,
        bias_n: Tensor,
        sizes: Sequence[int],
        gate_values: Any,  # these four as in attentive_gru_recurrence, or all None
        excluded: Any,
        score: Any,
        keys: Any,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        steps, rows, width = len(gates), *state.shape
        states = gates.new_zeros(steps + 1, rows, width)
        states[0] = state
        hidden = gates.new_empty(steps, rows, 3 * width)  # W_h s, then + b_hn
        update = gates.new_empty(steps, rows, 2 * width)  # r, z
        new = gates.new_empty(steps, rows, width)  # n
        weights = None if keys is None else gates.new_zeros(steps, rows, 1, keys.size(1))
        transposed = weight.t().contiguous()
        both, last = slice(0, 2 * width), slice(2 * width, None)
        views = zip(
            sizes,
            _alive(states[:-1], sizes),
            _alive(states[1:], sizes),
            _alive(gates, sizes),
            _alive(hidden, sizes),
            _alive(hidden[..., both], sizes),
            _alive(hidden[..., last], sizes),
            _alive(update, sizes),
            _alive(update[..., :width], sizes),
            _alive(update[..., width:], sizes),
            _alive(new, sizes),
            [None] * steps if weights is None else _alive(weights, sizes),
            strict=True,
        )
        for size, before, after, given, from_state, from_state_rz, from_state_n, rz, r, z, n, attention in views:
            if attention is not None:
                scores = score(before.unsqueeze(1), keys[:size])  # (B, 1, S)
                scores = scores if excluded is None else scores + excluded[:size]
                torch.softmax(scores, dim=2, out=attention)
                given = torch.baddbmm(given.unsqueeze(1), attention, gate_values[:size]).squeeze(1)  # (B, 3D)
            torch.mm(before, transposed, out=from_state)
            torch.add(given[:, both], from_state_rz, out=rz).sigmoid_()
            from_state_n += bias_n
            torch.addcmul(given[:, last], r, from_state_n, out=n).tanh_()
            torch.lerp(n, before, z, out=after)
        ctx.score, ctx.sizes = score, sizes
        ctx.save_for_backward(states, hidden, update, new, weight, weights, gate_values, keys)
        return states[1:], None if weights is None else weights.squeeze(2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        states, hidden, update, new, weight, weights, gate_values, keys = ctx.saved_tensors
        sizes, (steps, rows, width) = ctx.sizes, new.shape
        factors = _gate_factors(states[:-1], hidden, update, new)
        gradients = torch.zeros_like(factors)  # (L, B, 4, D), the state's gradient times the factors
        flat = gradients.view(steps, rows, 4 * width)
        into_hidden, into_gates = flat[..., : 3 * width], flat[..., width:]
        weight_nrz = weight.roll(width, 0)  # in the order of the factors
        if weights is not None:
            score_gradient = ctx.score.gradient(keys)
            grad_scores = torch.zeros_like(weights)  # (L, B, 1, S)
            gate_values_t = gate_values.mT  # (B, 3D, S)
        views = zip(
            sizes,
            _alive(factors, sizes),
            _alive(gradients, sizes),
            _alive(into_hidden, sizes),
            _alive(into_gates, sizes),
            _alive(update[..., width:], sizes),
            _alive(states[:-1], sizes),
            _alive(grad_states, sizes),
            [None] * steps if weights is None else _alive(weights, sizes),
            [None] * steps if weights is None else _alive(grad_scores, sizes),
            [None] * steps if grad_weights is None else _alive(grad_weights, sizes),
            strict=True,
        )
        grad_state = new.new_zeros(rows, width)
        for (
            size,
            factor,
            gradient,
            to_hidden,
            to_gates,
            z,
            query,
            given,
            attention,
            grad_score,
            grad_weight,
        ) in reversed(list(views)):
            grad = grad_state[:size]
            grad += given
            torch.mul(grad.unsqueeze(1), factor, out=gradient)
            torch.addcmul(to_hidden @ weight_nrz, grad, z, out=grad)
            if attention is not None:
                grad_attention = to_gates.unsqueeze(1) @ gate_values_t[:size]  # (B, 1, S)
                if grad_weight is not None:
                    grad_attention += grad_weight.unsqueeze(1)
                torch._softmax_backward_data(grad_attention, attention, 2, grad.dtype, grad_input=grad_score)
                grad += score_gradient.step(query.unsqueeze(1), grad_score).squeeze(1)
        into_hidden = into_hidden.flatten(0, 1)  # (L * B, 3D)
        grad_weight = (into_hidden.t() @ states[:-1].flatten(0, 1)).roll(-width, 0)
        grad_bias_n = into_hidden[:, :width].sum(dim=0)
        results: tuple[Tensor | None, ...] = (into_gates, grad_state, grad_weight, grad_bias_n, None)
        if weights is None:
            return *results, None, None, None, None
        by_row = weights.squeeze(2).permute(1, 2, 0)  # (B, S, L)
        grad_gate_values = by_row @ into_gates.transpose(0, 1)  # (B, S, L) x (B, L, 3D)
        from_score = score_gradient.finish(states[:-1].transpose(0, 1), grad_scores.squeeze(2).transpose(0, 1))
        return *results, grad_gate_values, None, None, *from_score


def _gate_factors(before: Tensor, hidden: Tensor, update: Tensor, new: Tensor) -> Tensor:
    """What a step's gradient ds is multiplied with for the gradients of W_hn s + b_hn, r~, z~ and n~: (L, B, 4, D)."""
    width = new.size(2)
    r, z, hidden_n = update[..., :width], update[..., width:], hidden[..., 2 * width :]
    factors = new.new_empty(*new.shape[:2], 4, width)
    into_n = aten.tanh_backward(1 - z, new)  # (1 - z) * (1 - n^2)
    factors[:, :, 3] = into_n
    torch.mul(into_n, r, out=factors[:, :, 0])
    factors[:, :, 1] = aten.sigmoid_backward(into_n.mul_(hidden_n), r)  # * r * (1 - r)
    factors[:, :, 2] = aten.sigmoid_backward(before - new, z)  # * z * (1 - z)
    return factors


def _alive(tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """(L, B, ...) -> for each step, a view of the rows that take part: far cheaper than indexing step by step."""
    rows = tensor.size(1)
    return [step if size == rows else step[:size] for step, size in zip(tensor.unbind(0), sizes, strict=True)]
