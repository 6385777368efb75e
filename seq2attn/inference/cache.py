"""A look inside: what a model computes while it decodes, by name, kept by hooks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.answer import Answer
from seq2attn.model.interface import Model, at_least_float32
from seq2attn.model.points import At, Hook, Place, Point, by_row, places, row_axis
from seq2attn.text import quoted

Axes = tuple[str, ...]
Visit = tuple[range, Tensor]
"""the positions of L rows, and what was computed there (B, L, ...)"""
Batch = tuple[Sequence[int], NDArray[Any]]
"""the indices of B strings, and what the model computed for them (B, L, ...)"""


class Cache(dict[str, NDArray[Any]]):
    """What a model computed for one string, or for several, by name.

    `names()` has the axes of each array: `step` is a position of the output, `source` one of the
    source, `width` the numbers of a vector, `head`, `layer`, `gate` and `tensor` what there are
    several of, `symbol` those of `model.task.target_vocabulary`. Arrays of several strings begin
    with the axis `string`; past the end of a string, they are nan (False in `attention.allowed`),
    and `lengths` has the ends.

    encoder.states: those of the top layer; in a bidirectional encoder, the forward half beside the
        backward half.
    decoder.state: what each step reads from the one before; row 0 is the initial state. Of an LSTM
        h, then c; of several layers the bottom one first.
    decoder.gates: r, z, n of a GRU; i, f, g, o of an LSTM; the bottom layer's first.
    attention.query, attention.keys: what the score function compares.
    attention.allowed: the keys that may be attended to.
    attention.scores: what the score function returns.
    attention.logits: what the normaliser gets.
    attention.normalised: its weights, before a window's factor or a history changes them.
    attention.weights: the weights of the context; of `hard_monotonic`, those of the answer.
    attention.context: the weighted mean of the values.
    attention.transition: of `hard_monotonic`, the weights that its attention computes.
    logits: the scores of the symbols, before their softmax.

    A Transformer has encoder.states, attention.* of each layer's attention to the source, and
    logits.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        axes: Mapping[str, Axes],
        lengths: Mapping[str, Any],
    ) -> None:
        """Keep the arrays.

        arrays, axes: name of a quantity -> its array, and what each dimension of that counts.
        lengths: as the attribute says.
        """
        super().__init__(arrays)
        self._axes = axes
        self.lengths = lengths
        """`step` and `source`: how many there are; of several strings, an array with a number for
        each"""

    def names(self) -> dict[str, Axes]:
        """Return the names that this model has, each with the axes of its array."""
        return dict(self._axes)

    def string(self, index: int) -> Cache:
        """Return the cache of one of several strings: arrays without the axis `string`, and without
        steps and source positions past its ends.
        """
        lengths = {axis: ends[index] for axis, ends in self.lengths.items()}
        axes = {name: axes[1:] for name, axes in self._axes.items()}
        arrays = {}
        for name, array in self.items():
            ends = [lengths.get(axis) for axis in axes[name]]  # None: the whole of another axis
            arrays[name] = array[index][*map(slice, ends)]
        return Cache(arrays, axes, lengths)

    def __repr__(self) -> str:
        arrays = []
        for name, array in self.items():
            axes = zip(self._axes[name], array.shape, strict=True)
            sizes = [f"{axis} {size}" for axis, size in axes]
            arrays.append(f"{name} ({', '.join(sizes)})")
        return f"Cache({', '.join(arrays)})"

    def __missing__(self, name: object) -> NDArray[Any]:
        raise Seq2AttnError(f"unknown quantity {quoted(name)}; this model has {', '.join(self)}")


class Collector:
    """Keeps what a model computes for batches of strings, in the context of
    `hooked_places(collector.hooks, Rank.CACHE)`: its hooks keep each value that passes a point,
    `end_batch` says which strings these were of, and `cache` joins all batches.

    Points without axes, those that no value passes, and the encoder's single steps are left out.
    Points that share a name, such as those of heads, become one array.
    """

    def __init__(self, model: Model) -> None:
        """Make the hooks that keep what passes the points of `model`."""
        self._groups: dict[str, list[Point]] = {}  # name -> the points that share it
        self.hooks: list[tuple[Place, Hook]] = []
        for name, group in places(model).items():
            axes = group[0].point.axes
            # an encoder's points without `source` are passed once for each step of its cells
            if axes and ("source" in axes or not name.startswith("encoder.")):
                self._groups[name] = [place.point for place in group]
                for place in group:
                    self.hooks.append((place, partial(self._keep, place.point)))

        self._visits: dict[Point, list[Visit]] = defaultdict(list)  # of this batch
        self._batches: dict[str, list[Batch]] = defaultdict(list)  # by name

    def _keep(self, point: Point, value: Tensor, at: At) -> None:
        """Keep a value (B, ...) that passes a point. The hook of each of them."""
        self._visits[point].append((at.positions, by_row(point.axes, value)))

    def end_batch(self, indices: Sequence[int]) -> None:
        """Assign what was kept since the last call to the strings with these indices: the B rows of
        a batch, in order, whose sources have one length.
        """
        for name, group in self._groups.items():
            found = []  # (B, rows, ...) of each point that a value has passed in this batch
            for point in group:
                if point in self._visits:
                    found.append(by_position(name, self._visits[point]))
            if found:  # (no value may have passed the points of this name)
                # (B, rows, ...); (B, rows, points, ...) where several points share the name
                joined = found[0] if len(group) == 1 else torch.stack(found, dim=2)
                self._batches[name].append((indices, at_least_float32(joined).cpu().numpy()))
        self._visits.clear()

    def cache(self, answers: Sequence[Answer]) -> Cache:
        """Return the cache of all strings of all batches.

        answers: those to the strings, by their indices; they say where each string's steps and
            source positions end in the arrays.
        """
        steps = np.array([len(answer.output_symbols) for answer in answers])
        sources = np.array([len(answer.source_symbols) for answer in answers])
        arrays, axes = {}, {}

        for name, batches in self._batches.items():
            point, *others = self._groups[name]  # the axes of one are those of all
            counted = row_axis(point.axes)  # what rows are: `step` or `source`
            # where several points share the name, an axis tells them apart, such as `head`
            each = [point.each or "point"] if others else []
            of_row = [axis for axis in point.axes if axis != counted]
            axes[name] = ("string", counted, *each, *of_row)

            arrays[name] = array = _joined(batches, len(answers))
            # A batch goes on until the longest of its outputs has ended. (Its sources have one
            # length, so rows of `source` have nothing behind their ends.)
            if counted == "step":
                array[np.arange(array.shape[1]) >= steps[:, None]] = _blank(array)

        return Cache(arrays, axes, {"step": steps, "source": sources})


def _joined(batches: Sequence[Batch], count: int) -> NDArray[Any]:
    """Return the arrays of all batches as one for `count` strings, (count, ...): along each axis as
    long as the longest of them, and blank (`_blank`) beyond the end of the others.
    """
    longest = np.max([values.shape[1:] for _, values in batches], axis=0)
    _, first = batches[0]
    array = np.full((count, *longest), _blank(first), first.dtype)
    for indices, values in batches:
        # these strings, and along every other axis as much as the batch has
        region: Any = indices, *map(slice, values.shape[1:])
        array[region] = values
    return array


def _blank(array: NDArray[Any]) -> float | bool:
    """Return what stands where a string has no value: nan, or False in `attention.allowed`."""
    return np.nan if array.dtype.kind == "f" else False


def by_position(name: str, visits: Sequence[Visit]) -> Tensor:
    """Join the rows (B, L, ...) of several calls in the order of their positions: (B, last position
    + 1, ...), with nan, or False, at positions without a row.

    name: of the quantity, for messages. Raises `Seq2AttnError` for two rows of one position.
    """
    order: list[int] = []  # the position of each row of `joined`
    for positions, _ in visits:
        order += positions
    joined = torch.cat([rows for _, rows in visits], dim=1)
    if order == list(range(len(order))):  # nearly always: no position is missing or out of order
        return joined
    position, count = Counter(order).most_common(1)[0]
    if count > 1:
        raise Seq2AttnError(
            f"{name} is passed several times at position {position}, and a cache keeps one value",
            hint="Give each of them a point of its own, or the axes step and source.",
        )
    blank = torch.nan if joined.is_floating_point() else 0  # 0: False, as in `attention.allowed`
    shape = (len(joined), max(order) + 1, *joined.shape[2:])
    placed = joined.new_full(shape, blank)
    placed[:, order] = joined
    return placed
