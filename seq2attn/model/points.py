"""Points: the places of a computation that can be looked at and changed, and where each is.

A model passes values such as attention weights through its points; `hooks.py` has the functions
that are called there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError

CONTAINERS = {"models", "layers", "heads", "cells", "cell", "_orig_mod"}
"""modules that are left out of the public names of the points inside them"""


class Point:
    """A named value in the computation of a model; an attribute of one of its modules.

    A call returns the value that it is given, unless a hook replaces it.

    name: the last part of the public name; the first parts are those of the modules around it. A
        name with a dot is whole.
    axes: the dimensions after the batch: `step` (output positions), `source` (source positions) and
        so on. Without these two, a call is about a single position. Without axes, a cache leaves
        the point out.
    each: what distinguishes the points that share this name in one model, such as `head`.
    fixed: why a hook may look at the value but not replace it; empty if it may.
    """

    def __init__(self, name: str, *axes: str, each: str = "", fixed: str = "") -> None:
        self.name = name
        self.axes = axes
        self.each = each
        self.fixed = fixed

    def __call__(self, value: Tensor) -> Tensor:
        """Return `value`, or what the hooks of this context make of it, one after another."""
        hooks = hooks_here.get()
        if not hooks:  # nearly always; this runs several times at each step of a model
            return value
        for entry, place, hook in hooks.get(self, ()):
            # a task may have inherited hooks whose own context has since been left
            if entry.is_live:
                value = entry.apply(hook, value, place)
        return value


# ---- of this context: another thread, or another task of an event loop, has others ----

HooksByPoint = Mapping[Point, tuple[Any, ...]]
"""point -> its hooks, each with `Entry` and `Place`, in the order in which they run"""
hooks_here: ContextVar[HooksByPoint] = ContextVar("hooks", default={})  # noqa: B039 (never changed)
position_here: ContextVar[Any] = ContextVar("position", default=0)
strings_here: ContextVar[Tensor | None] = ContextVar("strings", default=None)


# ---- where a value is ----


@dataclass(frozen=True)
class Place:
    """Where a point is in a model."""

    point: Point
    name: str
    """the public name, such as `attention.weights`"""
    layer: int = 0
    """from the bottom"""
    head: int | None = None
    """None where no head computes the value, or all of them together"""
    gate: str | None = None
    """`r`, `z` and so on, of a cell's gates"""
    tensor: int = 0
    """of a cell's state: 0 is h, 1 an LSTM's c"""
    model: int = 0
    """of an ensemble"""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class At(Place):
    """Where the value is that a hook gets: its place, and which rows and strings it has."""

    value: Tensor
    """(B, ...)"""
    axes: Sequence[str]
    """its dimensions after the batch"""
    first: Any
    """the position of the value's first row, from 0: a step of the output, or in the encoder one of
    the source; in an exported graph a tensor ()"""

    @property
    def positions(self) -> range:
        """The positions of the value's rows: steps of the output, or of the source in the encoder;
        they count from 0.
        """
        rows = by_row(self.axes, self.value).size(1)
        return range(self.first, self.first + rows)

    @property
    def strings(self) -> Tensor:
        """Which string each row of the batch is, (B,): its index in the list that was given, or in
        training its row of the batch. A beam has several rows for each string, one after another.
        Raises `Seq2AttnError` if the rows cannot be divided equally among the strings.
        """
        count = len(self.value)
        known = strings_here.get()
        if known is None:  # nobody said which strings they are, as in training
            return torch.arange(count)
        if count % len(known):
            raise Seq2AttnError(f"{self.name} has {count} rows for {len(known)} strings")
        return known.repeat_interleave(count // len(known))


Hook = Callable[[Tensor, At], Tensor | None]
"""the value at a point, and where it is -> the value in its place, or None"""


def row_axis(axes: Sequence[str]) -> str:
    """Return the axis along which rows are counted: `step`, or `source`."""
    return "source" if "source" in axes and "step" not in axes else "step"


def by_row(axes: Sequence[str], value: Tensor) -> Tensor:
    """Return a view of a value with these axes after the batch, its rows (steps, or positions of
    the source) first: (B, L, ...).
    """
    axis = row_axis(axes)
    if axis not in axes:  # a single row
        return value.unsqueeze(1)
    return value.movedim(axes.index(axis) + 1, 1)


def places(model: nn.Module) -> dict[str, list[Place]]:
    """Find the points of a model by their public names, such as `attention.weights`.

    Several points may share a name: those of each head, of each layer, of each gate of a cell.
    """
    found: dict[str, dict[Point, Place]] = {}
    whole, *parts = model.named_modules()
    # the points of the model itself, its logits, come last, as they do in its computation
    for path, module in [*parts, whole]:
        indices = _list_indices(path)
        of_model = indices.pop("models", 0)
        of_head = indices.pop("heads", None)
        # any other list is one of layers, whatever its name; outside a list, there is one layer
        layer = next(iter(indices.values()), 0)
        for attribute, tensor, point in points_of(module):
            name = _public_name(path, point.name)
            gate = attribute if point.each == "gate" else None
            head = of_head
            # outside a list of heads, an attention is one head; but in a Transformer, whose points
            # are one for each layer, and pass all heads together, it stays None
            if head is None and name.startswith("attention.") and point.each != "layer":
                head = 0
            # A stack of cells also has the points of its cells as its own. The cell comes later, so
            # that its place, which knows the layer, replaces the one found in the stack.
            place = Place(point, name, layer, head, gate, tensor, of_model)
            found.setdefault(name, {})[point] = place
    return {name: list(group.values()) for name, group in found.items()}


def _list_indices(path: str) -> dict[str, int]:
    """Return the index that a module's path has in each list of modules that it passes.

    >>> _list_indices("decoder.attention.heads.2")
    {'heads': 2}
    """
    indices = {}
    for owner, index in itertools.pairwise(path.split(".")):
        if index.isdigit():
            indices[owner] = int(index)
    return indices


def points_of(module: nn.Module) -> Iterator[tuple[str, int, Point]]:
    """Yield the points that are attributes of a module itself, or stand in a tuple that is one:
    (name of the attribute, index in the tuple or 0, point).
    """
    for attribute, value in vars(module).items():
        if isinstance(value, Point):
            yield attribute, 0, value
        elif isinstance(value, tuple):
            for index, member in enumerate(value):
                if isinstance(member, Point):
                    yield attribute, index, member


def _public_name(path: str, name: str) -> str:
    """Return the public name of a point in the module at `path`: without indices and containers,
    and from `attention` on, so that every architecture has `attention.weights`.

    >>> _public_name("decoder.attention.heads.0", "weights")
    'attention.weights'
    """
    if "." in name:  # a whole name, which its module has chosen
        return name
    owners = []
    for part in path.split("."):
        if part and not part.isdigit() and part not in CONTAINERS:
            owners.append(part)
    if "attention" in owners:
        owners = owners[owners.index("attention") :]
    return ".".join([*owners, name])


# ---- for the models: which position is computed ----


def set_position(position: Any) -> None:
    """Tell the hooks of this context the position of what comes next: an int, or in an exported
    graph a tensor ().
    """
    if hooks_here.get():
        position_here.set(position)


def positions(count: int) -> Iterator[int]:
    """Yield 0, 1, ..., count - 1, for a loop over steps. During each, hooks are told its position:
    the current one, which `set_position` has set, plus this number.
    """
    if not hooks_here.get():  # nobody to tell
        yield from range(count)
        return
    first = position_here.get()
    for offset in range(count):
        position_here.set(first + offset)
        yield offset
    position_here.set(first)
