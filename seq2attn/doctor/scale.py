"""Finds by what the products of queries and keys are multiplied before a softmax."""

import itertools
from collections.abc import Collection, Iterator
from math import nan
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from seq2attn.doctor.call import ORDERS, B, arrange
from seq2attn.doctor.catch import PRODUCTS, aten, place_of, transparent
from seq2attn.doctor.scores import factor_of
from seq2attn.doctor.subject import Subject

POWERS = {aten.mul: 1, aten.mul_: 1, aten.div: -1, aten.div_: -1}
"""of the second operand"""
LINEAR = {aten.add, aten.sub, aten.neg, aten.cat, aten.stack, aten.clone, aten._to_copy}
LINEAR |= {aten.index_select, aten.repeat, aten.where, aten.masked_fill}


class Products(TorchDispatchMode):
    """Records the products whose rows are as long as there are keys, without the factors that their
    operands were multiplied by; constant: where parameters lie, which are no queries.
    """

    def __init__(self, length: int, constant: Collection[int]) -> None:
        super().__init__()
        self.length, self.constant = length, constant
        self.found: list[tuple[Tensor, int]] = []
        """(N, S), and the width of queries and keys"""
        self._factors: dict[int, tuple[Tensor, float]] = {}
        """by where a tensor lies, with the tensor, which keeps its place"""

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation of torch, and look at it."""
        kind, result = getattr(func, "overloadpacket", None), func(*args, **(kwargs or {}))
        if kind in PRODUCTS:
            left, right = args[PRODUCTS[kind] :][:2]
            product = left @ right / (self._of(left) * self._of(right))
            for rows in (product, product.mT):
                if rows.size(-1) == self.length:
                    self.found.append((rows.reshape(-1, self.length), left.size(-1)))
        elif kind in POWERS:
            left, right = map(self._value, args[:2])
            self._keep(result, left * right ** POWERS[kind])
        elif kind in LINEAR:
            parts = args[0] if isinstance(args[0], list) else args
            tensors = [one for one in parts if isinstance(one, Tensor) and one.dim()]
            others = [
                one for one in tensors if place_of(one) not in self.constant
            ]  # but for biases
            factors = {self._of(one) for one in others}
            self._keep(result, factors.pop() if len(factors) == 1 else nan)
        return result

    def _of(self, tensor: Tensor) -> float:
        place = place_of(tensor)
        return nan if place in self.constant else self._factors.get(place, (tensor, 1.0))[1]

    def _value(self, operand: Any) -> float:
        is_large = isinstance(operand, Tensor) and operand.numel() > 1
        return self._of(operand) if is_large else float(operand)

    def _keep(self, result: Tensor, factor: float) -> None:
        is_whole = result.untyped_storage().nbytes() == result.nbytes
        self._factors[place_of(result)] = result, factor if is_whole else nan


# what a class body defines is wrapped in a function that imports torch's compiler, which takes 2 s
Products.__torch_dispatch__ = Products.dispatch  # type: ignore[assignment]


def scales(subject: Subject) -> Iterator[tuple[float, int, int]]:
    """Yield the factor of q · k before the softmax of each use of weights, the width of q and k,
    and the number of heads; whatever depends on places alone may be added.
    """
    given, products = subject.given.free, Products(subject.length, subject.constant)
    with transparent(), products:
        subject.call(given.each(torch.clone))
    for weights in subject.free.weights:
        seen = (weights > 0).all(0)
        logs = _apart(weights.log(), seen)
        for (rows, width), order in itertools.product(products.found, ORDERS):
            if rows.numel() != weights.numel():
                continue
            product = arrange(rows, order, B, subject.queries(given))
            factor = product.shape == weights.shape and factor_of(_apart(product, seen), logs)
            if factor:
                yield factor, width, weights.size(1)
                break


def _apart(numbers: Tensor, seen: Tensor) -> Tensor:
    """Return (B H, L, S) what of (B, H, L, S) neither a softmax nor a mean over rows takes away."""
    numbers = numbers.double().masked_fill(~seen, 0)
    numbers = numbers - numbers.mean(0)
    means = numbers.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return ((numbers - means) * seen).flatten(0, 1)
