"""What a person changes while strings are decoded, as hooks: attention weights, banned keys,
temperature, padding, and values that are replaced (activation patching).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field, StrictBool, TypeAdapter, ValidationError
from torch import Tensor

from seq2attn.data.batches import valid_mask
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError, did_you_mean, quoted
from seq2attn.model.interface import Model
from seq2attn.model.points import At, Hook, Place, by_row, places, row_axis

Index = Annotated[int, Field(ge=0)]
Cell = tuple[Index, Index]
"""a step of the output and a position of the source"""
ALLOWED = {
    "force": "(step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}",
    "ban": "positions, or (step, position), such as [2, (0, 4)]",
    "temperature": "a number from 0.001 to 1000",
    "write": 'step -> symbol, or its id, such as {0: "x"}',
    "padding": "a whole number from 0 to 1000",
    "mask_padding": "True, False or None",
    "patch": '(name, step) -> a row, or a row for each string, such as {("logits", 3): row}',
}


@dataclass(frozen=True)
class Changes:
    """The changes of one decoding. Steps of the output and positions of the source, as the model
    reads it, count from 0.

    A change at a step that is not reached has no effect. Raises `Seq2AttnError` for values of the
    wrong kind.
    """

    force: dict[Cell, Annotated[float, Field(ge=0, le=1)]] = field(default_factory=dict)
    """(step, position) -> the weight, from 0 to 1; the others of the step are scaled, so that its
    weights sum to 1"""
    ban: list[Index | Cell] = field(default_factory=list)
    """positions that no step may attend to, and (step, position) for a single step"""
    temperature: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """the scores are divided by it"""
    write: dict[Index, str | Index] = field(default_factory=dict)
    """step -> the symbol, or its id, that the output gets there, and the next step reads, in place
    of the model's own"""
    padding: Annotated[int, Field(ge=0, le=1000)] = 0
    """how many `<pad>` follow the source"""
    mask_padding: StrictBool | None = None
    """True: no step may attend to padding; False: every step may; None: as in training"""
    patch: dict[tuple[str, Index], Any] = field(default_factory=dict)
    """(name, step of the output, or of some names position of the source) -> the values that
    replace what the model computes there: a row for all strings, or a row for each"""

    def __post_init__(self) -> None:
        """Replace each change by its value as validated: of the type that its annotation says.

        Raises `Seq2AttnError` for a change that does not fit its annotation, which `ALLOWED` says
        in words, and for forced weights of a step that sum to more than 1.
        """
        for name, words in ALLOWED.items():
            try:
                value = KINDS[name].validate_python(getattr(self, name))
            except ValidationError:
                raise Seq2AttnError(
                    f"{name} must be {words}; found {quoted(getattr(self, name))}",
                    hint="Steps and positions count from 0.",
                ) from None
            object.__setattr__(self, name, value)
        totals: dict[int, float] = defaultdict(float)
        for (step, _), weight in self.force.items():
            totals[step] += weight
        for step, total in totals.items():
            if total > 1 + 1e-6:  # a sum of 1 may be rounded up
                raise Seq2AttnError(
                    f"the weights set at step {step} sum to {total:g}; at most 1 is allowed"
                )

    def hooks(self, model: Model, source: Tensor, lengths: Tensor) -> list[tuple[Place, Hook]]:
        """Return the hooks that make these changes while source ids (B, S) of lengths (B,) are
        decoded, in the order in which those of one place run. S counts padding, too. (Two changes
        are made without hooks: decoding does what `write` says, and `source` has the `padding`.)

        Raises `Seq2AttnError` for changes that do not fit the model or the source.
        """
        known = places(model)  # by the names of their points
        by_name = self.of_attention(source, lengths)
        if by_name and "attention.weights" not in known:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        hooks: list[tuple[Place, Hook]] = []
        for name, hook in by_name.items():  # a model with weights has attention's other points, too
            hooks += [(place, hook) for place in known[name]]
        positions = [position for _, position in self.force]
        for where in self.ban:
            positions.append(where[1] if isinstance(where, tuple) else where)
        for (name, index), donors in self.patch.items():
            patches = patches_of(name, index, donors, known)
            hooks += patches
            _, patch = patches[0]
            # (where each string has a row of its own, some may end before this position, with nan)
            if patch.axis == "source" and len(patch.donors) == 1:
                positions.append(index)
        width = source.size(1)
        for position in positions:
            if position >= width:
                raise Seq2AttnError(
                    f"unknown position {position}; allowed: 0 to {width - 1}, of this source"
                )
        return hooks

    def of_attention(self, source: Tensor, lengths: Tensor) -> dict[str, Hook]:
        """Return the hooks that make the changes of attention, all but patches, by the names of
        their points, in the order in which a model passes these. source (B, S), lengths (B,).
        """
        by_name: dict[str, Hook] = {}
        if self.mask_padding is not None:  # None: as in training, which needs no hook
            valid = valid_mask(lengths, source.size(1))  # (B, S)
            if not self.mask_padding:  # every step may attend to padding
                valid = torch.ones_like(valid)
            by_name["attention.valid"] = valid_hook(valid)
        if self.ban:
            by_name["attention.allowed"] = self._ban
        if self.temperature != 1:
            by_name["attention.logits"] = lambda logits, _: logits / self.temperature
        if self.force:
            by_name["attention.weights"] = self._force
        return by_name

    def written(self, vocabulary: Vocabulary) -> dict[int, int]:
        """Return step -> the id in the target's `vocabulary` that is written there; that of `<eos>`
        ends the output. Raises `Seq2AttnError` for an unknown symbol.
        """
        ids = {}
        for step, symbol in self.write.items():
            # a letter may be called like one of the model's own, such as `<eos>`, which comes first
            same = [index for index, one in enumerate(vocabulary.tokens) if symbol in (index, one)]
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


@dataclass(frozen=True, eq=False)
class Patch:
    """A hook that replaces one row of a value, at one of the places that share a name."""

    name: str
    index: int
    """of the row: a step, or a position of the source"""
    axis: str
    """of the rows: `step` or `source`"""
    donors: Tensor
    """(N, ...) a row for each string, or (1, ...) one for all; a row begins with an axis of places
    if several share the name"""
    place: int
    """which of the places it is, from 0"""
    places: int
    """how many share the name"""

    def __call__(self, value: Tensor, at: At) -> Tensor:
        """Return a copy of the value (B, ...) with row `index` of each string replaced by its
        donor, except where that is nan; the value itself if it does not have that row.
        """
        if self.index not in at.positions:
            return value
        value = value.clone()
        rows = by_row(at.axes, value)[:, self.index - at.first]  # (B, ...) a view of `value`
        new = self._donated(rows, at)
        rows.copy_(torch.where(new.isnan(), rows, new.to(rows)))  # and with them `value`
        return value

    def _donated(self, rows: Tensor, at: At) -> Tensor:
        """Return what takes the place of these rows (B, ...), each that of one string, in the same
        shape. Raises `Seq2AttnError` if donors have another shape, or are too few.
        """
        count = len(self.donors)
        # (B,) which donor each row takes: its string's, or the only one
        strings = at.strings if count > 1 else torch.zeros_like(at.strings)
        last = int(strings.max())
        if last >= count:
            raise Seq2AttnError(
                f"patch: {self.name} at {self.index} has rows for {count} strings, and there are "
                f"{last + 1} or more"
            )
        new = self.donors[strings]  # (B, ...), or (B, places, ...)
        if self.axis == "step" and at.axes[-1] == "source":
            # A row has a number for each source position. Rows of many strings are as long as the
            # longest source, with nan past the end of a shorter one: cut that off. (Numbers there
            # are a row of the wrong length, which is refused below.)
            width = rows.size(-1)
            if new[..., width:].isnan().all():  # also True if nothing is behind `width`
                new = new[..., :width]
        shape = tuple(rows.shape[1:]) if self.places == 1 else (self.places, *rows.shape[1:])
        found = tuple(new.shape[1:])
        if found != shape:
            raise Seq2AttnError(
                f"patch: {self.name} at {self.index} has the shape {shape}; found {found}"
            )
        return new if self.places == 1 else new[:, self.place]


def patches_of(
    name: str, index: int, donors: ArrayLike, known: Mapping[str, Sequence[Place]]
) -> list[tuple[Place, Patch]]:
    """Return the hooks that replace one row of what a model computes at the places of a name, each
    with its place. Raises `Seq2AttnError` for a name whose value cannot be replaced, or that the
    model does not have, and for donors that are not numbers.

    index: of the row: a step of the output, or a position of the source. known: the places of the
        model by their names.
    donors: one row for all strings, or a row for each string; nan replaces nothing. Where several
        places share the name, such as those of heads, a row is an array with a row for each place.
    """
    # the places of a name are alike in this; without axes, a point has no rows
    allowed = [key for key, (one, *_) in known.items() if one.point.axes and not one.point.fixed]
    if name not in allowed:
        raise Seq2AttnError(
            f"patch: {quoted(name)} cannot be replaced in this model; "
            f"{did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"
        )
    values = np.asarray(donors)
    if values.dtype.kind not in "fiub":  # NumPy's floating-point and whole numbers, and bool
        raise Seq2AttnError(
            f"patch: {name} at {index} must be numbers, a row or one for each string, nan for no "
            f"change; found {quoted(values.tolist())}"
        )
    group = known[name]
    axes = group[0].point.axes
    axis = row_axis(axes)
    own = len([one for one in axes if one != axis])  # the dimensions of a row at one place
    if values.ndim <= own + (len(group) > 1):  # one row for all strings
        values = values[np.newaxis]
    rows = torch.as_tensor(values)
    patches = []
    for number, place in enumerate(group):
        patches.append((place, Patch(name, index, axis, rows, number, len(group))))
    return patches


HINTS = get_type_hints(Changes, include_extras=True)
KINDS = {name: TypeAdapter(HINTS[name]) for name in ALLOWED}
UNCHANGED = Changes()
