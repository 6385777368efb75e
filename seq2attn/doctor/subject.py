"""What rules are checked on: an attention bound to inputs, and what a change of them reaches."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor.call import B, Bound, Inputs, Result, S, arrange, draw
from seq2attn.doctor.catch import Watch, transparent

CLOSE = 1e-4  # smaller differences, relative to the largest number of a result, are rounding
DRAWS = 5  # of small numbers, after which a place that nothing reached counts as closed


@dataclass(frozen=True)
class Subject:
    """An attention, inputs with padding, and what follows from many calls."""

    bound: Bound
    given: Inputs
    fresh: Any = None
    """a copy that was never called"""
    has_mask: bool = False
    told: Sequence[tuple[str, dict[str, Any]]] = ()
    """what the search for its call found"""
    scores: Sequence[Any] = ()
    """scores that may be named"""
    expect: str | None = None
    require: Sequence[str] = field(default_factory=list)

    # ---- calls ----

    @property
    def module(self) -> nn.Module:
        """The attention, or the modules that a function calls"""
        return self.bound.module

    def run(self, given: Inputs, **changes: Any) -> Result:
        """Call it."""
        return self.bound.run(given, **changes)

    def draw(self, length: int = S, rows: int = B) -> Inputs:
        """Draw other inputs."""
        query, width = self.given.query, self.given.keys.size(2)
        queries, query_width = (0, 0) if query is None else query.shape[1:]
        return draw(query_width, width, queries, rows, length)

    @cached_property
    def free(self) -> Result:
        """The result with all keys valid"""
        return self.run(self.given.free)

    @cached_property
    def masked(self) -> Result:
        """The result with padding"""
        return self.run(self.given)

    @property
    def both(self) -> Iterator[tuple[Inputs, Result]]:
        """The inputs without a mask and with one, if it takes one, and their results"""
        yield self.given.free, self.free
        if self.has_mask:
            yield self.given, self.masked

    def with_more(self, row: int | None = None, head: int | None = None) -> Tensor:
        """Return the output with 1 added to the weights of the last layer; those of one query, or
        of one head, alone.
        """
        last = max(self.bound.layers, default=0)
        queries = self.bound.queries(self.given)

        def more(index: int, weights: Tensor) -> Tensor:
            order = self.bound.orders[index]
            if self.bound.layers[index] < last or not order:
                return weights
            places = arrange(torch.arange(len(weights))[:, None], order, B, queries)
            rows, heads = (slice(None) if one is None else one for one in (row, head))
            added = torch.zeros_like(weights)
            added[places[:, heads, rows]] = 1
            return weights + added

        return self.run(self.given.free, change=more).output

    # ---- comparisons ----

    def apart(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the largest difference of each row (B, L), as a share of the largest number;
        infinity where there is none.
        """
        scale = self.free.output.nan_to_num().abs().max().clamp(min=1e-30)
        return ((left - right).abs() / scale).nan_to_num(torch.inf).amax(-1)

    def is_finite(self, given: Inputs, result: Result) -> bool:
        """Return whether a result has numbers in the rows of tokens."""
        real = self.real(given)
        output = result.output
        return bool(output.masked_fill(~real[:, : output.size(1)], 0).isfinite().all())

    def differ(self, left: Tensor, right: Tensor) -> float:
        """Return the largest of these."""
        return float(self.apart(left, right).max())

    def reach(self, given: Inputs, name: str) -> Tensor:
        """Return (B, L, places) how much a change at each place changes each row of the output."""
        base, columns = self.run(given).output, []
        for place in range(getattr(given, name).size(1)):
            moved = given.moved((slice(None), place), name)
            columns.append(self.apart(self.run(moved).output, base))
        return torch.stack(columns, dim=-1)

    @cached_property
    def seen(self) -> Tensor:
        """(L, S) Which places a row can follow at all: weights may be sparse or tiny, so that only
        zeros of several draws count
        """
        seen = self.reach(self.given.free, "keys").amax(0) > 0
        for _ in range(DRAWS):
            if seen.all():
                break
            seen |= self.reach(self.small.free, "keys").amax(0) > 0
        return seen

    def real(self, given: Inputs) -> Tensor:
        """Return (B, L, 1) which rows are those of a token: all, unless it attends to itself."""
        if self.bound.is_self:
            return given.valid[..., None]
        return torch.ones(len(given.keys), self.bound.queries(given), 1).bool()

    @property
    def small(self) -> Inputs:
        """Other inputs, so small that sparse weights spread"""
        drawn = self.draw()
        return drawn.each(lambda tensor: tensor * 0.1)._replace(valid=drawn.valid)

    @cached_property
    def own(self) -> Tensor:
        """(1, L, S) A row's own place, which it may see through itself"""
        places = self.given.keys.size(1)
        rows = self.free.output.size(1)
        return torch.eye(rows, places).bool()[None] & (self.bound.is_self and rows == places)

    @cached_property
    def is_among(self) -> bool:
        """Whether queries attend to each other as well"""
        queries = self.bound.queries(self.given)
        watch = Watch(queries, queries)
        with transparent(), watch:
            self.bound.call(self.given.free.each(torch.clone))
        return queries > 1 and bool(watch.uses)


def gap(left: Tensor, right: Tensor | float) -> float:
    """Return the largest difference; infinity where a number is NaN."""
    differences = (left - right).abs().nan_to_num(torch.inf)
    return float(differences.max()) if differences.numel() else 0.0


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Set the numbers, their types and the modes of a module to what they were, in the end."""
    modes = {part: part.training for part in module.modules()}
    saved = {}
    for name, tensor in _tensors(module):
        if not is_lazy(tensor):  # otherwise it has no numbers yet
            saved[name] = tensor.detach().clone()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for name, tensor in _tensors(module):
            if name in saved:
                tensor.data = saved[name]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())
