"""What rules are checked on: an attention with its call, and what a change of inputs reaches."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor.call import B, Call, Inputs, arguments_of, arrange, draw, settle, tensors
from seq2attn.doctor.catch import Use, Watch, place_of
from seq2attn.doctor.said import docs_of
from seq2attn.doctor.words import POSITIONS, words

CLOSE = 1e-4  # smaller differences, relative to the largest number of a result, are rounding
TINY = 1e-6
DRAWS = 5  # of small numbers, after which a place that nothing reached counts as closed
ALL = slice(None)
LOCAL = {*POSITIONS["blocks"], "segment", "segments", "window"}


class Result(NamedTuple):
    """What came of a call."""

    output: Tensor
    """(B, L, F); (B, L, S H) of weights alone, if nothing else is returned"""
    weights: Sequence[Tensor]
    """(B, H, L, S) of each use, or those that are returned if none was caught"""
    returned: Tensor | None
    """(B, H, L, S)"""
    watch: Watch
    """of the call, with all that it caught"""

    @property
    def uses(self) -> Sequence[Use]:
        """Products that sum over the keys"""
        return self.watch.uses


@dataclass(frozen=True)
class Subject:
    """An attention with its call, inputs with padding if it takes a mask, and what follows from
    many calls.
    """

    call: Call
    module: nn.Module
    """the attention, or the modules that a function calls"""
    given: Inputs
    fresh: Any = None
    """a copy that was never called"""
    is_self: bool = False
    """it attends to itself: L = S"""
    orders: Sequence[str] = ()
    """how rows, heads and queries follow each other in the weights of each use, such as "bhl"; ""
    if what was multiplied there is not weights"""
    outputs: Sequence[int] = ()
    """indices of the returned tensors that are not weights"""
    shown: Sequence[int] = ()
    """indices of the returned tensors that are weights"""
    zeros: Sequence[str] = ()
    """parameters of layers that were 0 before it was prepared for this"""
    told: Sequence[tuple[str, Any]] = ()
    """findings, with their evidence, of the search for its call"""
    doubts: float = 0
    """how doubtful it is that the call is the right one"""
    scores: Sequence[Any] = ()
    """scores that may be named"""
    expect: str | None = None
    require: Sequence[str] = ()

    @property
    def length(self) -> int:
        """S"""
        return self.given.keys.size(1)

    @property
    def arguments(self) -> Mapping[str, Parameter]:
        """Those that it takes, by name"""
        return arguments_of(self.call.attention)

    @property
    def docs(self) -> str:
        """Its name and docstrings"""
        return docs_of(self.call.attention)

    # ---- calls ----

    def called(self, **changes: Any) -> "Subject":
        """Return the subject, called in another way. changes: of the fields of its `Call`."""
        return replace(self, call=replace(self.call, **changes))

    def queries(self, given: Inputs) -> int:
        """Return L."""
        if given.query is not None:
            return given.query.size(1)
        return given.keys.size(1) if self.is_self else 1

    @property
    def is_image(self) -> bool:
        """Whether keys are given as an image, one row (B, 1, S, D) or square, of which a module may
        gather windows
        """
        is_row = any("keys[:, None]" in text for text in self.call.given.values())
        return is_row or bool(self.call.after)

    @property
    def is_local(self) -> bool:
        """Whether a number of a part is named after blocks, segments or windows of places"""
        return any(self._numbers(LOCAL))

    @property
    def window(self) -> int:
        """The first number of a part that is named after a window of places; 0 without one"""
        return next(self._numbers({"window", "win", "ws"}), 0)

    def _numbers(self, named: set[str]) -> Iterator[int]:
        """Yield the whole numbers of parts that have one of these words in their names."""
        for part in self.module.modules():
            for name, value in vars(part).items():
                if type(value) is int and words(name) & named:
                    yield value

    @property
    def joins_neighbours(self) -> bool:
        """Whether a convolution, or a recurrent layer, joins places next to each other"""
        return any(
            isinstance(part, nn.RNNBase)
            or (isinstance(part, nn.Conv1d | nn.Conv2d) and max(part.kernel_size) > 1)
            for part in self.module.modules()
        )

    @property
    def constant(self) -> set[int]:
        """Where parameters and buffers lie in memory"""
        return {place_of(tensor) for _, tensor in _tensors(self.module)}

    def results(self, given: Inputs) -> list[Tensor]:
        """Return the tensors that a call returns."""
        result = self.call(given)
        if result is None:  # some keep what they compute on self
            result = vars(self.call.attention)
        return list(tensors(result))

    def raw(
        self, given: Inputs, is_watched: bool = True, **changes: Any
    ) -> tuple[list[Tensor], Watch]:
        """Return the tensors that a call returns, and a `Watch` with what it caught, if the call is
        watched. changes: `change` and `freeze` of the `Watch`.
        """
        constant = self.constant if is_watched else ()
        watch = Watch(given.keys.size(1), self.queries(given), constant, **changes)
        with watch if is_watched else contextlib.nullcontext():
            return self.results(given), watch

    def run(self, given: Inputs, **changes: Any) -> Result:
        """Call the attention, and arrange what it returns, and the weights that it uses, in the
        layouts that `observed` found. The output is all tensors that are not weights, side by side;
        if it returns weights alone, they are the output.

        Returned weights that are logarithms, as of `log_softmax`, are turned into weights. changes:
        see `raw`.
        """
        returned, watch = self.raw(given, **changes)
        uses = watch.uses
        sizes = len(given.keys), self.queries(given)
        weights, shown = [], None
        if len(uses) == len(self.orders):  # otherwise it is not known which use is which
            for use, order in zip(uses, self.orders, strict=True):
                if order:
                    weights.append(arrange(use.weights, order, *sizes))
        if self.shown:
            # (B, L, S, H), then (B, H, L, S)
            shown = settle(returned[self.shown[0]], *sizes, given.keys.size(1)).movedim(3, 1)
            # in a row without padding: masked after a log_softmax, others may have another sum
            is_log = shown.max() <= 0 and (shown.exp().sum(-1) - 1).abs().min() < 1e-3
            shown = shown.exp() if is_log else shown
            if not weights and (shown >= 0).all():
                weights = [shown]
            shown = shown.masked_fill(shown.isneginf(), 0)  # of scores, where they are masked
        output = [settle(returned[index], *sizes) for index in self.outputs]
        if not output:  # weights alone, returned or, if nothing is, caught
            alone = weights[0] if shown is None else shown
            output = [alone.permute(0, 2, 3, 1).flatten(2)]  # (B, L, S H)
        return Result(torch.cat(output, dim=-1), weights, shown, watch)

    def output(self, given: Inputs | None = None) -> Tensor:
        """Return the output (B, L, F); by default, that with all keys valid. The call is not
        watched, which takes longer than the call, unless the output is made of weights that were
        caught.
        """
        is_watched = not (self.outputs or self.shown)
        return self.run(given or self.given.unpadded, is_watched=is_watched).output

    @cached_property
    def free(self) -> Result:
        """The result with all keys valid"""
        return self.run(self.given.unpadded)

    @cached_property
    def masked(self) -> Result:
        """The result with padding"""
        return self.run(self.given)

    @property
    def has_mask(self) -> bool:
        """Whether it takes a mask"""
        return not self.given.valid.all()

    @property
    def both(self) -> Iterator[tuple[Inputs, Result]]:
        """The inputs without padding, and with it if it takes a mask, and their results"""
        yield self.given.unpadded, self.free
        if self.has_mask:
            yield self.given, self.masked

    def draw(self, length: int | None = None, rows: int = B, width: int | None = None) -> Inputs:
        """Draw other inputs, like `given` but for this length, number of rows and width."""
        query, keys = self.given.query, self.given.keys
        queries, query_width = (0, 0) if query is None else query.shape[1:]
        if query is not None and queries == keys.size(1):  # it takes no other number
            queries = length or queries
        widths = width or query_width, width or keys.size(2)
        drawn = draw(*widths, queries, rows, length or keys.size(1))
        return drawn if self.has_mask else drawn.unpadded

    def small(self) -> Inputs:
        """Draw other inputs, so small that sparse weights spread."""
        return self.draw().times(0.1)

    def more(self, of_use: int | None, head: Any = ALL, row: Any = ALL) -> Tensor:
        """Return how much each row (B, L) of the output changes if 1 is added to all weights of a
        use, or to those of one head or one row (query) alone.

        of_use: the index of the use.
        """

        def add(index: int, weights: Tensor) -> Tensor:
            if index != of_use:
                return weights
            added = torch.zeros_like(weights)  # (N, S)
            indices = torch.arange(len(weights))[:, None]  # (N, 1), then (B, H, L, 1)
            indices = arrange(indices, self.orders[index], B, self.queries(self.given))
            added[indices[:, head, row]] = 1
            return weights + added

        return self.differences(self.run(self.given.unpadded, change=add).output, self.free.output)

    @cached_property
    def last_use(self) -> int | None:
        """The index of the last use of weights that changes the result, or else of the last one;
        None if there is none, or if something else than weights was caught
        """
        if not all(self.orders) or not self.orders:
            return None
        last = len(self.orders) - 1
        for use in range(last, -1, -1):
            if self.more(use).max() > TINY:
                return use
        return last

    def on_padding(self, result: Result) -> Tensor:
        """Return (B, S) the largest weight that rows of tokens give to padding; 0 elsewhere, and
        where rows were sorted, as their weights then stand elsewhere than their padding.
        """
        valid = self.given.valid
        is_counted = ~valid[:, None, None] & self.token_rows(self.given)[:, None]  # (B, 1, L, S)
        most = torch.zeros(valid.shape)
        for weights in () if result.watch.is_sorted else result.weights:
            most = torch.maximum(most, weights.masked_fill(~is_counted, 0).amax((1, 2)))
        return most

    # ---- comparisons ----

    def token_rows(self, given: Inputs) -> Tensor:
        """Return (B, L, 1) which rows are those of a token: all, unless it attends to itself."""
        real = given.valid if self.is_self else given.valid[:, :1]
        return real[..., None]

    def _of_tokens(self, given: Inputs, output: Tensor) -> Tensor:
        """Return an output (B, rows, F), which may have fewer rows than there are tokens, with 0 in
        the rows of padding.
        """
        return output.masked_fill(~self.token_rows(given)[:, : output.size(1)], 0)

    def differences(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the largest difference of each row (B, L), as a share of the largest number;
        infinity where one is NaN.
        """
        scale = self.free.output.nan_to_num().abs().max().clamp(min=1e-30)
        return ((left - right).abs() / scale).nan_to_num(torch.inf).amax(-1)

    def difference(self, left: Tensor, right: Tensor) -> float:
        """Return the largest difference of all rows, as a share of the largest number."""
        return float(self.differences(left, right).max())

    def difference_of_tokens(self, given: Inputs, left: Tensor, right: Tensor) -> float:
        """Return the largest difference of all rows of tokens."""
        return self.difference(self._of_tokens(given, left), self._of_tokens(given, right))

    def change(self, given: Inputs) -> Tensor:
        """Return how much each row (B, L) changes with other inputs."""
        return self.differences(self.output(given), self.free.output)

    def is_finite(self, given: Inputs) -> bool:
        """Return whether a result has numbers in the rows of tokens."""
        return bool(self._of_tokens(given, self.output(given)).isfinite().all())

    def reach(self, given: Inputs, name: str) -> Tensor:
        """Return (B, L, places) how much a change at each place changes each row of the output."""
        base, columns = self.output(given), []
        for place in range(getattr(given, name).size(1)):
            output = self.output(given.moved((ALL, place), name))
            columns.append(self.differences(output, base))
        return torch.stack(columns, dim=-1)

    @cached_property
    def seen(self) -> Tensor:
        """(L, S) Which places change a row at all. Weights may be sparse or tiny: a place counts as
        unseen if it changes nothing in several draws of small numbers
        """
        seen = self.reach(self.given.unpadded, "keys").amax(0) > 0
        for _ in range(DRAWS):
            if not seen.all():
                seen |= self.reach(self.small().unpadded, "keys").amax(0) > 0
        return seen

    @cached_property
    def own(self) -> Tensor:
        """(1, L, S) True at the place of the row itself, in self-attention: it may change the row
        by a residual connection alone
        """
        rows, places = self.free.output.size(1), self.given.keys.size(1)
        return torch.eye(rows, places).bool()[None] & (self.is_self and rows == places)

    @property
    def is_apart(self) -> bool:
        """Whether it attends to itself, and no key changes another row than its own"""
        first = self.given.unpadded.moved((ALL, 0), "keys")  # one that does is mostly found at once
        if not self.own.any() or float(self.change(first)[:, 1:].max()) > TINY:
            return False
        return float(self.reach(self.given.unpadded, "keys").masked_fill(self.own, 0).max()) < TINY

    @property
    def is_causal(self) -> bool:
        """Whether it attends to itself, and no row sees a later place"""
        return bool(self.own.any()) and not self.seen.triu(1).any()

    @cached_property
    def by_position(self) -> bool:
        """Whether the same keys in another order give another result"""
        return self.of_order(self.given.unpadded) > CLOSE

    def of_order(self, given: Inputs) -> float:
        """Return how much the result changes if the last key becomes the first one. In
        self-attention, where the keys are the queries, too, the last but one becomes the first, and
        only the last row is compared: its query and the keys that it may see stay the same.
        """
        if self.own.any():
            first, last = given.keys[:, :-1], given.keys[:, -1:]
            rolled = given._replace(keys=torch.cat([first.roll(1, 1), last], dim=1))
            return self.difference(self.output(rolled)[:, -1:], self.output(given)[:, -1:])
        rolled = given.each(lambda tensor: tensor.roll(1, 1))._replace(query=given.query)
        output = self.output(rolled)
        if not self.outputs:  # of weights alone (B, L, S H), which are rolled as their keys
            output = output.roll(-output.size(2) // given.keys.size(1), 2)  # by H numbers
        return self.difference(output, self.output(given))

    def attends_over(self, length: int) -> bool:
        """Return whether a call averages over this many places, with weights that sum to 1. If it
        does over L places, queries attend to each other first, as in a decoder layer; over L + S,
        they attend to queries and keys together.
        """
        watch = Watch(length, self.queries(self.given))
        with watch:
            self.call(self.given.unpadded)
        return any(gap(use.weights.sum(-1), 1) < CLOSE for use in watch.uses)


def least_doubtful(subjects: Sequence[Subject]) -> Subject:
    """Return the first of those that are the least doubtful."""
    return min(subjects, key=lambda subject: subject.doubts)


def gap(left: Tensor, right: Tensor | float) -> float:
    """Return the largest difference; infinity where a number is NaN."""
    differences = (left - right).abs().nan_to_num(torch.inf)
    return float(differences.max()) if differences.numel() else 0.0


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Restore the numbers of a module, their types and its modes on exit."""
    modes = {part: part.training for part in module.modules()}
    saved = {name: tensor.detach().clone() for name, tensor in _tensors(module)}
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for name, tensor in _tensors(module):
            if name in saved:  # a lazy parameter that was made meanwhile is not
                tensor.data = saved[name]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters and buffers that have numbers."""
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if not is_lazy(tensor):
            yield name, tensor
