"""Hook points: the one way to look into a computation and to change it.

A model passes values such as attention weights through points. In the context of `hooked`,
functions see these values and may change them. Hooks belong to a context (`contextvars`), not to a
module: another thread, or another task of an event loop, does not notice them.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError
from seq2attn.text import did_you_mean, quoted

CONTAINERS = {"models", "layers", "heads", "cells", "cell", "_orig_mod"}
"""modules that are left out of the public names of the points inside them"""


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
        """Return `value`, or what the hooks of this context make of it."""
        hooks = _hooks.get()
        if not hooks:  # as nearly always
            return value
        for entry, place, hook in hooks.get(self, ()):
            if entry.is_live:
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


class At:
    """Where the value is that a hook gets."""

    def __init__(self, place: Place, value: Tensor, axes: Sequence[str]) -> None:
        """value (B, ...) with these axes after the batch."""
        self.name = place.name
        self.layer = place.layer
        self.head = place.head
        self.gate = place.gate
        self.tensor = place.tensor
        self.model = place.model
        self.first = _position.get()
        """the position of the first row; in an exported graph a tensor ()"""
        self._value = value
        self.axes = axes

    @property
    def positions(self) -> range:
        """The positions of the value's rows: steps of the output, or of the source in the encoder;
        they count from 0.
        """
        rows = by_row(self.axes, self._value).size(1) if self.axes else 1
        return range(self.first, self.first + rows)

    @property
    def strings(self) -> Tensor:
        """Which string each row of the batch is, (B,): its index in the list that was given, or in
        training its row of the batch. A beam has several rows for each.
        """
        count = len(self._value)
        known = _strings.get()
        if known is None:
            return torch.arange(count)
        if count % len(known):
            raise Seq2AttnError(f"{self.name} has {count} rows for {len(known)} strings")
        return known.repeat_interleave(count // len(known))


def row_axis(axes: Sequence[str]) -> str:
    """Return the axis along which rows are counted: `step`, or `source`."""
    return "source" if "source" in axes and "step" not in axes else "step"


def by_row(axes: Sequence[str], value: Tensor) -> Tensor:
    """Return a view of a value with these axes after the batch, rows first: (B, L, ...)."""
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
    for path, module in [*parts, whole]:  # the model's own come last, as its logits do
        steps = path.split(".")
        numbers = {}
        for step, number in itertools.pairwise(steps):
            if number.isdigit():
                numbers[step] = int(number)
        of_model, head = numbers.pop("models", 0), numbers.pop("heads", None)
        layer = next(iter(numbers.values()), 0)
        for attribute, tensor, point in _points_of(module):
            name = _public_name(path, point.name)
            gate = attribute if point.each == "gate" else None
            of_head = head
            if head is None and name.startswith("attention.") and point.each != "layer":
                of_head = 0  # the only one
            # a stack of layers shares their points: the layers themselves come later
            place = Place(point, name, layer, of_head, gate, tensor, of_model)
            found.setdefault(name, {})[point] = place
    return {name: list(group.values()) for name, group in found.items()}


def _points_of(module: nn.Module) -> Iterator[tuple[str, int, Point]]:
    """Yield attribute, index and point of the points of a module itself, those in tuples
    included.
    """
    for attribute, value in vars(module).items():
        for index, member in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(member, Point):
                yield attribute, index, member


def _public_name(path: str, name: str) -> str:
    """Return the public name of a point in the module at `path`.

    >>> _public_name("decoder.attention.heads.0", "weights")
    'attention.weights'
    """
    if "." in name:
        return name
    owners = [
        part for part in path.split(".") if part and not part.isdigit() and part not in CONTAINERS
    ]
    if "attention" in owners:
        owners = owners[owners.index("attention") :]
    return ".".join([*owners, name])


# ---- hooks ----

Hook = Callable[[Tensor, At], Tensor | None]
"""the value at a point, and where it is -> the value in its place, or None"""


@dataclass(eq=False)
class Entry:
    """The hooks that one context has entered."""

    rank: Rank
    is_live: bool = True
    """False once the context is left, also for tasks that have inherited it"""
    called: set[str] = field(default_factory=set)
    """the names of the points at which a hook was called"""

    def apply(self, hook: Hook, value: Tensor, place: Place) -> Tensor:
        """Return what a hook makes of a value. A user's gets a copy, which it may change in place,
        of one head after the other.
        """
        self.called.add(place.name)
        axes = place.point.axes
        if self.rank != Rank.HOOK:
            new = hook(value, At(place, value, axes))
            if new is None:
                return value
            if place.point.fixed:
                raise _fixed(place)
            return _checked(new, value, place)
        if "head" not in axes:
            return _of_user(hook, value, place, axes)
        axis = axes.index("head") + 1
        of_one = axes[: axis - 1] + axes[axis:]
        heads = []
        for number, of_head in enumerate(value.unbind(axis)):
            heads.append(_of_user(hook, of_head, replace(place, head=number), of_one))
        return torch.stack(heads, axis)


def _of_user(hook: Hook, value: Tensor, place: Place, axes: Sequence[str]) -> Tensor:
    """Return what a user's hook makes of a copy of the value, which has these axes."""
    copy = value.clone()
    new = hook(copy, At(place, copy, axes))
    new = copy if new is None else _checked(new, value, place)
    if not place.point.fixed:
        return new
    if not torch.equal(new, value):
        raise _fixed(place)
    return value


def _fixed(place: Place) -> Seq2AttnError:
    return Seq2AttnError(f"a hook cannot replace {place.name} here: {place.point.fixed}")


def _checked(new: Any, value: Tensor, place: Place) -> Tensor:
    """Return what a hook returned. Raises `Seq2AttnError` unless it fits the value."""
    if isinstance(new, Tensor) and (new.shape, new.dtype) == (value.shape, value.dtype):
        return new
    found = f"{new.dtype} {tuple(new.shape)}" if isinstance(new, Tensor) else quoted(new)
    raise Seq2AttnError(
        f"a hook of {place.name} returned {found}; expected {value.dtype} {tuple(value.shape)}, "
        "or None"
    )


Entered = tuple[Entry, Place, Hook]
_hooks: ContextVar[Mapping[Point, tuple[Entered, ...]]] = ContextVar("hooks", default={})  # noqa: B039 (never changed)
_position: ContextVar[Any] = ContextVar("position", default=0)
_strings: ContextVar[Tensor | None] = ContextVar("strings", default=None)


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
            guess = did_you_mean(str(name), known)
            raise Seq2AttnError(
                f"unknown point {quoted(name)}; {guess}this model has {', '.join(known)}"
            )
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
            stacklevel=3,
        )


def _takes_two(hook: Any) -> bool:
    try:
        inspect.signature(hook).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # of a builtin, which has no signature
        return callable(hook)
    return True


@contextlib.contextmanager
def named_hooks(model: nn.Module, hooks: Mapping[str, Hook], rank: Rank) -> Iterator[Entry]:
    """As `hooked_places`, with public names of points that the model has."""
    known = places(model)
    entered = [(place, hook) for name, hook in hooks.items() for place in known[name]]
    with hooked_places(entered, rank) as entry:
        yield entry


@contextlib.contextmanager
def hooked_places(hooks: Iterable[tuple[Place, Hook]], rank: Rank) -> Iterator[Entry]:
    """In this context, call hooks at some places, among others by their rank."""
    entry = Entry(rank)
    everything = dict(_hooks.get())
    for place, hook in hooks:
        group = [*everything.get(place.point, ()), (entry, place, hook)]
        everything[place.point] = tuple(sorted(group, key=lambda entered: entered[0].rank))
    _hooks.set(everything)
    position = _position.get()
    _position.set(0)
    try:
        yield entry
    finally:  # whatever was entered or left since, in this context or another
        entry.is_live = False
        left = {}
        for point, group_ in _hooks.get().items():
            if live := tuple(entered for entered in group_ if entered[0].is_live):
                left[point] = live
        _hooks.set(left)
        _position.set(position)


@contextlib.contextmanager
def hooked_points(hooks: Mapping[Point, Hook], rank: Rank) -> Iterator[Entry]:
    """As `hooked_places`, with the points themselves."""
    entered = [(Place(point, point.name), hook) for point, hook in hooks.items()]
    with hooked_places(entered, rank) as entry:
        yield entry


@contextlib.contextmanager
def of_strings(indices: Iterable[int]) -> Iterator[None]:
    """In this context, the rows of values are those of the strings with these indices."""
    before = _strings.get()
    _strings.set(torch.tensor([*indices]))
    try:
        yield
    finally:
        _strings.set(before)


def is_hooked(model: nn.Module) -> bool:
    """Return whether a hook of this context is at a point of `model`."""
    hooks = _hooks.get()
    return bool(hooks) and any(
        point in hooks for module in model.modules() for _, _, point in _points_of(module)
    )


# ---- for the models: which position is computed ----


def set_position(position: Any) -> None:
    """Tell the hooks of this context the position of what comes next: an int, or in an exported
    graph a tensor ().
    """
    if _hooks.get():
        _position.set(position)


def positions(count: int) -> Iterator[int]:
    """Yield 0, 1, ..., count - 1; hooks are told that many positions after the current one."""
    if not _hooks.get():
        yield from range(count)
        return
    first = _position.get()
    for offset in range(count):
        _position.set(first + offset)
        yield offset
    _position.set(first)
