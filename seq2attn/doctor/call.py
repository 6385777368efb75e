"""Calls an attention, and arranges what came of it: the layouts of weights and of results are found
once, by sizes and by what a change of one row, or of one query, reaches.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor.catch import Change, Use, Watch, transparent

B, L, S = 5, 3, 9  # rows, queries and keys: no two alike, and no width
SIDES = "(3, 3)"  # of an image of S places
TINY = 1e-6
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
    def free(self) -> "Inputs":
        """The inputs with all keys valid"""
        return self._replace(valid=torch.ones_like(self.valid))

    def each(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        """Return the inputs with each tensor changed."""
        changed = [None if one is None else change(one) for one in self]
        return Inputs(*changed)  # type: ignore[arg-type]

    def moved(self, place: Any, *names: str) -> "Inputs":
        """Change the numbers at a place of `query`, `keys` or `values`."""
        changed = {}
        for name in names:
            old = getattr(self, name)
            if old is not None:
                changed[name] = old.clone()
                changed[name][place] = 2 * old[place].flip(-1) - 1
        return self._replace(**changed)


def draw(query_width: int, width: int, queries: int, rows: int = B, length: int = S) -> Inputs:
    """Draw inputs; the second row is the longest, the first and the last are short. queries: 0 for
    none.
    """
    query = torch.randn(rows, queries, query_width) if queries else None
    lengths = torch.linspace(length, min(length, 2), rows).roll(1).long()
    valid = torch.arange(length) < lengths[:, None]
    return Inputs(query, torch.randn(rows, length, width), valid)


@dataclass(frozen=True)
class Call:
    """How an attention is called: expressions by the names of arguments."""

    attention: Any
    given: Mapping[str, str]
    first: str = ""
    """statements before it, with MASK where the mask stands"""
    mask: str = ""
    """the argument that says which keys are valid, if one is given"""
    form: str = "None"
    """of the mask, if not all keys are valid"""
    needs_mask: bool = False
    """it does not do without"""

    @property
    def text(self) -> str:
        """The expression of the call"""
        given = {**self.given, **({self.mask: self.form} if self.mask else {})}
        return f"attention({', '.join(f'{name}={text}' for name, text in given.items())})"

    def __call__(self, given: Inputs) -> Any:
        call = self
        if given.valid.all() and not self.needs_mask:
            call = replace(self, form="None")
        values = given.keys.cos() if given.values is None else given.values
        names = {**given._asdict(), "values": values, "attention": self.attention, "torch": torch}
        exec(call.first.replace("MASK", call.form), names)
        return eval(call.text, names)

    def __str__(self) -> str:
        first = self.first.replace("MASK", self.form)
        texts = f"{first} {self.form if self.mask else ''} {' '.join(self.given.values())}"
        names = [name for name in ("query", "keys", "valid", "values") if name in texts]
        head = f"def attend({', '.join(names)}):"
        return "\n    ".join([head, *first.splitlines(), f"return {self.text}"])


class Result(NamedTuple):
    """What came of a call."""

    output: Tensor
    """(B, L, F); of weights alone, if nothing else is returned"""
    weights: list[Tensor]
    """of each layer (B, H, L, S), as used"""
    returned: Tensor | None
    """(B, H, L, S)"""
    uses: list[Use]


@dataclass(frozen=True)
class Bound:
    """A call with the layouts of what it uses and returns."""

    call: Call
    module: nn.Module
    """the attention, or the modules that a function calls"""
    is_self: bool
    """it attends to itself: L = S"""
    orders: list[str] = field(default_factory=list)
    """of each use; empty if its weights have no layout"""
    layers: list[int] = field(default_factory=list)
    """of each use: those of heads are the same, as none changes another's weights"""
    shown: list[tuple[int, int, str]] = field(default_factory=list)
    """returned weights: index, axis of keys, order"""
    outputs: list[tuple[int, int, int | None]] = field(default_factory=list)
    """what else is returned: index, axis of rows, axis of queries of the rest"""

    def queries(self, given: Inputs) -> int:
        """Return L."""
        if given.query is not None:
            return given.query.size(1)
        return given.keys.size(1) if self.is_self else 1

    def raw(
        self, given: Inputs, change: Change | None = None, freeze: Change | None = None
    ) -> tuple[list[Tensor], list[Use]]:
        """Return the tensors that a call returns, and its uses of weights."""
        constant = set(map(_place_of, [*self.module.parameters(), *self.module.buffers()]))
        watch = Watch(given.keys.size(1), self.queries(given), constant, change, freeze)
        with transparent(), watch:
            result = self.call(given.each(torch.clone))
        if result is None:  # some keep what they compute
            result = vars(self.call.attention)
        return list(tensors(result, SIDES in self.call.text)), watch.uses

    def run(
        self, given: Inputs, change: Change | None = None, freeze: Change | None = None
    ) -> Result:
        """Call it, and arrange what came of it."""
        returned, uses = self.raw(given, change, freeze)
        sizes = len(given.keys), self.queries(given)
        heads: dict[int, list[Tensor]] = {}
        for use, order, layer in zip(uses, self.orders, self.layers, strict=False):
            if order and len(uses) == len(self.orders):
                heads.setdefault(layer, []).append(arrange(use.weights, order, *sizes))
        weights = [torch.cat(of_layer, dim=1) for of_layer in heads.values()]
        shown = None
        for index, axis, order in self.shown[:1]:
            rows = returned[index].movedim(axis, -1).flatten(0, -2)
            shown = probabilities(arrange(rows, order, *sizes))
            if not weights and (shown >= 0).all():
                weights = [shown]
        output = []
        if not self.outputs:
            weighted = weights if shown is None else [*weights, shown]
            output = [one.permute(0, 2, 3, 1).flatten(2) for one in weighted[:1]]
        for index, axis, row in self.outputs:
            value = returned[index].movedim(axis, 0)
            value = value.unsqueeze(1) if row is None else value.movedim(row + 1, 1)
            output.append(value.unsqueeze(2).flatten(2))
        return Result(torch.cat(output, dim=-1), weights, shown, uses)


def arrange(rows: Tensor, order: str, batch: int, queries: int) -> Tensor:
    """Return weights (N, S) as (B, H, L, S); heads that are all alike are one."""
    sizes = {"b": batch, "l": queries, "h": -1}
    whole = rows.view(*(sizes[axis] for axis in order), rows.size(1))
    whole = whole.permute(*(order.index(axis) for axis in "bhl"), 3)
    return whole[:, :1] if (whole == whole[:, :1]).all() else whole


def probabilities(weights: Tensor) -> Tensor:
    """Return weights, of which a pointer may return the logarithms."""
    is_log = weights.max() <= 0 and (weights.exp().sum(-1) - 1).abs().max() < 1e-3
    return weights.exp() if is_log else weights


def tensors(result: Any, is_image: bool = False) -> Iterator[Tensor]:
    """Yield the tensors of numbers in what is returned."""
    if isinstance(result, Tensor) and result.is_floating_point():
        yield result.flatten(-2) if is_image and result.dim() > 2 else result
    elif isinstance(result, Mapping):
        yield from tensors(list(result.values()), is_image)
    elif isinstance(result, tuple | list):
        for one in result:
            yield from tensors(one, is_image)


# ---- the layouts of one call ----


def _place_of(tensor: Tensor) -> int:
    return 0 if is_lazy(tensor) else tensor.untyped_storage().data_ptr()


def bind(call: Call, given: Inputs, module: nn.Module) -> Bound:
    """Call an attention a few times, and return it with the layouts of what came of it."""
    given = given.free
    returned, _ = Bound(call, module, False).raw(given)
    bound = Bound(call, module, given.query is None and _is_self(returned))
    calls = [given, given.moved(0, "query", "keys"), given.moved((slice(None), 0), "query")]
    results = [bound.raw(one) for one in calls]
    queries = bound.queries(given)
    uses = [uses for _, uses in results]
    for three in zip(*uses, strict=True):
        bound.orders.append(_order_of([use.weights for use in three], queries))
    for index, three in enumerate(zip(*(returned for returned, _ in results), strict=True)):
        _place(bound, index, three, queries)
    bound.shown.sort(
        key=lambda one: results[0][0][one[0]].numel()
    )  # of several: no scores of heads
    bound.layers.extend(_layers(bound, given, uses[0]))
    return bound


def _is_self(returned: list[Tensor]) -> bool:
    """Return whether what is returned has a row for each key, if it is not weights alone."""
    shapes = [one.shape for one in returned if B in one.shape]
    is_long = [shape.numel() > B * S for shape in shapes if S in shape]
    return any(is_long) and len(is_long) == len(shapes)


def _order_of(three: list[Tensor], queries: int) -> str:
    """Return the order of rows, heads and queries in weights (N, S): that in which a change of the
    first row, and of the first query, stays there; the empty string if sizes allow none.
    """
    if len(three[0]) % (B * queries):
        return ""
    of_rows = []
    for order in ORDERS:
        first, row, query = (arrange(one, order, B, queries) for one in three)
        if first.shape == row.shape == query.shape and not (first - row)[1:].any():
            of_rows.append(order)
            if not (first - query)[:, :, 1:].any():
                return order
    return [*of_rows, "bhl"][0]


def _place(bound: Bound, index: int, three: tuple[Tensor, ...], queries: int) -> None:
    """Find where rows and queries stand in what is returned at an index."""
    one, row, _ = three
    sizes = list(one.shape)
    if B not in sizes:
        return
    is_square = not bound.is_self or sizes.count(S) > 1
    if S in sizes and is_square and one.numel() % (B * queries * S) == 0:
        axis = len(sizes) - 1 - sizes[::-1].index(S)
        rows = [each.movedim(axis, -1).flatten(0, -2) for each in three]
        bound.shown.append((index, axis, _order_of(rows, queries)))
        return
    places = [axis for axis, size in enumerate(sizes) if size == B]
    apart = [axis for axis in places if not (one - row).movedim(axis, 0)[1:].any()]
    axis = [*apart, *places][0]
    rest = sizes[:axis] + sizes[axis + 1 :]
    at = rest.index(queries) if queries > 1 and queries in rest else None
    bound.outputs.append((index, axis, at))


def _more(index: int, at: int, weights: Tensor) -> Tensor:
    return weights + (at == index)


def _layers(bound: Bound, given: Inputs, uses: list[Use]) -> list[int]:
    """Return the layer of each use: later than those whose weights reach its operands."""
    layers = [0] * len(uses)
    for index in range(len(uses) - 1):
        _, others = bound.raw(given, change=partial(_more, index))
        for later in range(index + 1, len(uses)):
            pairs = zip(uses[later], others[later], strict=True)
            if any((before - after).abs().max() > TINY for before, after in pairs):
                layers[later] = max(layers[later], layers[index] + 1)
    return layers
