"""Hooks: the one way to look into a computation and to change it.

In the context of `hooked`, functions see the values that pass the points of a model, and may change
them. Hooks belong to a context (`contextvars`), not to a module: another thread, or another task of
an event loop, does not notice them.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError, unknown
from seq2attn.model.points import (
    At,
    Hook,
    Place,
    Point,
    hooks_here,
    places,
    points_of,
    position_here,
    strings_here,
)
from seq2attn.text import quoted


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
            return _called(hook, value, value, place, axes)
        if "head" not in axes:
            return _called(hook, value.clone(), value, place, axes)
        axis = axes.index("head") + 1
        of_one = axes[: axis - 1] + axes[axis:]
        heads = []
        for number, of_head in enumerate(value.unbind(axis)):
            at_head = replace(place, head=number)
            heads.append(_called(hook, of_head.clone(), of_head, at_head, of_one))
        return torch.stack(heads, axis)


def _called(hook: Hook, given: Tensor, value: Tensor, place: Place, axes: Sequence[str]) -> Tensor:
    """Return what a hook makes of `given`: the value, with these axes, or a copy of it."""
    new = hook(given, At(place, given, axes))
    new = given if new is None else _checked(new, value, place)
    if not place.point.fixed or new is value:
        return new
    if not torch.equal(new, value):
        raise Seq2AttnError(f"a hook cannot replace {place.name} here: {place.point.fixed}")
    return value


def _checked(new: Any, value: Tensor, place: Place) -> Tensor:
    """Return what a hook returned. Raises `Seq2AttnError` unless it fits the value."""
    if isinstance(new, Tensor) and (new.shape, new.dtype) == (value.shape, value.dtype):
        return new
    found = f"{new.dtype} {tuple(new.shape)}" if isinstance(new, Tensor) else quoted(new)
    raise Seq2AttnError(
        f"a hook of {place.name} returned {found}; expected {value.dtype} {tuple(value.shape)}, "
        "or None"
    )


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
def hooked_places(hooks: Iterable[tuple[Place | Point, Hook]], rank: Rank) -> Iterator[Entry]:
    """In this context, call hooks at some places, or at points themselves, among others by their
    rank.
    """
    entry = Entry(rank)
    everything = dict(hooks_here.get())
    for where, hook in hooks:
        place = where if isinstance(where, Place) else Place(where, where.name)
        group = [*everything.get(place.point, ()), (entry, place, hook)]
        everything[place.point] = tuple(sorted(group, key=lambda entered: entered[0].rank))
    hooks_here.set(everything)
    position = position_here.get()
    position_here.set(0)
    try:
        yield entry
    finally:  # whatever was entered or left since, in this context or another
        entry.is_live = False
        left = {}
        for point, group_ in hooks_here.get().items():
            if live := tuple(entered for entered in group_ if entered[0].is_live):
                left[point] = live
        hooks_here.set(left)
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
    hooks = hooks_here.get()
    return bool(hooks) and any(
        point in hooks for module in model.modules() for _, _, point in points_of(module)
    )
