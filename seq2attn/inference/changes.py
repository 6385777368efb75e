"""What a person changes while strings are decoded, as hooks: attention weights, banned keys,
temperature, padding, and values that are replaced (activation patching).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seq2attn.data.batches import valid_mask
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError, is_number
from seq2attn.model.interface import Model
from seq2attn.model.points import At, Hook, Place, by_row, places, row_axis
from seq2attn.text import did_you_mean, quoted

MAX_PADDING = 1000
ALLOWED = {
    "force": "(step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}",
    "ban": "positions, or (step, position), such as [2, (0, 4)]",
    "temperature": "a number from 0.001 to 1000",
    "write": 'step -> symbol, or its id, such as {0: "x"}',
    "padding": f"a whole number from 0 to {MAX_PADDING}",
    "mask_padding": "True, False or None",
    "patch": '(name, step) -> a row, or a row for each string, such as {("logits", 3): row}',
}

Cell = tuple[int, int]
"""a step of the output and a position of the source"""


@dataclass(frozen=True)
class Changes:
    """The changes of one decoding. Steps of the output and positions of the source, as the model
    reads it, count from 0.

    A change at a step that is not reached has no effect. Raises `Seq2AttnError` for values of the
    wrong kind.
    """

    force: Mapping[Cell, float] = field(default_factory=dict)
    """(step, position) -> the weight, from 0 to 1; the others of the step are scaled, so that its
    weights sum to 1"""
    ban: Collection[int | Cell] = ()
    """positions that no step may attend to, and (step, position) for a single step"""
    temperature: float = 1.0
    """the scores are divided by it"""
    write: Mapping[int, str | int] = field(default_factory=dict)
    """step -> the symbol, or its id, that the output gets there, and the next step reads, in place
    of the model's own"""
    padding: int = 0
    """how many `<pad>` follow the source"""
    mask_padding: bool | None = None
    """True: no step may attend to padding; False: every step may; None: as in training"""
    patch: Mapping[tuple[str, int], ArrayLike] = field(default_factory=dict)
    """(name, step of the output, or of some names position of the source) -> the values that
    replace what the model computes there: a row for all strings, or a row for each"""

    def __post_init__(self) -> None:
        """Raise `Seq2AttnError` for a change that is not of the kind in `ALLOWED`."""
        fits = {
            "force": _is_mapping(self.force, _is_cell, lambda weight: is_number(weight, 0, 1)),
            "ban": isinstance(self.ban, Collection)
            and all(_is_cell(where) or is_index(where) for where in self.ban),
            "temperature": is_number(self.temperature, 0.001, 1000),
            "write": _is_mapping(
                self.write, is_index, lambda symbol: isinstance(symbol, str) or is_index(symbol)
            ),
            "padding": is_index(self.padding) and self.padding <= MAX_PADDING,
            "mask_padding": self.mask_padding in (None, True, False),
            "patch": _is_mapping(self.patch, _is_row, lambda _: True),  # `patch_hooks` checks rows
        }
        for name, is_fitting in fits.items():
            if not is_fitting:
                raise Seq2AttnError(
                    f"{name} must be {ALLOWED[name]}; found {quoted(getattr(self, name))}",
                    hint="Steps and positions count from 0.",
                )

    def hooks(self, model: Model, source: Tensor, lengths: Tensor) -> list[tuple[Place, Hook]]:
        """Return the hooks that make these changes while source ids (B, S) of lengths (B,) are
        decoded, in the order in which those of one place run. S counts padding, too. (`write` is
        not among them: decoding itself makes that change.)

        Raises `Seq2AttnError` for changes that do not fit the model or the source.
        """
        known = places(model)  # by the names of their points
        self._check_patches(known)  # first: the next looks up the names of patches in `known`
        self._check_positions(known, source.size(1))
        self._check_sums()
        by_name = self.of_attention(source, lengths)
        if by_name and "attention.weights" not in known:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        hooks: list[tuple[Place, Hook]] = []
        for name, hook in by_name.items():  # a model with weights has attention's other points, too
            hooks += [(place, hook) for place in known[name]]
        for (name, index), row in self.patch.items():
            hooks += patch_hooks(name, index, row, known[name])
        return hooks

    def of_attention(self, source: Tensor, lengths: Tensor) -> dict[str, Hook]:
        """Return the hooks that make the changes of attention, all but patches, by the names of
        their points, in the order in which a model passes these. source (B, S), lengths (B,).
        """
        by_name: dict[str, Hook] = {}
        if self.mask_padding is not None:
            valid = valid_mask(lengths, source.size(1))  # (B, S)
            if not self.mask_padding:
                valid = torch.ones_like(valid)
            by_name["attention.valid"] = valid_hook(valid)
        if len(self.ban):  # (an array of positions has no truth value)
            by_name["attention.allowed"] = self._ban
        if self.temperature != 1:
            by_name["attention.logits"] = lambda logits, _: logits / self.temperature
        if self.force:
            by_name["attention.weights"] = self._force
        return by_name

    def _check_patches(self, known: Mapping[str, list[Place]]) -> None:
        """Raise `Seq2AttnError` for a name in `patch` whose value cannot be replaced, or that this
        model does not have.

        known: the places of the model by their names.
        """
        allowed = []
        for name, (place, *_) in known.items():  # the places of a name are alike in this
            if place.point.axes and not place.point.fixed:  # without axes, it has no rows
                allowed.append(name)
        for name, _ in self.patch:
            if name not in allowed:
                raise Seq2AttnError(
                    f"patch: {quoted(name)} cannot be replaced in this model; "
                    f"{did_you_mean(str(name), allowed)}allowed: {', '.join(allowed)}"
                )

    def _check_positions(self, known: Mapping[str, list[Place]], width: int) -> None:
        """Raise `Seq2AttnError` for positions that a source of `width` tokens, its padding
        included, lacks.

        known: the places of the model by their names, those in `patch` among them.
        """
        positions = [position for _, position in self.force]
        for where in self.ban:
            positions.append(where[1] if isinstance(where, tuple) else where)
        for (name, index), row in self.patch.items():
            of_source = row_axis(known[name][0].point.axes) == "source"
            one_for_all = np.ndim(row) <= row_dimensions(known[name])
            # (where each string has a row of its own, some may end before this position, with nan)
            if of_source and one_for_all:
                positions.append(index)
        for position in positions:
            if position >= width:
                raise Seq2AttnError(
                    f"unknown position {position}; allowed: 0 to {width - 1}, of this source"
                )

    def _check_sums(self) -> None:
        """Raise `Seq2AttnError` for forced weights of a step that sum to more than 1."""
        totals: dict[int, float] = defaultdict(float)
        for (step, _), weight in self.force.items():
            totals[step] += weight
        for step, total in totals.items():
            if total > 1 + 1e-6:  # a sum of 1 may be rounded up
                raise Seq2AttnError(
                    f"the weights set at step {step} sum to {total:g}; at most 1 is allowed"
                )

    def written(self, vocabulary: Vocabulary) -> dict[int, int]:
        """Return step -> the id in the target's `vocabulary` that is written there; that of `<eos>`
        ends the output. Raises `Seq2AttnError` for a symbol that is unknown or has two meanings.
        """
        ids = {}
        for step, symbol in self.write.items():
            # the ids that may be meant: `symbol` is an id itself, or the text of one or two
            same = [index for index, one in enumerate(vocabulary.tokens) if symbol in (index, one)]
            if len(same) > 1:  # such as a letter that is called `<eos>`
                raise Seq2AttnError(
                    f"step {step} cannot write {symbol!r}: the targets have a symbol called "
                    "like the model's own",
                    hint=f"Write an id: {same[0]}, the model's own, or {same[1]}.",
                )
            if not same:
                raise Seq2AttnError(
                    f"step {step} cannot write {symbol!r}, which is not a symbol of the model's "
                    "outputs",
                    hint="`<eos>` ends the output.",
                )
            ids[step] = same[0]
        return ids

    def _ban(self, allowed: Tensor, at: At) -> Tensor:
        """Hook of `attention.allowed` (..., L, S), True where a key may be attended to: forbid the
        keys of `ban`. at: which steps its L rows are, `positions`, from `first` on.
        """
        allowed = allowed.clone()  # the model's own may be a view of its mask of padding
        for where in self.ban:
            if not isinstance(where, tuple):
                allowed[..., where] = False
            elif where[0] in at.positions:
                allowed[..., where[0] - at.first, where[1]] = False
        return allowed

    def _force(self, weights: Tensor, at: At) -> Tensor:
        """Hook of `attention.weights` (..., L, S): set those of `force`. at: as for `_ban`."""
        values = weights.new_full(weights.shape[-2:], torch.nan)  # (L, S) nan where not set
        for (step, position), weight in self.force.items():
            if step in at.positions:
                values[step - at.first, position] = float(weight)
        return set_weights(weights, ~values.isnan(), values)


def is_index(value: Any) -> bool:
    """Return True for a whole number from 0, NumPy's too."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_row(value: Any) -> bool:
    """Return True for a pair whose second is an index, such as (name, step)."""
    return isinstance(value, tuple) and len(value) == 2 and is_index(value[1])


def _is_cell(value: Any) -> bool:
    return _is_row(value) and is_index(value[0])


def _is_mapping(value: Any, is_key: Callable[[Any], bool], is_value: Callable[[Any], bool]) -> bool:
    """Return True for a mapping all of whose keys and values are of a kind."""
    if not isinstance(value, Mapping):
        return False
    return all(map(is_key, value)) and all(map(is_value, value.values()))


def valid_hook(replacement: Tensor) -> Hook:
    """Return a hook of `attention.valid`, the mask of padding, that replaces it by another (B, S),
    with each row repeated as often as a beam has repeated it.
    """

    def hook(valid: Tensor, _: At) -> Tensor:
        repeated = replacement.repeat_interleave(len(valid) // len(replacement), dim=0)
        return repeated.view_as(valid)  # (B, S), or with more axes of length 1

    return hook


def set_weights(weights: Tensor, forced: Tensor, values: Tensor) -> Tensor:
    """Return weights (..., S) in which those that are `forced` are `values`, and the others of each
    row are scaled so that the row sums to 1.

    Where the others are all 0 they stay 0. A row in which none is forced is unchanged, whatever its
    sum. forced, of bool, and values broadcast to the shape of the weights.
    """
    others = weights.masked_fill(forced, 0.0)
    left = 1 - values.masked_fill(~forced, 0.0).sum(dim=-1, keepdim=True)  # (..., 1) for the others
    # at least the smallest number, by which 0 can be divided
    sums = others.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    others = others * (left.clamp(min=0) / sums)  # forced ones may sum to a little more than 1
    changed = torch.where(forced, values, others)
    return torch.where(forced.any(dim=-1, keepdim=True), changed, weights)


# ---- activation patching ----


def patch_hooks(
    name: str, index: int, donors: ArrayLike, group: Sequence[Place]
) -> Iterator[tuple[Place, Hook]]:
    """Yield the hooks that replace one row of what a model computes at the places of a name, each
    with its place. Raises `Seq2AttnError` for donors that are not numbers.

    index: of the row: a step of the output, or a position of the source. group: all places of that
        name.
    donors: one row for all strings, or a row for each string, where a row of nan patches nothing.
        Where several places share the name, such as those of heads, a row is an array with a row
        for each place.
    """
    values = np.asarray(donors)
    one_each = values.ndim > row_dimensions(group)
    # kinds of NumPy: floating-point and whole numbers, and bool
    fits = values.dtype.kind in "fiub" and not np.isinf(values).any()
    if not fits or (not one_each and np.isnan(values).any()):
        raise Seq2AttnError(
            f"patch: {name} at {index} must be finite numbers, or a row for each string, of nan "
            f"for none; found {quoted(values.tolist())}"
        )
    # from here on (strings, places, ...), with 1 string for all, and 1 place if there is only one
    if not one_each:
        values = values[np.newaxis]
    if len(group) == 1:
        values = values[:, np.newaxis]
    for place_index, place in enumerate(group):
        patch = Patch(
            name,
            index,
            torch.as_tensor(values),
            one_each=one_each,
            place_index=place_index,
            place_count=len(group),
        )
        yield place, patch


@dataclass(frozen=True, eq=False)
class Patch:
    """A hook that replaces one row of a value, at one of the places that share a name."""

    name: str
    index: int
    """of the row: a step, or a position of the source"""
    donors: Tensor
    """(N, places, ...) a row for each string, or (1, places, ...) one for all"""
    one_each: bool
    """True if `donors` has a row for each string"""
    place_index: int
    """which of the places it is, from 0"""
    place_count: int
    """how many share the name"""

    def __call__(self, value: Tensor, at: At) -> Tensor:
        """Return a copy of the value (B, ...) with row `index` of each string replaced by its
        donor, except where that is a row of nan; the value itself if it does not have that row.
        Raises `Seq2AttnError` for a row with nan among numbers. (`patch_hooks` has refused
        infinity.)
        """
        if self.index not in at.positions:
            return value
        value = value.clone()
        rows = by_row(at.axes, value)[:, self.index - at.first]  # (B, ...) a view of `value`
        new = self._donated(rows, at)
        is_nan = new.isnan().view(len(new), -1)
        unchanged = is_nan.all(dim=1)  # (B,)
        if (is_nan.any(dim=1) & ~unchanged).any():
            raise Seq2AttnError(
                f"patch: a row of {self.name} at {self.index} must be finite numbers, or nan alone "
                "to patch nothing"
            )
        unchanged = unchanged.view(-1, *[1] * (rows.dim() - 1))  # (B, 1, ...)
        rows.copy_(torch.where(unchanged, rows, new))  # and with them `value`
        return value

    def _donated(self, rows: Tensor, at: At) -> Tensor:
        """Return what takes the place of these rows (B, ...), each that of one string, in the same
        shape and dtype. Raises `Seq2AttnError` if donors have another shape, or are too few.
        """
        # (B,) which donor each row takes: its string's, or the only one
        strings = at.strings if self.one_each else torch.zeros_like(at.strings)
        last = int(strings.max())
        if last >= len(self.donors):
            raise Seq2AttnError(
                f"patch: {self.name} at {self.index} has rows for {len(self.donors)} strings, and "
                f"there are {last + 1} or more"
            )
        new = self.donors[strings]  # (B, places, ...)
        if row_axis(at.axes) == "step" and at.axes[-1] == "source":
            # A row has a number for each source position. Rows of many strings are as long as the
            # longest source, with nan past the end of a shorter one: cut that off. (Numbers there
            # are a row of the wrong length, which is refused below.)
            width = rows.size(-1)
            if new[..., width:].isnan().all():  # also True if nothing is behind `width`
                new = new[..., :width]
        shape = (self.place_count, *rows.shape[1:])
        found = tuple(new.shape[1:])
        if found != shape:
            if self.place_count == 1:  # a user gives no axis of places then: `patch_hooks` adds it
                shape, found = shape[1:], found[1:]
            raise Seq2AttnError(
                f"patch: {self.name} at {self.index} has the shape {shape}; found {found}"
            )
        return new[:, self.place_index].to(rows)


def row_dimensions(group: Sequence[Place]) -> int:
    """Return how many dimensions one string's row has at the places of a name, such as 2 for the
    weights of several heads, (H, S).
    """
    axes = group[0].point.axes
    own = [axis for axis in axes if axis != row_axis(axes)]  # without the one that counts rows
    return len(own) if len(group) == 1 else 1 + len(own)


UNCHANGED = Changes()
