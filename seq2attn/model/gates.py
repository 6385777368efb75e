"""The gates of a GRU that reads tokens: their layout, their activation, and what of them does not depend on the state.

As in `torch.nn.GRU`: r = sigma(r~), z = sigma(z~), n = tanh(n~ + r * h), h = W_hn s + b_hn, s' = (1 - z) * n + z * s.
A row of gates is n, r, z, h, each of width D: what is read is added to n, r, z, what the state says to r, z, h. Both are
neighbours, so that each is one matrix product, and those of the state come in the order of `torch.nn.GRU`'s own weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_MINUS_ONE = torch.tensor(-1.0)
_tanh_backward = torch.ops.aten.tanh_backward.grad_input
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class Gates(NamedTuple):
    """The gates of one step for the b rows that take part in it, as views."""

    n: Tensor
    """(b, D), as are the next three"""
    r: Tensor
    z: Tensor
    h: Tensor
    rz: Tensor
    """(b, 2D)"""
    read: Tensor
    """(b, 3D): n, r, z"""
    said: Tensor
    """(b, 3D): r, z, h"""

    def activate(self) -> None:
        """Make gates of the sums, in place; in the place of n is 2n.

        tanh(x) = 2 sigma(2x) - 1, and a processor computes sigma several times faster.
        """
        self.rz.sigmoid_()
        self.n.addcmul_(self.r, self.h, value=2).sigmoid_()
        torch.add(_MINUS_ONE, self.n, alpha=2, out=self.n)

    def backward(self, grad: Tensor, before: Tensor, into: Gates) -> None:
        """The gradient of s' -> `into`, those of n~, r~, z~ and h; before: s. All (b, D)."""
        _tanh_backward(torch.addcmul(grad, grad, self.z, value=-1), self.n, grad_input=into.n)
        torch.mul(into.n, self.r, out=into.h)
        torch.mul(into.n, self.h, out=into.r)
        torch.sub(before, self.n, out=into.z).mul_(grad)
        _sigmoid_backward(into.rz, self.rz, grad_input=into.rz)


def by_step(gates: Tensor, sizes: list[int]) -> list[Gates]:
    """(N, 4D) -> the gates of each step.

    The views are made all at once: made one by one, they would cost more than what is done with them.
    """
    width = gates.size(1) // 4
    columns = (*gates.chunk(4, dim=1), gates[:, width : 3 * width], gates[:, : 3 * width], gates[:, width:])
    return list(map(Gates, *(column.split_with_sizes(sizes) for column in columns)))


def token_gates(tokens: Tensor, embedding: Tensor, weight: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor:
    """The gates' share of the input tokens and of both biases: ids (N,) -> (N, 4D), with 2n in the place of n.

    embedding (V, E); weight (3D, E): W_i in the order n, r, z; biases (3D,) as torch has them. Computed once for each token
    of the vocabulary, where that is less work.
    """
    width = len(weight) // 3
    by_token = len(embedding) <= len(tokens)
    rows = embedding if by_token else embedding.index_select(0, tokens)
    table = rows.new_zeros(len(rows), 4 * width)
    torch.addmm(bias_ih.roll(width), rows, weight.t(), out=table[:, : 3 * width])
    table[:, width:] += bias_hh
    table[:, :width] *= 2
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
