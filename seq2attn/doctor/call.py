"""What an attention is given, how it is called, and how axes of its results are told apart."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

B, L, S = 5, 3, 9  # rows of the batch, queries and keys: no two alike, nor like any width
ORDERS = ("bhl", "hbl", "blh", "lbh", "hlb", "lhb")
"""orders of rows of the batch (b), heads (h) and queries (l) in weights (N, S), where N is their
product; the usual ones first"""


class Inputs(NamedTuple):
    """What an attention is given."""

    query: Tensor | None
    """(B, L, Dq); None if the attention attends to itself, or pools"""
    keys: Tensor
    """(B, S, Dk)"""
    valid: Tensor
    """(B, S) True = real token"""
    values: Tensor | None = None
    """(B, S, Dk); None: a call that takes values gets the cosines of the keys"""

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

    def changed_at(self, place: Any, *names: str) -> "Inputs":
        """Return the inputs with other numbers at one place of the tensors named: `query`, `keys`
        or `values`; one that is None stays so.

        place: what may stand in brackets behind these tensors, for axes before the last one, which
        is of features: 0 for the first row of the batch, (ALL, 0) for the first token of each row,
        or a mask (B, S).

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
    """How an attention is called, written down as Python."""

    attention: Any
    expressions: Mapping[str, str]
    """expressions by the names of arguments, without `mask`, such as {"query": "query[:, 0]"}"""
    first: str = ""
    """templates of statements that come before the call, with MASK where the mask stands"""
    mask: str = ""
    """the argument that says which keys are valid; "" if none is given"""
    form: str = "None"
    """the expression of the mask, for the case that not all keys are valid"""
    needs_mask: bool = False
    """the attention cannot be called without a mask: it gets one even where all keys are valid"""
    by_row: bool = False
    """the attention takes one row of the batch: a query (L, Dq), keys (S, Dk) and so on"""
    after: str = ""
    """joins the two axes of an image in the result, as ".flatten(1, 2)" does; "" without images"""
    embeddings: Mapping[str, int] = field(default_factory=dict)
    """names of the embeddings that are given ids of the keys, and of the query, each with how many
    ids lie between its own and these"""

    @property
    def before(self) -> str:
        """The statements that come before the call"""
        return "\n".join([*self._lookups(), *self.first.replace("MASK", self.form).splitlines()])

    def _lookups(self) -> Iterator[str]:
        """Yield for each of the `embeddings` the statement that adds the keys, and the query, to
        the vectors that it looks up.
        """
        added = "keys.flatten(0, 1)"
        if "query" in " ".join(self.expressions.values()):
            added += ", query.flatten(0, 1)"
        for name, missing in self.embeddings.items():
            part = f'attention.get_submodule("{name}")'
            known = f"{part}.weight"
            if missing:
                known = f"torch.nn.functional.pad({known}, (0, 0, 0, {missing}))"
            yield f"{part}.forward = torch.cat([{known}, {added}]).__getitem__"

    @property
    def inputs(self) -> str:
        """The names of `Inputs` that the expressions use, such as "query, keys" """
        texts = " ".join([self.before, self.form, *self.expressions.values()])
        return ", ".join(name for name in Inputs._fields if name in texts)

    @property
    def text(self) -> str:
        """The expression of the call, such as "attention(query=query, keys=keys, mask=valid)" """
        given = {**self.expressions, self.mask: self.form}
        given.pop("", None)  # the name of the mask is "" where none is given
        texts = [f"{name}={text}" for name, text in given.items()]
        text = f"attention({', '.join(texts)}){self.after}"
        if self.by_row:  # vmap calls it with each row of the batch
            # "different": otherwise vmap refuses random numbers, such as those of dropout
            return (
                f'torch.vmap(lambda {self.inputs}: {text}, randomness="different")({self.inputs})'
            )
        return text

    def __call__(self, inputs: Inputs) -> Any:
        """Return what the attention returns: the statements `before` are run, and then the
        expression `text`, with copies of the inputs as their variables. If all keys are valid, the
        mask is None, unless one is needed.
        """
        call = self
        if inputs.valid.all() and not self.needs_mask:
            call = replace(self, form="None")
        text = call.text
        if inputs.values is None and "values" in text:
            inputs = inputs._replace(values=inputs.keys.cos())  # other numbers than the keys
        names = inputs.each(torch.clone)._asdict()
        names |= {"attention": self.attention, "torch": torch}
        try:
            exec(_compiled(call.before, "exec"), names)
            return eval(_compiled(text, "eval"), names)
        finally:
            for name in self.embeddings:
                vars(self.attention.get_submodule(name)).pop("forward", None)

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

    Axes are told apart by their lengths: each size takes the first axis of that length that no
    earlier size took, and the axes that no size takes are flattened into the last one. Where there
    is no axis for a size, the new one has length 1.
    """
    rest = list(range(tensor.dim()))  # axes that no size took so far
    order, lengths = [], []
    for size in sizes:
        axis = next((axis for axis in rest if tensor.size(axis) == size), None)
        if axis is not None:
            rest.remove(axis)
            order.append(axis)
        lengths.append(1 if axis is None else size)
    return tensor.permute(*order, *rest).reshape(*lengths, -1)


def orders_of(heads: int) -> Sequence[str]:
    """Return the orders in which `arrange` may find weights of so many heads. A letter is an axis,
    the slowest first: b are rows of the batch, h heads, l queries. A digit at the end is an axis of
    heads, too, which come in groups of this size: in "bhl2" h is the number of pairs.
    """
    # below 10, as a size is one digit of an order
    groups = [size for size in range(2, min(heads, 10)) if heads % size == 0]
    return [*ORDERS, *(f"{order}{size}" for size in groups for order in ("bhl", "hbl"))]


def arrange(rows: Tensor, order: str, batch: int, queries: int) -> Tensor:
    """Return weights (N, S) as (B, H, L, S). If all heads have the same weights, H = 1.

    order: of rows, heads and queries in N, such as "bhl" (see `orders_of`).
    batch, queries: B and L; there are N / (B L) heads.
    """
    sizes = {"b": batch, "l": queries, "h": -1}  # -1: torch finds the number out
    shape = [sizes.get(axis) or int(axis) for axis in order]  # a digit is a size itself
    group = order[3:]  # the digit, or "": its axis is joined with that of h, to all heads
    axes = [order.index(axis) for axis in f"bh{group}l"]
    apart = rows.view(*shape, rows.size(1))  # of "bhl2": (B, H / 2, L, 2, S)
    heads = apart.permute(*axes, -1).reshape(batch, -1, queries, rows.size(1))  # (B, H, L, S)
    return heads[:, :1] if (heads == heads[:, :1]).all() else heads


def order_of(by_row: Tensor, by_query: Tensor, place: int, queries: int) -> str:
    """Return the order of rows of the batch, heads and queries in weights (N, S), such as "bhl";
    the usual one if none fits, and "" if N is not a multiple of B times the number of queries.

    by_row (N,): which weights change with the inputs of the first row of the batch. by_query (N,):
    which change with the query at `place` of each row. In the right order no weights of other rows,
    or of other queries, change. Where queries see each other, the weights of all of them change,
    and by_row alone decides.
    """
    heads, rest = divmod(len(by_row), B * queries)
    if rest:
        return ""
    fits_row = ""  # the first order that fits by_row, if not by_query
    for order in orders_of(heads):
        of_rows = arrange(by_row.float()[:, None], order, B, queries)  # (B, H, L, 1)
        of_queries = arrange(by_query.float()[:, None], order, B, queries)  # (B, H, L, 1)
        if of_rows[1:].any():  # in this order, weights of other rows would have changed
            continue
        of_queries[:, :, place] = 0  # these should change: do those of another query?
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
    """Return the module of an attention: the attention itself, or the module that it is a method
    of. For a function, that is a list (`nn.ModuleList`) of the modules among the variables outside
    it that it uses; for a callable of another kind, an empty list.
    """
    attention = getattr(attention, "__self__", attention)  # of a method, such as `layer.attend`
    if isinstance(attention, nn.Module):
        return attention
    modules = nn.ModuleList()
    if inspect.isfunction(attention):
        seen = inspect.getclosurevars(attention)  # nonlocals and globals that it names
        for value in (*seen.nonlocals.values(), *seen.globals.values()):
            if isinstance(value, nn.Module):
                modules.append(value)
    return modules
