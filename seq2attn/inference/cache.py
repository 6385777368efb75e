"""A look inside: what a model computes while it decodes, by name, kept by hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.changes import by_row, lead_of
from seq2attn.model.interface import Model
from seq2attn.model.points import Hook, Point, points
from seq2attn.text import quoted


class Quantity(NamedTuple):
    """What a model computed for a batch at the points of one name."""

    axes: tuple[str, ...]
    """of `rows`, without the batch: `step` or `source` first"""
    rows: Tensor
    """(B, L, ...)"""


class Cache(dict[str, NDArray[Any]]):
    """What a model computed for one string, or for several, by name.

    `names()` has the axes of each array: `step` is a position of the output, `source` one of the
    source, `width` the numbers of a vector, `head`, `layer`, `gate` and `tensor` what there are
    several of, `symbol` those of `model.task.target_vocabulary`. Arrays of several strings begin
    with the axis `string`; past the end of a string, they are nan (False in `attention.allowed`),
    and `lengths` has the ends.

    encoder.states: of the top layer; in a bidirectional encoder forward beside backward half.
    decoder.state: what each step reads from the one before; row 0 is the initial state. Of an LSTM
        h, then c; of several layers the bottom one first.
    decoder.gates: r, z, n of a GRU; i, f, g, o of an LSTM; the bottom layer's first.
    attention.query, attention.keys: what the score compares. attention.allowed: the keys that may
        be attended to. attention.scores: of the score function. attention.logits: what the
        normaliser gets. attention.normalised: its weights, before a window's factor or a history
        changes them. attention.weights: those of the context. attention.context. Of
        `hard_monotonic`, the weights are those of the answer, and attention.transition has those
        that its attention computes.
    logits: before the softmax over symbols.

    A Transformer has encoder.states, attention.* of each layer's attention to the source, and
    logits.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        axes: Mapping[str, tuple[str, ...]],
        lengths: Mapping[str, NDArray[np.integer] | int],
    ) -> None:
        super().__init__(arrays)
        self._axes = dict(axes)
        self.lengths = dict(lengths)
        """`step` and `source`: how many there are, of several strings an array with a number for
        each"""

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the names that this model has, each with the axes of its array."""
        return dict(self._axes)

    def __repr__(self) -> str:
        lines = []
        for name, array in self.items():
            sizes = zip(self._axes[name], array.shape, strict=True)
            lines.append(f"{name} ({', '.join(f'{axis} {size}' for axis, size in sizes)})")
        return f"Cache({', '.join(lines)})"

    def __missing__(self, name: object) -> NDArray[Any]:
        raise Seq2AttnError(f"unknown quantity {quoted(name)}; this model has {', '.join(self)}")


class Recorder:
    """Keeps what passes through the points of a model, in the context of
    `hooked_points(recorder.hooks)`.

    Points without axes, and the encoder's single steps, are left out.
    """

    def __init__(self, model: Model) -> None:
        self._groups = {
            name: group for name, group in points(model).items() if _is_kept(name, group)
        }
        self._values: dict[Point, list[Tensor]] = {
            point: [] for group in self._groups.values() for point in group
        }

    @property
    def hooks(self) -> dict[Point, Hook]:
        """The hooks that keep the values."""
        return {point: partial(self._keep, point) for point in self._values}

    def _keep(self, point: Point, value: Tensor, _: int) -> None:
        self._values[point].append(by_row(point, value))

    def take(self) -> dict[str, Quantity]:
        """Return what was kept since the last call, of the names that were passed through."""
        taken: dict[str, Quantity] = {}
        for name, group in self._groups.items():
            kept = [torch.cat(self._values[point], dim=1) for point in group if self._values[point]]
            if not kept:
                continue
            lead = lead_of(group[0])
            others = tuple(axis for axis in group[0].axes if axis != lead)
            if len(kept) == 1:
                taken[name] = Quantity((lead, *others), kept[0])
            else:
                taken[name] = Quantity(
                    (lead, group[0].each or "point", *others), torch.stack(kept, dim=2)
                )
        for values in self._values.values():
            values.clear()
        return taken


def _is_kept(name: str, group: Sequence[Point]) -> bool:
    axes = group[0].axes
    return bool(axes) and not (name.startswith("encoder.") and "source" not in axes)


def collect(
    count: int, batches: Sequence[tuple[Sequence[int], Mapping[str, Quantity], Sequence[int]]]
) -> Cache:
    """Join what was computed for batches of strings of one length each, (indices, quantities, steps
    of each), into a cache.

    count: of all strings.
    """
    steps, sources = np.zeros(count, np.int64), np.zeros(count, np.int64)
    arrays: dict[str, NDArray[Any]] = {}
    axes: dict[str, tuple[str, ...]] = {}
    for name, quantity in batches[0][1].items():
        axes[name] = ("string", *quantity.axes)
        shapes = [batch[name].rows.shape[1:] for _, batch, _ in batches]
        shape = (count, *map(max, zip(*shapes, strict=True)))
        dtype = quantity.rows.cpu().numpy().dtype
        arrays[name] = np.full(shape, np.nan if dtype.kind == "f" else 0, dtype)
    for indices, batch, ends in batches:
        steps[list(indices)] = ends
        for name, quantity in batch.items():
            rows = quantity.rows.cpu().numpy()
            if quantity.axes[0] == "source":
                sources[list(indices)] = rows.shape[1]
            else:
                past_end = np.arange(rows.shape[1]) >= np.asarray(ends)[:, None]
                rows[past_end] = np.nan if rows.dtype.kind == "f" else 0
            place: Any = (list(indices), *map(slice, rows.shape[1:]))
            arrays[name][place] = rows
    return Cache(arrays, axes, {"step": steps, "source": sources})


def only(cache: Cache) -> Cache:
    """Return the cache of a single string without the axis `string`."""
    arrays = {name: array[0] for name, array in cache.items()}
    axes = {name: of[1:] for name, of in cache.names().items()}
    return Cache(
        arrays, axes, {axis: int(np.asarray(length)[0]) for axis, length in cache.lengths.items()}
    )
