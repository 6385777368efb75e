"""What an attention is given, how it is called, and how axes of its results are told apart."""

import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

B, L, S = 5, 3, 9  # rows, queries and keys: no two alike, and no width
ORDERS = ("bhl", "hbl", "blh", "lbh", "hlb", "lhb")
"""of rows, heads and queries in rows of weights, the usual ones first"""


class Inputs(NamedTuple):
    """What an attention is given."""

    query: Tensor | None
    """(B, L, Dq); None if it attends to itself, or pools"""
    keys: Tensor
    """(B, S, Dk)"""
    valid: Tensor
    """(B, S) True = real token"""
    values: Tensor | None = None
    """(B, S, Dk); by default they follow from the keys"""

    @property
    def unpadded(self) -> "Inputs":
        """The inputs with all keys valid"""
        return self._replace(valid=torch.ones_like(self.valid))

    def each(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        """Return the inputs with each tensor changed."""
        changed = [None if one is None else change(one) for one in self]
        return Inputs(*changed)  # type: ignore[arg-type]

    def times(self, factor: float) -> "Inputs":
        """Return the inputs with all numbers multiplied by a factor."""
        return self.each(lambda tensor: factor * tensor)._replace(valid=self.valid)

    def to(self, dtype: torch.dtype) -> "Inputs":
        """Return the inputs with all numbers of another type."""
        return self.each(lambda tensor: tensor.to(dtype))._replace(valid=self.valid)

    def moved(self, place: Any, *names: str) -> "Inputs":
        """Return the inputs with other numbers at one place of the tensors named: `query`, `keys`
        or `values`. place: an index or slice, such as (ALL, 0) for the first token of every row.

        The new numbers have another order, scale and mean, as an attention may ignore a change of
        one of these alone.
        """
        changed = {}
        for name in names:
            old = getattr(self, name)
            if old is not None:
                changed[name] = old.clone()
                changed[name][place] = 2 * old[place].flip(-1) - 1
        return self._replace(**changed)


def draw(query_width: int, width: int, queries: int, rows: int = B, length: int = S) -> Inputs:
    """Draw inputs, with rows as long as `padded` says. queries: how many; 0 for an attention that
    takes no query.
    """
    query = torch.randn(rows, queries, query_width) if queries else None
    return Inputs(query, torch.randn(rows, length, width), padded(rows, length))


def padded(rows: int, length: int) -> Tensor:
    """Return (rows, length), True = a token, of rows of different lengths: the second row has no
    padding, the first and the last are short.
    """
    lengths = torch.linspace(length, min(length, 2), rows).roll(1).long()
    return torch.arange(length) < lengths[:, None]


@dataclass(frozen=True)
class Call:
    """How an attention is called: expressions by the names of arguments."""

    attention: Any
    given: Mapping[str, str]
    first: str = ""
    """templates of statements that come before the call, with MASK where the mask stands"""
    mask: str = ""
    """the argument that says which keys are valid, if one is given"""
    form: str = "None"
    """the expression of the mask, for the case that not all keys are valid"""
    needs_mask: bool = False
    """it cannot be called without one, so it gets one even where all keys are valid"""
    placed: Collection[str] = ()
    """arguments that are given by their place, without a name"""
    by_row: bool = False
    """it takes one row of the batch: a query (L, Dq), keys (S, Dk) and so on"""
    is_anew: bool = False
    """each call is one of a copy, so that it leaves nothing behind for the next one"""
    after: str = ""
    """what joins the axes of an image in the result: ".flatten(1, 2)" """

    @property
    def before(self) -> str:
        """The statements that come before the call"""
        return self.first.replace("MASK", self.form)

    @property
    def inputs(self) -> str:
        """The names of `Inputs` that the expressions use, such as "query, keys" """
        texts = " ".join([self.before, self.form, *self.given.values()])
        return ", ".join(name for name in Inputs._fields if name in texts)

    @property
    def text(self) -> str:
        """The expression of the call"""
        given = {**self.given, self.mask: self.form}
        given.pop("", None)  # it takes no mask
        texts = [text if name in self.placed else f"{name}={text}" for name, text in given.items()]
        text = f"attention({', '.join(texts)}){self.after}"
        if self.by_row:
            # "different": otherwise vmap refuses random numbers, such as those of dropout
            return (
                f'torch.vmap(lambda {self.inputs}: {text}, randomness="different")({self.inputs})'
            )
        return text

    def __call__(self, given: Inputs) -> Any:
        """Call the attention: the expressions are evaluated with copies of the inputs as their
        variables. If all keys are valid, the mask is None, unless one is needed.
        """
        call = self
        if given.valid.all() and not self.needs_mask:
            call = replace(self, form="None")
        text = call.text
        if given.values is None and "values" in text:
            given = given._replace(values=given.keys.cos())
        attention = self.attention
        if self.is_anew:
            shared = {id(one): one for one in module_of(attention).parameters()}
            attention = copy.deepcopy(attention, shared)
        names = {**given.each(torch.clone)._asdict(), "attention": attention, "torch": torch}
        exec(_compiled(call.before, "exec"), names)
        return eval(_compiled(text, "eval"), names)

    def __str__(self) -> str:
        head = f"def attend({self.inputs}):"
        return "\n    ".join([head, *self.before.splitlines(), f"return {self.text}"])


@cache  # a call is made a hundred times, and compiling takes as long as a small module
def _compiled(text: str, mode: str) -> CodeType:
    return compile(text, "<call>", mode)


def tensors(result: Any) -> Iterator[Tensor]:
    """Yield the tensors of numbers in what is returned."""
    if isinstance(result, Tensor) and result.is_floating_point():
        yield result
    elif isinstance(result, Mapping | tuple | list):
        for one in result.values() if isinstance(result, Mapping) else result:
            yield from tensors(one)


def settle(tensor: Tensor, *sizes: int) -> Tensor:
    """Return a tensor with its axes in a known order, (*sizes, rest).

    Axes are told apart by their lengths: each size takes the first axis of that length that is
    left, and the axes that no size takes are flattened into the last one. Where there is no axis of
    that length, the new one has length 1.
    """
    left = list(range(tensor.dim()))
    order, found = [], []
    for size in sizes:
        axis = next((axis for axis in left if tensor.size(axis) == size), None)
        if axis is not None:
            left.remove(axis)
            order.append(axis)
        found.append(1 if axis is None else size)
    return tensor.permute(*order, *left).reshape(*found, -1)


def orders_of(heads: int) -> Sequence[str]:
    """Return the orders in which `arrange` may find weights of so many heads. A letter is an axis,
    the slowest first: b are rows of the batch, h heads, l queries. A digit at the end is an axis of
    heads, too, which come in groups of this size: in "bhl2" h is the number of pairs.
    """
    # below 10, as a size is one digit of an order
    groups = [size for size in range(2, min(heads, 10)) if heads % size == 0]
    return [*ORDERS, *(f"{order}{size}" for size in groups for order in ("bhl", "hbl"))]


def arrange(rows: Tensor, order: str, batch: int, queries: int) -> Tensor:
    """Return weights (N, S) as (B, H, L, S), N being rows, heads and queries in this order, such as
    "bhl" (see `orders_of`); heads that are all alike become one.
    """
    sizes = {"b": batch, "l": queries, "h": -1}  # -1: what is left
    shape = [sizes.get(axis) or int(axis) for axis in order]  # a digit is a size itself
    group = order[3:]  # the digit, if there is one: this axis is joined with that of heads
    axes = [order.index(axis) for axis in f"bh{group}l"]
    apart = rows.view(*shape, rows.size(1))
    heads = apart.permute(*axes, -1).reshape(batch, -1, queries, rows.size(1))  # (B, H, L, S)
    return heads[:, :1] if (heads == heads[:, :1]).all() else heads


def order_of(by_row: Tensor, by_query: Tensor, place: int, queries: int) -> str:
    """Return the order of rows, heads and queries in weights (N, S), such as "bhl"; the usual one
    if none fits, and the empty string if N is not a product of these.

    by_row (N,): which weights change with the inputs of the first row of the batch. by_query (N,):
    which change with the query at `place` of each row. In the right order nothing else changes.
    Where queries see each other, all of them change, and by_row alone decides.
    """
    heads, rest = divmod(len(by_row), B * queries)
    if rest:
        return ""
    fits_row = ""  # the first order that fits by_row, if not by_query
    for order in orders_of(heads):
        of_rows = arrange(by_row.float()[:, None], order, B, queries)  # (B, H, L, 1)
        of_queries = arrange(by_query.float()[:, None], order, B, queries)
        if of_rows[1:].any():  # in this order, weights of other rows would have changed
            continue
        of_queries[:, :, place] = 0  # these should change: does anything else?
        if not of_queries.any():
            return order
        fits_row = fits_row or order
    return fits_row or ORDERS[0]


def function_of(attention: Any) -> Any:
    """Return what is called: of a module, its `forward`."""
    return attention.forward if isinstance(attention, nn.Module) else attention


def arguments_of(attention: Any) -> Mapping[str, inspect.Parameter]:
    """Return what a call takes, by name."""
    return inspect.signature(function_of(attention)).parameters


def module_of(attention: Any) -> nn.Module:
    """Return the attention; of a function, one module that holds those that it calls: none for a
    callable of another kind.
    """
    attention = getattr(attention, "__self__", attention)  # of a method, such as `layer.attend`
    if isinstance(attention, nn.Module):
        return attention
    modules = nn.ModuleList()
    if inspect.isfunction(attention):
        seen = inspect.getclosurevars(attention)
        for value in (*seen.nonlocals.values(), *seen.globals.values()):
            if isinstance(value, nn.Module):
                modules.append(value)
    return modules
