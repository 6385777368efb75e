"""What a person changes while a string is decoded, as hooks: weights, banned keys, temperature,
padding, patched rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seq2attn.data.padding import valid_mask
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError, is_number
from seq2attn.model.interface import Model
from seq2attn.model.points import Hook, Point, points
from seq2attn.text import did_you_mean, quoted

MOST_PADDING = 1000

Patch = Mapping[tuple[str, int], ArrayLike]
"""(name, step of the output, or of some names position of the source) -> what replaces that row of
the quantity"""


class AttentionChanges(TypedDict, total=False):
    """Those of `Changes` that concern attention, as keywords."""

    force: Mapping[tuple[int, int], float]
    ban: Collection[int | tuple[int, int]]
    temperature: float
    padding: int
    mask_padding: bool | None


class DecodingChanges(AttentionChanges, total=False):
    """All of `Changes`, as keywords."""

    write: Mapping[int, str]
    patch: Patch | None


@dataclass(frozen=True)
class Changes:
    """The changes of one decoding. Steps of the output and positions of the source, as the model
    reads it, count from 0.

    A change at a step that is not reached has no effect.
    """

    force: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """(step, position) -> the weight, from 0 to 1; the others of the step are scaled, so that its
    weights sum to 1"""
    ban: Collection[int | tuple[int, int]] = ()
    """positions that no step may attend to, and (step, position) for a single step"""
    temperature: float = 1.0  # the scores are divided by it
    write: Mapping[int, str] = field(default_factory=dict)
    """step -> the symbol that the output gets there, and the next step reads, in place of the
    model's own"""
    padding: int = 0  # how many `<pad>` follow the source
    mask_padding: bool | None = (
        None  # whether padding is masked in attention; None: as the model does
    )
    patch: Patch | None = None  # rows of what the model computes, each replaced by another

    def __post_init__(self) -> None:
        force = isinstance(self.force, Mapping) and all(
            _is_cell(cell) and is_number(weight, 0, 1) for cell, weight in self.force.items()
        )
        ban = isinstance(self.ban, Collection) and all(
            _is_cell(place) or is_index(place) for place in self.ban
        )
        write = isinstance(self.write, Mapping) and all(map(is_index, self.write))
        write = write and all(isinstance(symbol, str) for symbol in self.write.values())
        padding = is_index(self.padding) and self.padding <= MOST_PADDING
        for name, right, wanted in (
            ("force", force, "(step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}"),
            ("ban", ban, "positions, or (step, position), such as [2, (0, 4)]"),
            (
                "temperature",
                is_number(self.temperature, 0.001, 1000),
                "a number from 0.001 to 1000",
            ),
            ("write", write, 'step -> symbol, such as {0: "x"}'),
            ("padding", padding, f"a whole number from 0 to {MOST_PADDING}"),
            ("mask_padding", self.mask_padding in (None, True, False), "True, False or None"),
            (
                "patch",
                isinstance(self.patch, Mapping | None),
                '(name, step) -> a row, such as {("logits", 3): row}',
            ),
        ):
            if not right:
                message = f"{name} must be {wanted}; found {quoted(getattr(self, name))}"
                raise Seq2AttnError(message, hint="Steps and positions count from 0.")
        object.__setattr__(self, "ban", tuple(self.ban))  # a NumPy array compares by element

    @classmethod
    def of(cls, call: str, known: type, given: Mapping[str, Any]) -> Changes:
        """From the keywords of `call`, those of `known`. TypeError: another one."""
        for name in given.keys() - known.__annotations__.keys():
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
        return cls(**given)

    @property
    def of_model(self) -> bool:
        """Whether anything that the model computes is changed."""
        asked = (
            self.force,
            self.ban,
            self.temperature != 1,
            self.mask_padding is not None,
            self.patch,
        )
        return any(asked)

    def hooks(self, model: Model, source: Tensor, lengths: Tensor) -> dict[Point, Hook]:
        """Return the hooks that make these changes while source (B, S), lengths (B,), is decoded.

        Raises `Seq2AttnError` for changes that do not fit the model or the source.
        """
        width = source.size(1)
        self._check_positions(width)
        hooks: dict[str, Hook] = {}
        if self.mask_padding is not None:
            real = (
                valid_mask(lengths, width)
                if self.mask_padding
                else torch.ones_like(source, dtype=torch.bool)
            )
            hooks["attention.valid"] = valid_hook(real)
        if self.ban:
            hooks["attention.allowed"] = ban_hook(self.ban)
        if self.temperature != 1:
            hooks["attention.logits"] = lambda logits, _: logits / self.temperature
        if self.force:
            hooks["attention.weights"] = force_hook(self.force)
        known = points(model)
        if hooks and "attention.weights" not in known:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        made = {point: hook for name, hook in hooks.items() for point in known[name]}
        if self.force and known["attention.weights"][0].fixed:
            raise Seq2AttnError(f"force: {known['attention.weights'][0].fixed}")
        if self.patch:
            for point, patched in patch_hooks(self.patch, known, width).items():
                made[point] = in_turn(made[point], patched) if point in made else patched
        return made

    def _check_positions(self, width: int) -> None:
        """Raise `Seq2AttnError` unless the changes fit a source of this many tokens, with its
        padding.
        """
        for position in [
            *(at for _, at in self.force),
            *(at[1] if isinstance(at, tuple) else at for at in self.ban),
        ]:
            if position >= width:
                raise Seq2AttnError(
                    f"unknown position {position}; allowed: 0 to {width - 1}, of this source"
                )
        for step in {step for step, _ in self.force}:
            total = sum(weight for (at, _), weight in self.force.items() if at == step)
            if total > 1 + 1e-6:
                raise Seq2AttnError(
                    f"the weights set at step {step} sum to {total:g}; at most 1 is allowed"
                )

    def written(self, vocabulary: Vocabulary) -> dict[int, int]:
        """step -> the id that is written there. `<eos>` ends the output."""
        ids = {symbol: index for index, symbol in enumerate(vocabulary.tokens)}
        for step, symbol in self.write.items():
            if symbol not in ids:
                message = f"step {step} cannot write {symbol!r}, which is not a symbol of the model's outputs"
                raise Seq2AttnError(message, hint="`<eos>` ends the output.")
        return {step: ids[symbol] for step, symbol in self.write.items()}


def is_index(value: Any) -> bool:
    """Whether it is a whole number from 0, NumPy's too."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_cell(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_index, value))


UNCHANGED = Changes()


# ---- hooks: (value, position of its first row) -> the value in its place ----


def in_turn(*hooks: Hook) -> Hook:
    """Return a hook that calls several, one after another."""

    def hook(value: Tensor, first: int) -> Tensor:
        for one in hooks:
            new = one(value, first)
            value = value if new is None else new
        return value

    return hook


def valid_hook(real: Tensor) -> Hook:
    """Return a hook of `attention.valid` that replaces the mask by real (B, S); a beam repeats each
    row.
    """

    def hook(valid: Tensor, _: int) -> Tensor:
        repeated = real.repeat_interleave(len(valid) // len(real), dim=0)
        return repeated.view_as(valid)

    return hook


def ban_hook(banned: Collection[int | tuple[int, int]]) -> Hook:
    """Return a hook of `attention.allowed` (B, L, S): no step attends to these positions, or a
    single step does not.
    """

    def hook(allowed: Tensor, first: int) -> Tensor:
        left_out = torch.zeros(
            allowed.shape[-2:], dtype=torch.bool, device=allowed.device
        )  # (L, S)
        for one in banned:
            if not isinstance(one, tuple):
                left_out[:, one] = True
            elif 0 <= one[0] - first < len(left_out):
                left_out[one[0] - first, one[1]] = True
        return allowed & ~left_out

    return hook


def force_hook(force: Mapping[tuple[int, int], float]) -> Hook:
    """Return a hook of `attention.weights` (B, L, S) that sets the weights of some (step,
    position).
    """

    def hook(weights: Tensor, first: int) -> Tensor | None:
        values = weights.new_zeros(weights.shape[-2:])  # (L, S)
        forced = torch.zeros_like(values, dtype=torch.bool)
        for (step, position), weight in force.items():
            if 0 <= step - first < len(forced):
                forced[step - first, position] = True
                values[step - first, position] = float(weight)
        return set_weights(weights, forced, values) if forced.any() else None

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


def patch_hooks(patch: Patch, known: Mapping[str, list[Point]], width: int) -> dict[Point, Hook]:
    """Return the hooks that replace rows of what a model computes; width: the source's positions.

    A row of several points of one name, such as heads, has an array for each.
    """
    allowed = [
        name
        for name, group in known.items()
        if group[0].axes and not any(one.fixed for one in group)
    ]
    rows: dict[str, dict[int, NDArray[Any]]] = {}
    for key, row in patch.items():
        if not (isinstance(key, tuple) and len(key) == 2 and is_index(key[1])):
            raise Seq2AttnError(
                f"patch: expected (name, step), steps from 0, or positions; found {key!r}"
            )
        name, index = key
        if name not in allowed:
            guess = did_you_mean(str(name), allowed)
            what = f"{quoted(name)} cannot be replaced in this model; {guess}allowed: {', '.join(allowed)}"
            raise Seq2AttnError(f"patch: {what}")
        if lead_of(known[name][0]) == "source" and index >= width:
            raise Seq2AttnError(
                f"patch: {name}: unknown position {index}; allowed: 0 to {width - 1}"
            )
        rows.setdefault(name, {})[int(index)] = _numbers(name, index, row)
    hooks: dict[Point, Hook] = {}
    for name, replaced in rows.items():
        group = known[name]
        for number, point in enumerate(group):
            hooks[point] = _patch_hook(name, point, replaced, number if len(group) > 1 else None)
    return hooks


def _numbers(name: str, index: int, row: ArrayLike) -> NDArray[Any]:
    given = np.asarray(row)
    if given.dtype.kind not in "fiub":
        raise Seq2AttnError(f"patch: {name} at {index} must be numbers; found {quoted(row)}")
    if not np.isfinite(given).all():
        raise Seq2AttnError(
            f"patch: {name} at {index} must have finite numbers; found {quoted(given.tolist())}"
        )
    return given


def lead_of(point: Point) -> str:
    """The axis along which rows are counted: `step`, or `source`."""
    return "source" if "source" in point.axes and "step" not in point.axes else "step"


def by_row(point: Point, value: Tensor) -> Tensor:
    """The value at a point with its rows after the batch: (B, L, ...)."""
    lead = lead_of(point)
    return (
        value.movedim(point.axes.index(lead) + 1, 1) if lead in point.axes else value.unsqueeze(1)
    )


def _patch_hook(
    name: str, point: Point, rows: Mapping[int, NDArray[Any]], number: int | None
) -> Hook:
    """number: of the point among those of this name; None: it is the only one."""

    def hook(value: Tensor, first: int) -> Tensor:
        value = value.clone()
        view = by_row(point, value)  # (B, L, ...)
        for index, row in rows.items():
            if 0 <= index - first < view.size(1):
                place = view[:, index - first]  # (B, ...)
                own = row if number is None or row.ndim < place.dim() else row[number]
                if own.shape != place.shape[1:]:
                    expected, found = (
                        " x ".join(map(str, shape)) or "one"
                        for shape in (place.shape[1:], own.shape)
                    )
                    raise Seq2AttnError(
                        f"patch: {name} at {index} has {expected} numbers; found {found}"
                    )
                place.copy_(torch.as_tensor(own).to(place))
        return value

    return hook
