"""Points and hooks: the one way to look into a computation and to change it.

A model passes values such as attention weights through its points. In the context of `hooked`,
functions see the values that pass the points of a model, and may change them. Hooks belong to a
context (`contextvars`), not to a module: another thread, or another task of an event loop, does not
notice them.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError, quoted, unknown

CONTAINERS = {"models", "layers", "heads", "cells", "cell", "_orig_mod"}
"""modules that are left out of the public names of the points inside them"""


class Point:
    """A named value in the computation of a model; an attribute of one of its modules.

    A call returns the value that it is given, unless a hook replaces it.

    name: the last part of the public name; the first parts are those of the modules around it. A
        name with a dot is whole.
    axes: the dimensions after the batch: `head`, which comes first, if one value has all heads,
        `step` (output positions), `source` (source positions) and so on. Without the last two, a
        call is about a single position. Without axes, a cache leaves the point out.
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
        # nearly always there are none; this runs several times at each step of a model
        for entry in entries_here.get():
            # a task may have inherited hooks whose own context has since been left
            if entry.is_live:
                for place, hook in entry.hooks.get(self, ()):
                    value = entry.apply(hook, value, place)
        return value


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
        """
        count = len(self.value)
        known = strings_here.get()
        if known is None:  # nobody said which strings they are, as in training
            return torch.arange(count)
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
    found: dict[str, dict[Point, Place]] = defaultdict(dict)
    whole, *parts = model.named_modules()
    # the points of the model itself, its logits, come last, as they do in its computation
    for path, module in [*parts, whole]:
        owners, indices = _taken_apart(path)
        of_model = indices.pop("models", 0)
        of_head = indices.pop("heads", None)
        # any other list is one of layers, whatever its name; outside a list, there is one layer
        layer = next(iter(indices.values()), 0)
        for attribute, tensor, point in points_of(module):
            # a name with a dot is whole: its module has chosen it
            name = point.name if "." in point.name else ".".join([*owners, point.name])
            gate = attribute if point.each == "gate" else None
            head = of_head
            # outside a list of heads, an attention is one head; but in a Transformer, whose points
            # are one for each layer, and pass all heads together, it stays None
            if head is None and name.startswith("attention.") and point.each != "layer":
                head = 0
            # A stack of cells also has the points of its cells as its own. The cell comes later, so
            # that its place, which knows the layer, replaces the one found in the stack.
            found[name][point] = Place(point, name, layer, head, gate, tensor, of_model)
    return {name: list(group.values()) for name, group in found.items()}


def _taken_apart(path: str) -> tuple[list[str], dict[str, int]]:
    """Return, of the path of a module in its model: the names on it that are parts of public names,
    and the index in each list of modules on it. The names begin at `attention`, if that is among
    them, so that every architecture has `attention.weights`; `CONTAINERS` are left out.

    >>> _taken_apart("decoder.attention.heads.2")
    (['attention'], {'heads': 2})
    """
    indices = {name: int(index) for name, index in re.findall(r"(\w+)\.(\d+)", path)}
    owners = [name for name in re.findall(r"[^\W\d]\w*", path) if name not in CONTAINERS]
    if "attention" in owners:
        owners = owners[owners.index("attention") :]
    return owners, indices


def points_of(module: nn.Module) -> Iterator[tuple[str, int, Point]]:
    """Yield the points that are attributes of a module itself, or stand in a tuple that is one:
    (name of the attribute, index in the tuple or 0, point).
    """
    for attribute, value in vars(module).items():
        for index, member in enumerate(value if isinstance(value, tuple) else [value]):
            if isinstance(member, Point):
                yield attribute, index, member


# ---- hooks ----


class Rank(IntEnum):
    """Which hooks of a point run before which; those of one rank in the order of their entry."""

    RESET = 0
    """of training: states become noise"""
    HOOK = 1
    """a user's"""
    CHANGE = 2
    """what `predict` is asked to change"""
    CACHE = 3
    """which keeps what was used"""


@dataclass(eq=False)
class Entry:
    """The hooks that one context has entered."""

    rank: Rank
    hooks: Mapping[Point, Sequence[tuple[Place, Hook]]]
    is_live: bool = True
    """False once the context is left, also for tasks that have inherited it"""
    called: set[str] = field(default_factory=set)
    """the names of the points at which a hook was called"""

    def apply(self, hook: Hook, value: Tensor, place: Place) -> Tensor:
        """Return what stands in place of a value (B, ...) after a hook: the value, or another.

        Of a value with an axis of heads, such as a Transformer's weights (B, H, L, S), a user's
        hook (`Rank.HOOK`) gets one head after the other, one of our own all heads at once.
        """
        self.called.add(place.name)
        axes = place.point.axes
        if self.rank != Rank.HOOK or axes[:1] != ("head",):
            return self._called(hook, value, place, axes)
        heads = []
        for number, one in enumerate(value.unbind(1)):  # (B, H, ...)
            heads.append(self._called(hook, one, replace(place, head=number), axes[1:]))
        return torch.stack(heads, 1)

    def _called(self, hook: Hook, value: Tensor, place: Place, axes: Sequence[str]) -> Tensor:
        """Call a hook, and return what stands in place of `value` from now on.

        axes: its dimensions after the batch. A user's hook gets a copy, since it may change it in
        place; one of our own never does. `at.first` tells the hook the position at which the model
        now computes, `position_here`. Raises `Seq2AttnError` if the hook returns anything but None
        or a tensor of the value's shape and dtype, and if it changes a value that is fixed
        (`Point.fixed`).
        """
        given = value.clone() if self.rank == Rank.HOOK else value
        at = At(**vars(place), value=given, axes=axes, first=position_here.get())
        new = hook(given, at)
        # back to this value's position: a hook may itself run the model, which sets others
        position_here.set(at.first)
        if new is None:
            new = given  # perhaps changed in place
        elif not isinstance(new, Tensor) or (new.shape, new.dtype) != (value.shape, value.dtype):
            found = f"{new.dtype} {tuple(new.shape)}" if isinstance(new, Tensor) else quoted(new)
            raise Seq2AttnError(
                f"a hook of {place.name} returned {found}; expected {value.dtype} "
                f"{tuple(value.shape)}, or None"
            )
        if not place.point.fixed or new is value:
            return new
        if not torch.allclose(new, value, rtol=0, atol=0, equal_nan=True):  # not the same numbers
            raise Seq2AttnError(f"a hook cannot replace {place.name} here: {place.point.fixed}")
        return new


# of this context: another thread, or another task of an event loop, has others
entries_here: ContextVar[tuple[Entry, ...]] = ContextVar("entries", default=())
"""in the order in which their hooks run"""
position_here: ContextVar[Any] = ContextVar("position", default=0)
strings_here: ContextVar[Tensor | None] = ContextVar("strings", default=None)


@contextlib.contextmanager
def hooked(model: nn.Module, hooks: Mapping[str, Hook]) -> Iterator[None]:
    """In this context, call functions with the values at some points of a model.

    hooks: public names of points (`places`) -> a function of the value (B, ...) and of an `At`,
        which says where it is: `name`, `layer`, `head`, `gate`, `tensor`, `positions`, `strings`.
        The value is a copy, which may be changed in place; or the function returns another of the
        same shape and dtype. Where one value has all heads, the function gets one after the other.

    At a point run the resets of training, hooks in the order of their entry, the changes of
    `predict`, and last a cache. Raises `Seq2AttnError` for a name that this model does not have,
    and for a function that takes other arguments; warns of a name that no value passed.
    """
    model = getattr(model, "module", model)  # a `TrainedModel` has a module
    known = places(model)
    for name, hook in hooks.items():
        if name not in known:
            raise unknown("point", name, known)
        if not _takes_two(hook):
            raise Seq2AttnError(
                f"the hook of {name} must be a function of (value, at); found {quoted(hook)}"
            )
    with named_hooks(model, hooks, Rank.HOOK) as entry:
        yield
    if silent := [name for name in hooks if name not in entry.called]:
        warnings.warn(
            f"no value passed through {', '.join(silent)} of this model while it was hooked; "
            "seq2attn.load and seq2attn.evaluate make another model of a run",
            stacklevel=3,  # names the line of the user's `with`, not this one or contextlib's
        )


def _takes_two(hook: Any) -> bool:
    """Return whether a hook can be called with a value and an `At`."""
    try:
        inspect.signature(hook).bind(None, None)
    except (TypeError, ValueError):  # ValueError: of a builtin, which has no signature
        return False
    return True


def named_hooks(
    model: nn.Module, hooks: Mapping[str, Hook], rank: Rank
) -> contextlib.AbstractContextManager[Entry]:
    """Call hooks as `hooked_places` does: each at all the places that share its public name, such
    as those of several heads. The model must have these names.
    """
    known = places(model)
    entered = []
    for name, hook in hooks.items():
        entered += [(place, hook) for place in known[name]]
    return hooked_places(entered, rank)


@contextlib.contextmanager
def hooked_places(hooks: Iterable[tuple[Place | Point, Hook]], rank: Rank) -> Iterator[Entry]:
    """In this context, call hooks at some places, in addition to those that are there already;
    `rank` says which come first. A bare point stands for a place with the point's own name. Yields
    the hooks' `Entry`, which notes at which points one was called.
    """
    by_point = defaultdict(list)
    for where, hook in hooks:
        place = where if isinstance(where, Place) else Place(where, where.name)
        by_point[place.point].append((place, hook))
    entry = Entry(rank, by_point)
    if by_point:
        entries_here.set(tuple(sorted([*entries_here.get(), entry], key=attrgetter("rank"))))
    # A context may begin in the midst of a computation, such as in a hook that runs another model;
    # the first one then has to go on at its own position, so this is restored at the end. Anywhere
    # else nobody reads it: a model sets its position whenever it begins to compute.
    position = position_here.get()
    position_here.set(0)  # a model sets its own; a module called alone, such as a cell, none
    try:
        yield entry
    finally:
        # The hooks that were there before cannot simply be restored: contexts may end in another
        # order than they began. So every hook goes whose context has ended.
        entry.is_live = False
        entries_here.set(tuple(one for one in entries_here.get() if one.is_live))
        position_here.set(position)


@contextlib.contextmanager
def of_strings(indices: Iterable[int]) -> Iterator[None]:
    """In this context, the rows of values are those of the strings with these indices."""
    before = strings_here.get()
    strings_here.set(torch.tensor([*indices]))
    try:
        yield
    finally:
        strings_here.set(before)


def is_hooked(model: nn.Module) -> bool:
    """Return whether a hook of this context is at a point of `model`."""
    for entry in entries_here.get():  # nearly always there are none
        for module in model.modules():
            if any(point in entry.hooks for _, _, point in points_of(module)):
                return True
    return False


# ---- for the models: which position is computed ----


def set_position(position: Any) -> None:
    """Tell the hooks of this context the position of what comes next: an int, or in an exported
    graph a tensor ().
    """
    if entries_here.get():
        position_here.set(position)


def positions(count: int) -> Iterator[int]:
    """Yield 0, 1, ..., count - 1, for a loop over steps. During each, hooks are told its position:
    the current one, which `set_position` has set, plus this number.
    """
    first = position_here.get()
    for offset in range(count):
        position_here.set(first + offset)
        yield offset
    position_here.set(first)
