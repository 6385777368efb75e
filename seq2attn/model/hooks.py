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
        """Return what stands in place of a value (B, ...) after a hook: the value, or another.

        A user's hook gets a copy, since it may change it in place. Of a value with an axis of
        heads, such as a Transformer's weights (B, H, L, S), it gets one head after the other.
        """
        self.called.add(place.name)
        axes = place.point.axes
        # one of our own changes nothing in place, and takes all heads together
        if self.rank != Rank.HOOK:
            return _called(hook, value, value, place, axes)
        if "head" not in axes:
            return _called(hook, value, value.clone(), place, axes)
        index = axes.index("head")
        axes_of_one = axes[:index] + axes[index + 1 :]
        heads = []
        for number, one in enumerate(value.unbind(index + 1)):  # the first dimension is the batch
            heads.append(_called(hook, one, one.clone(), replace(place, head=number), axes_of_one))
        return torch.stack(heads, index + 1)


def _called(hook: Hook, value: Tensor, given: Tensor, place: Place, axes: Sequence[str]) -> Tensor:
    """Call a hook, and return what stands in place of `value` from now on.

    given: what the hook gets, the value or a copy of it; axes: its dimensions after the batch.
    `at.first` tells the hook the position at which the model now computes, `position_here`.
    Raises `Seq2AttnError` if the hook returns anything but None or a tensor of the value's shape
    and dtype, and if it changes a value that is fixed (`Point.fixed`).
    """
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
    return value


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
    except TypeError:
        return False
    except ValueError:  # of a builtin, which has no signature
        return callable(hook)
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
    `rank` says which come first. A bare point stands for a place with the point's own name.
    """
    entry = Entry(rank)
    by_point = dict(hooks_here.get())  # a copy: tasks that inherited this context have the same one
    for where, hook in hooks:
        place = where if isinstance(where, Place) else Place(where, where.name)
        group = [*by_point.get(place.point, ()), (entry, place, hook)]
        by_point[place.point] = tuple(sorted(group, key=lambda entered: entered[0].rank))
    hooks_here.set(by_point)
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
        by_point = {}
        for point, entered in hooks_here.get().items():
            live = tuple(one for one in entered if one[0].is_live)
            if live:
                by_point[point] = live
        hooks_here.set(by_point)
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
    if not hooks:
        return False
    for module in model.modules():
        if any(point in hooks for _, _, point in points_of(module)):
            return True
    return False
