"""Hook points: the one way to look into a computation and to change it.

A model passes values such as attention weights through points. In the context of `hooked`,
functions see these values and may replace them. Hooks belong to a context (`contextvars`), not to a
module: another thread, or another task of an event loop, does not notice them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError
from seq2attn.text import did_you_mean, quoted

Hook = Callable[[Tensor, Any], Tensor | None]
"""the value at a point, and the position of its first row -> the value in its place, or None for no
change"""

_hooks: ContextVar[Mapping[Point, tuple[Hook, ...]]] = ContextVar("hooks", default={})  # noqa: B039 (never changed)
_position: ContextVar[Any] = ContextVar("position", default=0)

CONTAINERS = {"models", "layers", "heads", "cells", "cell"}
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
        """Return `value`, or what the hooks of this context make of it; those of an inner `hooked`
        come first.
        """
        hooks = _hooks.get()
        if not hooks:  # as nearly always
            return value
        for hook in hooks.get(self, ()):
            new = hook(value, _position.get())
            if new is None:
                continue
            if self.fixed:
                raise Seq2AttnError(f"a hook cannot replace the {self.name} here: {self.fixed}")
            if not isinstance(new, Tensor) or new.shape != value.shape:
                found = tuple(new.shape) if isinstance(new, Tensor) else quoted(new)
                raise Seq2AttnError(
                    f"a hook of {self.name} returned {found}; "
                    f"expected a tensor {tuple(value.shape)}, or None"
                )
            value = new
        return value


def points(model: nn.Module) -> dict[str, list[Point]]:
    """Find the points of a model by their public names, such as `attention.weights`.

    Several points may share a name: those of each head, of each layer, of each gate of a cell.
    """
    found: dict[str, list[Point]] = {}
    whole, *parts = model.named_modules()
    for path, module in [*parts, whole]:  # the model's own come last, as its logits do
        for point in points_of(module):
            group = found.setdefault(_public_name(path, point.name), [])
            if point not in group:  # layers share their points with the stack of them
                group.append(point)
    return found


def points_of(module: nn.Module) -> Iterator[Point]:
    """Yield the points of a module itself, those in tuples included."""
    for value in vars(module).values():
        for member in value if isinstance(value, tuple) else (value,):
            if isinstance(member, Point):
                yield member


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


@contextlib.contextmanager
def hooked(model: nn.Module, hooks: Mapping[str, Hook]) -> Iterator[None]:
    """In this context, call a function with the values at some points of a model, and use what it
    returns instead.

    hooks: public names of points (`points`) -> a function of the value (B, ...) and the position of
        its first row. It returns a tensor of the same shape, or None to change nothing. Positions
        are steps of the output, or of the source in the encoder, and count from 0.

    Raises `Seq2AttnError` for a name that this model does not have.
    """
    known = points(getattr(model, "module", model))  # a `TrainedModel` has a module
    for name in hooks:
        if name not in known:
            guess = did_you_mean(str(name), known)
            raise Seq2AttnError(
                f"unknown point {quoted(name)}; {guess}this model has {', '.join(known)}"
            )
    with hooked_points({point: hook for name, hook in hooks.items() for point in known[name]}):
        yield


@contextlib.contextmanager
def hooked_points(hooks: Mapping[Point, Hook]) -> Iterator[None]:
    """As `hooked`, with the points themselves."""
    outer = _hooks.get()
    inner = {point: (hook, *outer.get(point, ())) for point, hook in hooks.items()}
    hooks_before = _hooks.set({**outer, **inner})
    position_before = _position.set(0)
    try:
        yield
    finally:
        _position.reset(position_before)
        _hooks.reset(hooks_before)


def is_hooked(model: nn.Module) -> bool:
    """Return whether a hook of this context is at a point of `model`."""
    hooks = _hooks.get()
    return bool(hooks) and any(
        point in hooks for module in model.modules() for point in points_of(module)
    )


# ---- for the models: which position is computed ----


def at(position: Any) -> None:
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
