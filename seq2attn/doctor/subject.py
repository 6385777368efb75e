"""What rules are checked on: an attention with its call, and what a change of inputs reaches.

B counts rows of a batch, H heads, L queries, S keys. A "use" is a product of weights and values
that sums over the keys, caught by a `Watch` while a call runs.
"""

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
TINY = 1e-6  # smaller ones are nothing at all
DRAWS = 5  # of small numbers, after which a place that nothing reached counts as closed
ALL = slice(None)
LOCAL = {*POSITIONS["blocks"], "segment", "segments", "window", "landmarks"}


class Result(NamedTuple):
    """What came of a call."""

    output: Tensor
    """(B, L, F); (B, L, S H) of weights alone, if nothing else is returned. It is 0 in rows of
    padding, as weights are"""
    all_rows: Tensor
    """the output with rows of padding as they are"""
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
    many calls. "Unmasked" results are those with all keys valid, "masked" ones those with padding.
    """

    call: Call
    module: nn.Module
    """the attention, or the modules that a function calls"""
    inputs: Inputs
    fresh: Any = None
    """a copy that was never called"""
    is_self: bool = False
    """it attends to itself: L = S"""
    orders: Sequence[str] = ()
    """how rows, heads and queries follow each other in the weights of each use, such as "bhl"; ""
    if what was multiplied there is not weights"""
    output_indices: Sequence[int] = ()
    """indices of the returned tensors that make the output, as no weights and no inputs do"""
    weight_indices: Sequence[int] = ()
    """indices of the returned tensors that are weights"""
    call_findings: Sequence[tuple[str, Any]] = ()
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
        return self.inputs.keys.size(1)

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

    def queries(self, inputs: Inputs) -> int:
        """Return L: how many queries there are, keys in self-attention; 1 without a query."""
        if inputs.query is not None:
            return inputs.query.size(1)
        return inputs.keys.size(1) if self.is_self else 1

    @property
    def is_image(self) -> bool:
        """Whether keys are given as an image, of one row or square, of which a module may gather
        windows
        """
        return self.has_rows_of_one or bool(self.call.after)

    @property
    def has_rows_of_one(self) -> bool:
        """Whether keys are given with one more axis, such as (B, 1, S, D) or (1, S, B, D)"""
        texts = "".join(self.call.expressions.values())
        forms = ["keys[:, None]", "keys[:, :, None]", "keys.mT[:, :, None]"]
        forms += ["keys.transpose(0, 1)[None]", "keys.transpose(0, 1)[:, None]"]
        return any(form in texts for form in forms)

    @property
    def is_local(self) -> bool:
        """Whether a number of a part is named after blocks, segments or windows of places"""
        held = (vars(part).items() for part in self.module.modules())
        numbers = (name for name, value in chain(*held) if type(value) is int and value)
        return bool(words(*numbers) & LOCAL)

    @property
    def tells_regions(self) -> bool:
        """Whether its mask may tell regions of an image apart: it is added, in windows"""
        return self.is_local and "torch.where" in self.call.form

    @property
    def constant(self) -> dict[int, Tensor]:
        """Parameters and buffers by where they lie in memory. They are kept so that nothing else
        can lie there, once a call replaces a buffer
        """
        return {place_of(tensor): tensor for _, tensor in _tensors(self.module)}

    def results(self, inputs: Inputs) -> list[Tensor]:
        """Return the tensors of numbers that a call returns, in their order."""
        result = self.call(inputs)
        if result is None:  # some keep what they compute on self
            result = vars(self.call.attention)
        return list(tensors(result))

    def results_and_watch(
        self, inputs: Inputs, is_watched: bool = True, **changes: Any
    ) -> tuple[list[Tensor], Watch]:
        """Return the tensors that a call returns, and the `Watch` that records its uses of weights:
        an empty one if the call is not watched, which is faster.

        changes: `change`, by which the weights of a use are exchanged, or `freeze`, by which the
        result of a use is (see `Watch`).
        """
        constant = self.constant if is_watched else {}
        watch = Watch(inputs.keys.size(1), self.queries(inputs), constant, **changes)
        with watch if is_watched else contextlib.nullcontext():
            return self.results(inputs), watch

    def run(self, inputs: Inputs, **changes: Any) -> Result:
        """Call the attention, and arrange what it returns, and the weights that it uses, in the
        axes of `Result`, as the fields of this subject say which is which. The output is all
        tensors of `output_indices`, side by side; without any, it is the weights, those returned or
        else those caught. Of several tensors that are weights, the first is `Result.returned`.

        Returned weights that are logarithms, as of `log_softmax`, are turned into weights, and -inf
        into 0, since a difference of two would be NaN. changes: see `results_and_watch`.
        """
        returned, watch = self.results_and_watch(inputs, **changes)
        uses = watch.uses
        sizes = len(inputs.keys), self.queries(inputs)
        weights, shown = [], None
        if len(uses) == len(self.orders):  # otherwise it is not known which use is which
            for use, order in zip(uses, self.orders, strict=True):
                if order:  # "": what was multiplied there is not weights
                    weights.append(arrange(use.weights, order, *sizes))
        if self.weight_indices:
            shown = returned[self.weight_indices[0]]
            # (B, L, S, H), then (B, H, L, S)
            shown = settle(shown, *sizes, inputs.keys.size(1)).movedim(3, 1)
            # logarithms of shares: one row with the sum 1 will do, such as one without padding, as
            # others may be masked after the log_softmax, which changes their sums
            is_log = shown.max() <= 0 and (shown.exp().sum(-1) - 1).abs().min() < 1e-3
            shown = shown.exp() if is_log else shown
            if not weights and (shown >= 0).all():  # none was caught, and these may be shares
                weights = [shown]
            shown = shown.masked_fill(shown.isneginf(), 0)  # masked scores
        output = [settle(returned[index], *sizes) for index in self.output_indices]
        if not output:  # weights alone, returned or, if nothing is, caught
            alone = weights[0] if shown is None else shown
            output = [alone.permute(0, 2, 3, 1).flatten(2)]  # (B, L, S H)
        joined = torch.cat(output, dim=-1)
        joined = joined.masked_fill(joined.isneginf(), 0)
        weights = [self.of_tokens(inputs, one) for one in weights]
        shown = None if shown is None else self.of_tokens(inputs, shown)
        return Result(self.of_tokens(inputs, joined), joined, weights, shown, watch)

    def output(self, inputs: Inputs | None = None) -> Tensor:
        """Return the output (B, L, F); by default, that with all keys valid.

        The call is watched, which takes longer than the call itself, only if it returns nothing, so
        that the output is made of the weights that are caught.
        """
        is_watched = not (self.output_indices or self.weight_indices)
        return self.run(inputs or self.inputs.unpadded, is_watched=is_watched).output

    @cached_property
    def unmasked(self) -> Result:
        """The result with all keys valid"""
        return self.run(self.inputs.unpadded)

    @cached_property
    def masked(self) -> Result:
        """The result with padding"""
        return self.run(self.inputs)

    @property
    def has_mask(self) -> bool:
        """Whether it takes a mask"""
        return not self.inputs.valid.all()

    @property
    def unmasked_and_masked(self) -> Iterator[tuple[Inputs, Result]]:
        """The inputs and the result without padding; then, if it takes a mask, those with it"""
        yield self.inputs.unpadded, self.unmasked
        if self.has_mask:
            yield self.inputs, self.masked

    def draw(self, length: int | None = None, rows: int = B, width: int | None = None) -> Inputs:
        """Draw other inputs, like `inputs` but for what is given here: the number of keys
        (`length`), of rows of the batch, or the width of queries and keys.
        """
        query, keys = self.inputs.query, self.inputs.keys
        queries, query_width = (0, 0) if query is None else query.shape[1:]
        if query is not None and queries == keys.size(1):  # it may need as many queries as keys
            queries = length or queries
        widths = width or query_width, width or keys.size(2)
        drawn = draw(*widths, queries, rows, length or keys.size(1))
        return drawn if self.has_mask else drawn.unpadded

    def draw_small(self) -> Inputs:
        """Draw other inputs, so small that sparse weights spread."""
        return self.draw().times(0.1)

    def effect_of_weights(self, of_use: int) -> Tensor:
        """Return how much each row (B, L) of the output changes if 1 is added to the weights that
        the first query of the first head has in a use: as `differences`, a share.

        of_use: the index of the use.
        """

        def add(index: int, weights: Tensor) -> Tensor:
            """Return the weights (N, S) of the use with this index, with 1 added to those of that
            query, for all keys and all rows of the batch alike.
            """
            if index != of_use:
                return weights
            added = torch.zeros_like(weights)  # (N, S)
            # where among the N the weights of each row of the batch, head and query stand
            indices = torch.arange(len(weights))[:, None]  # (N, 1), then (B, H, L, 1)
            indices = arrange(indices, self.orders[index], B, self.queries(self.inputs))
            added[indices[:, 0, 0]] = 1
            return weights + added

        output = self.run(self.inputs.unpadded, change=add).output
        return self.differences(output, self.unmasked.output)

    @property
    def sees_token(self) -> Tensor:
        """(B, L, 1) whether a row sees a valid key; True for all if none sees any key"""
        sees = (self.seen & self.inputs.valid[:, None]).any(-1, keepdim=True)
        return sees | (not self.seen.any())

    def weight_on_padding(self, result: Result) -> Tensor:
        """Return (B, S) the largest weight that any head and any row of a token gives to each key
        that is padding; 0 for other keys. All are 0 if the call sorted queries or rows of the
        batch, or where a row has weights for keys that it does not see, as of windows: then weights
        stand elsewhere than the padding of their rows.
        """
        valid = self.inputs.valid
        most = torch.zeros(valid.shape)
        is_seen = self.seen | self.own_place[0] | (not self.seen.any())  # (L, S)
        are_elsewhere = [(one.amax((0, 1)) * ~is_seen).any() for one in self.unmasked.weights]
        for weights in () if result.watch.is_sorted or any(are_elsewhere) else result.weights:
            of_rows = weights * self.sees_token[:, None, : weights.size(2)]
            most = torch.maximum(most, of_rows.amax((1, 2)).masked_fill(valid, 0))
        return most

    # ---- comparisons ----

    def token_rows(self, inputs: Inputs) -> Tensor:
        """Return (B, L, 1) which rows of the output are a token's, and not padding's: in
        self-attention, where rows are places, and where there are as many queries as keys, those of
        valid keys, or all of a source without any.
        """
        valid = inputs.valid
        is_token = valid | ~valid.any(1, keepdim=True)
        are_places = self.is_self or self.queries(inputs) == valid.size(1)
        return is_token[..., None] if are_places else torch.ones(len(valid), 1, 1).bool()

    def of_tokens(self, inputs: Inputs, rows: Tensor) -> Tensor:
        """Return an output (B, L, F), or weights (B, H, L, S), with 0 in rows of padding. It may
        have fewer rows than there are tokens.
        """
        is_token = self.token_rows(inputs)[:, : rows.size(-2)]
        return rows.masked_fill(~(is_token if rows.dim() == 3 else is_token[:, None]), 0)

    def differences(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the largest difference in each row (B, L) of two outputs (B, L, F), as a share of
        the largest number in the unmasked output. NaN counts as 0, and differs from other numbers.
        """
        scale = self.unmasked.output.nan_to_num().abs().max().clamp(min=1e-30)
        return (left.nan_to_num() - right.nan_to_num()).abs().amax(-1) / scale

    def difference(self, left: Tensor, right: Tensor) -> float:
        """Return the largest of the `differences` of two outputs, a share."""
        return float(self.differences(left, right).max())

    def change_with(self, inputs: Inputs) -> Tensor:
        """Return how much each row (B, L) of the unmasked output changes with other inputs."""
        return self.differences(self.output(inputs), self.unmasked.output)

    def is_finite(self, inputs: Inputs) -> bool:
        """Return whether the output has neither NaN nor infinity in the rows of tokens."""
        return bool(self.output(inputs).isfinite().all())

    def reach(self, inputs: Inputs, name: str) -> Tensor:
        """Return (B, L, places) how much another query or key at each place changes each row of
        the output, as a share. name: "query" or "keys", the input that is changed.
        """
        base, columns = self.output(inputs), []
        for place in range(getattr(inputs, name).size(1)):
            output = self.output(inputs.changed_at((ALL, place), name))
            columns.append(self.differences(output, base))
        return torch.stack(columns, dim=-1)

    @cached_property
    def seen(self) -> Tensor:
        """(L, S) Which keys change a row of the output at all, in any row of the batch, with all
        keys valid. Weights may be sparse or rounded to 0: a key counts as unseen only if it also
        changes nothing in several draws of small numbers
        """
        seen = self.reach(self.inputs.unpadded, "keys").amax(0) > 0
        for _ in range(DRAWS):
            if not seen.all():
                seen |= self.reach(self.draw_small().unpadded, "keys").amax(0) > 0
        return seen

    @property
    def has_own_places(self) -> bool:
        """Whether it attends to itself, and its output has one row for each key"""
        return self.is_self and self.unmasked.output.size(1) == self.length

    @cached_property
    def own_place(self) -> Tensor:
        """(1, L, S) True at the place of the row itself, in self-attention: it may change the row
        by a residual connection alone
        """
        eye = torch.eye(self.unmasked.output.size(1), self.length).bool()[None]
        return eye & self.has_own_places

    @property
    def keeps_tokens_apart(self) -> bool:
        """Whether it attends to itself, and no key changes another row than its own"""
        # the first key alone, as one that changes another row is mostly found at once
        first = self.inputs.unpadded.changed_at((ALL, 0), "keys")
        if not self.has_own_places or float(self.change_with(first)[:, 1:].max()) > TINY:
            return False
        # large keys may attend to themselves alone
        for inputs in (self.inputs.unpadded, self.draw_small().unpadded):
            if float(self.reach(inputs, "keys").masked_fill(self.own_place, 0).max()) > TINY:
                return False
        return True

    @property
    def is_causal(self) -> bool:
        """Whether it attends to itself, with a row for each key, and no row sees a later place"""
        return self.has_own_places and not self.seen.triu(1).any()

    @cached_property
    def depends_on_order(self) -> bool:
        """Whether the same keys in another order give another result, without a mask"""
        return self.change_by_order(self.inputs.unpadded) > CLOSE

    def change_by_order(self, inputs: Inputs) -> float:
        """Return how much the output changes, as a share, if the last key becomes the first, and
        the others move on by one place. In self-attention, where the keys are the queries, too, the
        last one stays, the last but one becomes the first, and only the last row is compared: its
        query stays the same, and so do the keys that it may see, even if it is causal.
        """
        if self.has_own_places:
            others, last = inputs.keys[:, :-1], inputs.keys[:, -1:]
            rolled = inputs._replace(keys=torch.cat([others.roll(1, 1), last], dim=1))
            return self.difference(self.output(rolled)[:, -1:], self.output(inputs)[:, -1:])
        rolled = inputs.each(lambda tensor: tensor.roll(1, 1))._replace(query=inputs.query)
        output = self.output(rolled)
        if not self.output_indices:  # the output is weights alone, (B, L, S H)
            # they moved on with their keys: back by one key, which is H numbers
            output = output.roll(-output.size(2) // inputs.keys.size(1), 2)
        return self.difference(output, self.output(inputs))

    def averages(self, length: int, inputs: Inputs | None = None) -> list[Tensor]:
        """Return the weights (N, length), those that sum to 1, of each average over `length` places
        that a call takes: with these inputs, or by default with all keys valid. N counts rows,
        heads and queries. Averages over L places, as many as queries, say that queries attend to
        each other, as in a decoder layer; over L + S places, that they attend to queries and keys
        together.
        """
        watch = Watch(length, self.queries(self.inputs))
        with watch:
            self.call(inputs or self.inputs.unpadded)
        return [use.weights for use in watch.uses if gap(use.weights.sum(-1), 1) < CLOSE]


def least_doubtful(subjects: Sequence[Subject]) -> Subject:
    """Return the subject with the fewest `doubts`; of several, the first."""
    return min(subjects, key=lambda subject: subject.doubts)


def gap(left: Tensor, right: Tensor | float) -> float:
    """Return the largest difference of numbers: infinity if one is NaN, 0 if there are none."""
    differences = (left - right).abs().nan_to_num(torch.inf)
    return float(differences.max()) if differences.numel() else 0.0


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """On exit, restore the parameters and buffers of a module, with their dtypes, and whether each
    of its parts is in training mode.
    """
    modes = {part: part.training for part in module.modules()}
    saved = {name: tensor.detach().clone() for name, tensor in _tensors(module)}
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for name, tensor in _tensors(module):
            if name in saved:  # all but a lazy parameter that got its numbers meanwhile
                tensor.data = saved[name]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters and buffers by name, without lazy ones that have no numbers yet."""
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if not is_lazy(tensor):
            yield name, tensor
