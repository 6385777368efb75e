"""The gates of a GRU that reads tokens: what of them does not depend on the recurrence, and how all of them are laid out.

Gates as in `torch.nn.GRU`: r = sigma(r~), z = sigma(z~), n = tanh(n~ + r * h), h = W_hn s + b_hn, s' = (1 - z) * n + z * s.
A row of gates is n, r, z, h, each of width D: what is read is added to n, r, z, what the state says to r, z, h. Both are
neighbours, so that each is one matrix product, and those of the state come in the order of `torch.nn.GRU`'s own weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten


def token_gates(tokens: Tensor, embedding: Tensor, weight: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor:
    """The gates' share of the input tokens and of both biases: ids (N,) -> (N, 4D), with 2n in the place of n.

    embedding (V, E); weight (3D, E): W_i in the order n, r, z; biases (3D,) as torch has them. Computed once for each token
    of the vocabulary, where that is less work.
    """
    width = len(weight) // 3
    by_token = len(embedding) <= len(tokens)
    rows = embedding if by_token else embedding.index_select(0, tokens)
    table = rows.new_empty(len(rows), 4 * width)
    table[:, : 3 * width] = bias_ih.roll(width)
    table[:, 3 * width :] = 0
    table[:, width:] += bias_hh
    table[:, : 3 * width].addmm_(rows, weight.t())
    table[:, :width] *= 2  # tanh(x) = 2 sigma(2x) - 1, see `activate`
    return table.index_select(0, tokens) if by_token else table


def token_gates_backward(
    grad_gates: Tensor, tokens: Tensor, embedding: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the gates (N, 4D) -> of embedding, weight (3D, E) in the order n, r, z, bias_ih and bias_hh."""
    width = len(weight) // 3
    by_token = len(embedding) <= len(tokens)
    rows = embedding if by_token else embedding.index_select(0, tokens)
    grad_table = grad_gates
    if by_token:
        grad_table = grad_gates.new_zeros(len(rows), 4 * width).index_add_(0, tokens, grad_gates)
    grad_bias = grad_table.sum(dim=0)
    grad_read = grad_table[:, : 3 * width]
    grad_rows, grad_weight = grad_read @ weight, grad_read.t() @ rows
    if not by_token:
        grad_rows = torch.zeros_like(embedding).index_add_(0, tokens, grad_rows)
    return grad_rows, grad_weight, grad_bias[: 3 * width].roll(-width), grad_bias[width:]


def activate(n: Tensor, rz: Tensor, r: Tensor, h: Tensor) -> None:
    """Make of sums gates, in place: (b, D) each, rz (b, 2D) next to each other, 2n in the place of n.

    tanh(x) = 2 sigma(2x) - 1, and a processor computes sigma several times faster.
    """
    rz.sigmoid_()
    n.addcmul_(r, h, value=2).sigmoid_()
    torch.add(_MINUS_ONE, n, alpha=2, out=n)


_MINUS_ONE = torch.tensor(-1.0)


def gate_factors(before: Tensor, gates: Tensor) -> Tensor:
    """What the gradient of s' is multiplied with for those of n~, r~, z~ and h: gates (N, 4D) -> (N, 4, D).

    before (N, D): s.
    """
    n, r, z, h = gates.chunk(4, dim=1)
    factors = gates.new_empty(len(gates), 4, before.size(1))
    into_n, into_r, into_z, into_h = factors.unbind(1)
    aten.tanh_backward(1 - z, n, grad_input=into_n)  # (1 - z) * (1 - n^2)
    torch.mul(into_n, r, out=into_h)
    torch.mul(into_n, h, out=into_r)
    aten.sigmoid_backward(into_r, r, grad_input=into_r)  # * r * (1 - r)
    torch.sub(before, n, out=into_z)
    aten.sigmoid_backward(into_z, z, grad_input=into_z)  # * z * (1 - z)
    return factors
