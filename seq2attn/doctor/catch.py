"""Catches the weights of any attention where they are used: the operand of a product that sums over
the keys, whatever made it. A product can be given other weights, or its result replaced.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from math import nan, prod
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from seq2attn.doctor.call import B

aten = torch.ops.aten
PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}
"""of matrices, and where their two operands begin"""
VIEWS = {aten.view, aten._unsafe_view, aten._reshape_alias}
SOFTMAXES = {aten._softmax, aten._safe_softmax, aten._log_softmax}
SORTS = {aten.sort, aten.topk}  # their first result is in order, along the last axis
POWERS = {aten.mul: 1, aten.mul_: 1, aten.div: -1, aten.div_: -1}
"""operations, with the power of their second operand: x / y is x times y to the power of -1"""
COPIES = {aten.clone, aten._to_copy, aten.repeat}
"""operations whose result holds the same numbers as their operand"""
NOTED = {*PRODUCTS, *VIEWS, *SOFTMAXES, *SORTS, *POWERS, *COPIES, aten.sum}
"""the operations that say something of weights: the others run as they are"""
Change = Callable[[int, Tensor], Tensor]
"""of the index of a use, and of its weights or its result, to what takes their place"""


class Use(NamedTuple):
    """A product that sums over the keys."""

    weights: Tensor
    """(N, S), N being rows, heads and queries in some order"""
    values: Tensor
    """the other operand"""
    has_softmax: bool
    """a softmax over the keys came before it"""


class Watch(TorchDispatchMode):
    """Records the uses of weights (`Use`) over `length` keys, while it is entered by `with`.

    queries: how many there are: weights usually have a row for each, or one row.
    constant: parameters and buffers by their addresses in memory: a product with one is a layer, no
        use.
    change: from the index and the weights (N, S) of a use to the weights that it gets instead.
    freeze: from the index and the result of a use to the result that takes its place.
    """

    def __init__(
        self,
        length: int,
        queries: int,
        constant: Mapping[int, Tensor] = MappingProxyType({}),
        change: Change | None = None,
        freeze: Change | None = None,
    ) -> None:
        super().__init__()
        self.length, self.usual_rows, self.constant = length, {1, queries}, constant
        self.change, self.freeze = change, freeze
        self.uses: list[Use] = []
        self.products: list[tuple[Tensor, Tensor, float]] = []
        """operands of matrix products, and by which number these were multiplied before; nan if one
        is a parameter"""
        self.softmaxes: list[tuple[Tensor, Tensor]] = []
        """what each softmax was given, and returned"""
        self.is_twice = False
        """a softmax was applied to what another one returned"""
        self.is_over_one = False
        """a softmax of numbers for each key was applied over an axis of length 1"""
        self.selected = 0
        """how many keys with the largest numbers were chosen last; 0 if none were"""
        self.is_sorted = False
        """queries, or rows of the batch, were put in another order"""
        self.is_moved = False
        """a view mixed the axis of keys with others, which no transpose does"""
        self._factors: dict[int, tuple[float, Tensor]] = {}
        """the number by which a tensor was multiplied, by where it lies in memory, and the tensor
        itself: while it is kept, no other one lies there"""
        self._elementwise: dict[int, list[Any]] = {}
        """elementwise products, each as [product, left operand, right operand], by where the
        product lies in memory: they are kept so that nothing else can lie there"""

    @property
    def scores(self) -> list[tuple[Tensor, Tensor]]:
        """Each q · k (N, S), as if q and k had not been multiplied by numbers before, with its keys
        (..., S, D): all matrix products whose rows are as long as there are keys. A product with a
        parameter, as in a linear layer, is nan, which matches no weights
        """
        found = []
        for left, right, factor in self.products:
            product = left @ right / factor
            # either operand may be the keys, in q @ k.mT as in k @ q.mT
            for rows, keys in ((product, right.mT), (product.mT, left)):
                if rows.size(-1) == self.length:
                    found.append((rows.reshape(-1, self.length), keys))
        return found

    def __exit__(self, *error: Any) -> None:
        """Let go of what only other operations of the call needed."""
        self._factors.clear()
        self._elementwise.clear()
        self.softmaxes = [pair for pair in self.softmaxes if self.length in pair[0].shape]
        super().__exit__(*error)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation of torch, `func`, and return its result. torch calls this for each
        operation inside `with`.

        If the operation uses weights, record the use; then `change` gives it other weights, and
        `freeze` another result. Note what else it tells of the attention.
        """
        kind = getattr(func, "overloadpacket", None)  # such as aten.mm, of aten.mm.default
        if kind not in NOTED:
            return func(*args, **(kwargs or {}))
        args = list(args)
        index = len(self.uses)  # of the use that this operation may be
        if kind in PRODUCTS:
            pair = slice(PRODUCTS[kind], PRODUCTS[kind] + 2)
            left, right = args[pair]
            # (..., L, S) @ (..., S, D), or (..., D, S) @ (..., S, L): if this is a use, the axes
            # that are summed over, -1 and -2, are those of the keys; and features are the last axis
            # of the right operand beside weights on the left, or axis -2 of the left one. An axis
            # of length 1 holds no features: the product may only add the weights up
            multiplies_features = [right.size(-1) > 1, left.size(-2) > 1]
            if self.length in (left.size(-2), right.size(-1)):  # rows that may be scores of keys
                self.products.append((left, right, self._factor(left) * self._factor(right)))
            args[pair] = self._record([left, right], [-1, -2], multiplies_features)
        elif kind is aten.sum and len(args) > 1:
            # perhaps of a product of elements; axes may be None, all of them, which is no use
            args[0] = self._record_sum(args[0], args[1] or ())
        result = func(*args, **(kwargs or {}))
        self._note(kind, args, result)
        if len(self.uses) > index and self.freeze:
            result = self.freeze(index, result)
        return result

    def _note(self, kind: Any, args: list[Any], result: Any) -> None:
        """Note what an operation tells of the attention, other than a use of weights, in the fields
        that begin with `is_`, in `selected`, `softmaxes`, `_factors` and `_elementwise`.

        kind: one of NOTED, of which matrix products and sums tell nothing here. args: what the
        operation was given. result: what it returned.
        """
        operand = args[0]
        shape = list(operand.shape)
        if kind in SORTS:
            # B numbers are taken for the lengths of rows, by which a batch is sorted
            self.is_sorted |= shape == [B] or self._is_of_queries(shape)
        # a selection of keys: of all of the numbers, topk only puts them in order
        if kind is aten.topk and result[0].size(-1) < shape[-1] == self.length:
            self.selected = result[0].size(-1)
        if kind in VIEWS:
            self.is_moved |= self._is_moved(shape, list(result.shape))
        if kind in SOFTMAXES:
            # what another softmax returned, or a view of it, lies in the same memory
            self.is_twice |= any(place_of(operand) == place_of(made) for _, made in self.softmaxes)
            # args[1] is the axis that the softmax runs over; a single number has no axes
            self.is_over_one |= shape[args[1] :][:1] == [1] and self.length in shape
            self.softmaxes.append((operand, result))
        if kind in POWERS:
            # the result has the factors of both operands: of a number, itself; of a tensor, by what
            # it was multiplied before
            factor = self._factor(operand) * self._factor(args[1]) ** POWERS[kind]
            self._factors[place_of(result)] = factor, result
        if kind in COPIES:
            self._factors[place_of(result)] = self._factor(operand), result
        if kind is aten.mul and isinstance(args[1], Tensor):  # and not a number, such as a scale
            self._elementwise[result.data_ptr()] = [result, *args]

    def _factor(self, operand: Any) -> float:
        """Return a number itself, or that by which a tensor was multiplied, 1 by default; nan for
        parameters.
        """
        if not isinstance(operand, Tensor) or operand.numel() == 1:
            return float(operand)
        place = place_of(operand)
        return nan if place in self.constant else self._factors.get(place, (1.0, operand))[0]

    def _is_of_queries(self, shape: list[int]) -> bool:
        """Return whether numbers of this shape, sorted along its last axis, are one for each query,
        and not one for each query and key.
        """
        last, queries = shape[-1], max(self.usual_rows)  # of 1 and the number of queries
        # of two axes of this length, as in self-attention, the last one is that of the keys
        return last == queries > 1 and shape.count(last) == 1

    def _is_moved(self, before: list[int], after: list[int]) -> bool:
        """Return whether a view from the shape `before` to the shape `after` mixes the axis of keys
        with axes before it: then the product of the lengths of these axes changes.

        Views that shift relative positions mix them on purpose, and do not count: they have an axis
        of distances between places.
        """
        outer = set()  # the products, of both shapes
        # S distances, or 2 S - 1 or 2 S in both directions; one more with the padding that shifts
        # them
        both = 2 * self.length
        of_distances = {self.length + 1, both - 1, both, both + 1}
        for shape in (before, after):
            # with no axis, or two, of this length, none is known to be that of the keys
            if shape.count(self.length) != 1 or of_distances & {*shape}:
                return False
            outer.add(prod(shape[: shape.index(self.length)]))
        return len(outer) > 1

    def _record(
        self, operands: list[Tensor], axes: Sequence[int], multiplies_features: list[bool]
    ) -> list[Tensor]:
        """Record a product of two operands as a use, if neither is a parameter, and one may be
        weights: it is floating-point, has S numbers along the axis that is summed over, S being
        the number of keys, and is multiplied with features. If both may be weights, the one that
        looks more like them counts. Return the operands, with the weights that `change` puts there.

        axes: of each operand, the one that is summed over.
        multiplies_features: for each operand, whether the other one has an axis of features, as
            values do. Without one, the product may only add the weights up.
        """
        # a product with a parameter is a linear layer, and no average of values
        if any(place_of(one) in self.constant for one in operands):
            return operands
        found = []  # of operands that may be weights: likeness, index, rows
        for index, (operand, axis) in enumerate(zip(operands, axes, strict=True)):
            has_keys = operand.is_floating_point() and operand.size(axis) == self.length
            if has_keys and multiplies_features[index]:
                rows = operand.movedim(axis, -1)  # (..., S)
                found.append((self._likeness(rows), index, rows))
        if not found:
            return operands
        _, index, rows = max(found, key=itemgetter(0))  # the first one, if they are alike
        weights = rows.reshape(-1, self.length)  # (N, S)
        has_softmax = any(scores.size(-1) == self.length for scores, _ in self.softmaxes)
        self.uses.append(Use(weights, operands[1 - index], has_softmax))
        if self.change:
            changed = self.change(len(self.uses) - 1, weights).reshape(rows.shape)
            operands[index] = changed.movedim(-1, axes[index])
        return operands

    def _record_sum(self, terms: Tensor, axes: Sequence[int]) -> Tensor:
        """Record a sum over `axes` of `terms` as a use, if they are an elementwise product of
        weights and values, as in `(weights[:, :, None] * values).sum(1)`: a matrix product in two
        operations. Return the terms, or their product anew, with the weights that `change` puts
        there.
        """
        product, *operands = self._elementwise.get(terms.data_ptr(), [terms])
        summed = [axis % terms.dim() for axis in axes if terms.size(axis) > 1]
        # terms that are no product, a sum over several axes, or another view of the product
        if not operands or len(summed) != 1 or product.shape != terms.shape:
            return terms
        axis = summed[0] - terms.dim()  # from the end, as operands may have fewer axes
        are_expanded = [one.numel() < terms.numel() for one in operands]
        # an axis longer than 1 behind the summed one is of features
        features_follow = prod(terms.shape[axis:]) > terms.size(axis)
        if not features_follow and all((one >= 0).all() for one in operands):
            return terms  # weights times a mask, which are added up and average nothing
        # features times a mask, as in a mean over tokens
        if any(map(_is_mask, compress(operands, are_expanded))):
            return terms
        # features may also stand before the summed axis: then the weights were expanded to them
        multiplies_features = [features_follow or one for one in are_expanded]
        # leading axes of length 1, so that all operands have the same number of axes
        operands = [one[(None,) * (terms.dim() - one.dim())] for one in operands]
        left, right = self._record(operands, [axis, axis], multiplies_features)
        return left * right if self.change else terms

    def _likeness(self, rows: Tensor) -> tuple[Any, ...]:
        """Return how much an operand (..., S) looks like weights, as a tuple to be compared: the
        larger, the more. Its first difference decides: whether all rows sum to 1, whether no number
        is below 0, whether there are as many rows as queries, or one; how few numbers there are.
        """
        sums_to_one = bool((rows.sum(-1) - 1).abs().max() < 1e-3)
        strides = zip(rows.shape, rows.stride(), strict=True)
        # along an axis of stride 0, `expand` repeats the same numbers, which count once
        numbers = prod(size for size, stride in strides if stride)
        return sums_to_one, bool((rows >= 0).all()), rows.size(-2) in self.usual_rows, -numbers


def _is_mask(numbers: Tensor) -> bool:
    """Return whether numbers are 0 and 1, but not weights that choose one key each: somewhere along
    the second axis, more than one of them, or none, is 1.
    """
    is_one = numbers == 1
    return bool((is_one | (numbers == 0)).all() and (is_one.sum(1) != 1).any())


# what a class body defines is wrapped in a function that imports torch's compiler, which takes 2 s
Watch.__torch_dispatch__ = Watch.dispatch  # type: ignore[assignment]


def place_of(tensor: Tensor) -> int:
    """Return where a tensor's numbers lie in memory."""
    return tensor.untyped_storage().data_ptr()


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Let fused attention run as the separate products that it is equal to, until the exit: `Watch`
    sees no weights inside a fused kernel.
    """
    mha = torch.backends.mha  # of nn.MultiheadAttention and nn.TransformerEncoderLayer
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        mha.set_fastpath_enabled(before)
