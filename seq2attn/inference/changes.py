"""What a person changes while strings are decoded, as hooks: attention weights, banned keys,
temperature, padding, and values that are replaced (activation patching).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seq2attn.data.padding import valid_mask
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError, is_number
from seq2attn.model.interface import Model
from seq2attn.model.points import Hook, Point, points
from seq2attn.text import did_you_mean, quoted

MAX_PADDING = 1000
ALLOWED = {
    "force": "(step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}",
    "ban": "positions, or (step, position), such as [2, (0, 4)]",
    "temperature": "a number from 0.001 to 1000",
    "write": 'step -> symbol, or its id, such as {0: "x"}',
    "padding": f"a whole number from 0 to {MAX_PADDING}",
    "mask_padding": "True, False or None",
    "patch": '(name, step) -> a row, such as {("logits", 3): row}',
}

Change = Callable[[Tensor, int], Tensor]
"""a hook that always returns a value: (value, position of its first row) -> new value"""
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
    """True if no step may attend to padding; None: as in training"""
    patch: Mapping[tuple[str, int], ArrayLike] = field(default_factory=dict)
    """(name, step of the output, or of some names position of the source) -> the values that
    replace what the model computes there"""

    def __post_init__(self) -> None:
        fits = {
            "force": isinstance(self.force, Mapping)
            and all(
                _is_cell(cell) and is_number(weight, 0, 1) for cell, weight in self.force.items()
            ),
            "ban": isinstance(self.ban, Collection)
            and all(_is_cell(where) or is_index(where) for where in self.ban),
            "temperature": is_number(self.temperature, 0.001, 1000),
            "write": isinstance(self.write, Mapping)
            and all(
                is_index(step) and (isinstance(symbol, str) or is_index(symbol))
                for step, symbol in self.write.items()
            ),
            "padding": is_index(self.padding) and self.padding <= MAX_PADDING,
            "mask_padding": self.mask_padding in (None, True, False),
            "patch": isinstance(self.patch, Mapping)
            and all(
                isinstance(key, tuple) and len(key) == 2 and is_index(key[1]) for key in self.patch
            ),
        }
        for name, is_fitting in fits.items():
            if not is_fitting:
                raise Seq2AttnError(
                    f"{name} must be {ALLOWED[name]}; found {quoted(getattr(self, name))}",
                    hint="Steps and positions count from 0.",
                )

    def hooks(self, model: Model, source: Tensor, lengths: Tensor) -> Mapping[Point, Hook]:
        """Return the hooks that make these changes while source (B, S), lengths (B,), is decoded.

        Raises `Seq2AttnError` for changes that do not fit the model or the source.
        """
        known, width = points(model), source.size(1)
        self._check_fit(known, width)
        by_name: dict[str, Change] = {}
        if self.mask_padding is not None:
            valid = valid_mask(lengths, width)  # (B, S)
            if not self.mask_padding:
                valid = torch.ones_like(valid)
            by_name["attention.valid"] = valid_hook(valid)
        if len(self.ban):
            by_name["attention.allowed"] = self._ban
        if self.temperature != 1:
            by_name["attention.logits"] = lambda logits, _: logits / self.temperature
        if self.force:
            by_name["attention.weights"] = self._force
        if by_name and "attention.weights" not in known:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        hooks = {point: hook for name, hook in by_name.items() for point in known[name]}
        for (name, index), row in self.patch.items():
            for point, hook in patch_hooks(name, index, row, known[name]).items():
                hooks[point] = in_turn(hooks[point], hook) if point in hooks else hook
        return hooks

    def _check_fit(self, known: Mapping[str, list[Point]], width: int) -> None:
        """Raise `Seq2AttnError` for positions that a source of `width` tokens, with its padding,
        lacks, for weights of a step that sum to more than 1, and for rows that cannot be patched.
        """
        patchable = [name for name, (point, *_) in known.items() if point.axes and not point.fixed]
        positions = [position for _, position in self.force]
        for where in self.ban:
            positions.append(where[1] if isinstance(where, tuple) else where)
        for name, index in self.patch:
            if name not in patchable:
                raise Seq2AttnError(
                    f"patch: {quoted(name)} cannot be replaced in this model; "
                    f"{did_you_mean(str(name), patchable)}allowed: {', '.join(patchable)}"
                )
            if row_axis(known[name][0]) == "source":
                positions.append(index)
        for position in positions:
            if position >= width:
                raise Seq2AttnError(
                    f"unknown position {position}; allowed: 0 to {width - 1}, of this source"
                )
        totals: dict[int, float] = defaultdict(float)
        for (step, _), weight in self.force.items():
            totals[step] += weight
            if totals[step] > 1 + 1e-6:
                raise Seq2AttnError(
                    f"the weights set at step {step} sum to {totals[step]:g}; at most 1 is allowed"
                )

    def written(self, vocabulary: Vocabulary) -> dict[int, int]:
        """Return step -> the id that is written there. `<eos>` ends the output."""
        ids = {}
        for step, symbol in self.write.items():
            same = [
                index for index, name in enumerate(vocabulary.tokens) if symbol in (index, name)
            ]
            if len(same) > 1:
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

    def _ban(self, allowed: Tensor, first: int) -> Tensor:
        """Hook of `attention.allowed` (B, L, S)."""
        allowed = allowed.clone()
        for where in self.ban:
            if not isinstance(where, tuple):
                allowed[..., where] = False
            elif first <= where[0] < first + allowed.size(-2):
                allowed[..., where[0] - first, where[1]] = False
        return allowed

    def _force(self, weights: Tensor, first: int) -> Tensor:
        """Hook of `attention.weights` (B, L, S)."""
        values = weights.new_full(weights.shape[-2:], torch.nan)  # (L, S)
        for (step, position), weight in self.force.items():
            if first <= step < first + len(values):
                values[step - first, position] = float(weight)
        return set_weights(weights, ~values.isnan(), values)


def is_index(value: Any) -> bool:
    """Return True for a whole number from 0, NumPy's too."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_cell(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_index, value))


def in_turn(first: Change, second: Change) -> Change:
    """Return a hook that calls two, the second with the result of the first."""
    return lambda value, position: second(first(value, position), position)


def valid_hook(replacement: Tensor) -> Change:
    """Return a hook of `attention.valid` that replaces the mask by another (B, S); a beam repeats
    each row.
    """

    def hook(valid: Tensor, _: int) -> Tensor:
        repeated = replacement.repeat_interleave(len(valid) // len(replacement), dim=0)
        return repeated.view_as(valid)

    return hook


def set_weights(weights: Tensor, forced: Tensor, values: Tensor) -> Tensor:
    """Set the weights (..., S) that are `forced` to `values`, and scale the others to sum to what
    those leave of 1.

    Where the others are all 0 they stay 0. A row in which none is set is unchanged, whatever its
    sum.
    """
    others = weights.masked_fill(forced, 0.0)
    left = 1 - values.masked_fill(~forced, 0.0).sum(dim=-1, keepdim=True)  # (..., 1)
    floor = torch.finfo(weights.dtype).tiny
    others = others * (left.clamp(min=0) / others.sum(dim=-1, keepdim=True).clamp(min=floor))
    changed = torch.where(forced, values, others)
    return torch.where(forced.any(dim=-1, keepdim=True), changed, weights)


# ---- activation patching ----


def patch_hooks(
    name: str, index: int, row: ArrayLike, group: Sequence[Point]
) -> dict[Point, Change]:
    """Return the hooks that replace one row of what a model computes at the points of a name.

    row: of several points, such as heads, an array for each.
    """
    values = np.asarray(row)
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise Seq2AttnError(
            f"patch: {name} at {index} must be finite numbers; found {quoted(values.tolist())}"
        )

    def hook(number: int, value: Tensor, first: int) -> Tensor:
        value = value.clone()
        rows = by_row(group[number], value)  # (B, L, ...)
        if first <= index < first + rows.size(1):
            shape = rows.shape[2:] if len(group) == 1 else (len(group), *rows.shape[2:])
            if values.shape != shape:
                raise Seq2AttnError(
                    f"patch: {name} at {index} has the shape {tuple(shape)}; found {values.shape}"
                )
            new = torch.as_tensor(values if len(group) == 1 else values[number])
            rows[:, index - first] = new.to(rows)
        return value

    return {point: partial(hook, number) for number, point in enumerate(group)}


def row_axis(point: Point) -> str:
    """Return the axis along which the rows of a point are counted: `step`, or `source`."""
    return "source" if "source" in point.axes and "step" not in point.axes else "step"


def by_row(point: Point, value: Tensor) -> Tensor:
    """Return a view of the value at a point with its rows after the batch: (B, L, ...)."""
    axis = row_axis(point)
    if axis not in point.axes:  # a single row
        return value.unsqueeze(1)
    return value.movedim(point.axes.index(axis) + 1, 1)


UNCHANGED = Changes()
