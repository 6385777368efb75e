"""What a trained model returns: answers, each the output for one string with its attention; and
caches of what it computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, quoted
from seq2attn.model.interface import Model, at_least_float32
from seq2attn.model.points import At, Hook, Place, Point, by_row, places, row_axis
from seq2attn.results.answers import AttentionMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Hypothesis:
    """One of the outputs that beam search found for a string."""

    output: str
    log_probability: float
    """nats, natural logarithm of the probability of the whole output with its `<eos>`"""
    score: float
    """what hypotheses are ranked by: the log-probability after the length penalty"""
    finished: bool
    """False if it was cut off before an `<eos>`"""


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The output for one string. `str(answer)` is the output alone; a notebook shows the attention
    map.
    """

    source: str
    """the string that was read"""
    output: str
    """the string that was written"""
    finished: bool
    """False if the model emitted no `<eos>` within the maximum number of steps"""
    source_symbols: tuple[str, ...] = ()
    """the tokens that the model read, with `<eos>` if it reads one: the columns of `weights`"""
    output_symbols: tuple[str, ...] = ()
    """the emitted tokens, with `<eos>`: the rows of `weights`"""
    output_ids: tuple[int, ...] = ()
    """the ids of `output_symbols` in the target's vocabulary"""
    weights: NDArray[np.floating] | None = None
    """(T, S) the attention weights; None if they were not requested, of a model without attention,
    and of a source of more than 1,000 symbols"""
    hypotheses: tuple[Hypothesis, ...] = ()
    """what beam search found, best first: the first is the output"""
    task: Task | None = None
    """the task, which may know the right answer"""

    @property
    def expected(self) -> str | None:
        """The right answer, if the task knows it."""
        solution = self.task and self.task.answer(self.source)
        return solution.text if solution else None

    @property
    def ideal(self) -> tuple[int, ...]:
        """The source position that each character of the right answer copies; empty if unknown."""
        solution = self.task and self.task.answer(self.source)
        return (solution and solution.alignment) or ()

    @property
    def correct(self) -> bool | None:
        """True if the output is the right answer; None if the task does not know that."""
        expected = self.expected
        return None if expected is None else self.finished and self.output == expected

    @property
    def map(self) -> AttentionMap | None:
        """The attention as a record that `seq2attn.plotting` draws; None without weights."""
        if self.weights is None:
            return None
        rows = tuple(map(tuple, self.weights.tolist()))
        return AttentionMap(
            self.source, self.output, self.source_symbols, self.output_symbols, rows, self.ideal
        )

    def plot(self, ax: Axes | None = None, *, ideal: bool = False) -> Axes:
        """Draw the attention map into `ax`, by default the axes of a new figure, and return them.

        ideal: True to outline the ideal alignment.

        Raises `Seq2AttnError` for an answer without weights.
        """
        from seq2attn.plotting.attention import draw_map

        if self.map is None:
            raise Seq2AttnError(
                f"there is no attention to draw for {quoted(self.source)}: the model has no "
                "attention, the string is too long, or weights=False was given"
            )
        ax = axes_for(ax)
        draw_map(ax, self.map, ideal=ideal)
        return ax

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without those that are unknown or empty, and without `output_ids`:
        the answer's other fields, `expected` and `ideal`. Weights have 6 decimals.
        """
        record = asdict(replace(self, task=None, weights=None, output_ids=()))
        record["expected"] = self.expected
        record["ideal"] = self.ideal
        if self.weights is not None:
            record["weights"] = self.weights.astype(float).round(6).tolist()
        return {name: value for name, value in record.items() if value not in (None, ())}

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        return f"Answer({self.source!r} -> {self.output!r}{self._remark})"

    def _repr_html_(self) -> str:
        from seq2attn.plotting.cells import html_map, html_title

        if self.map is None:
            return html_title(self.source, self.output, self._remark)
        return html_map(self.map, self._remark)

    @property
    def _remark(self) -> str:
        """What is wrong with the answer, for people."""
        wrong = self.correct is False and self.output != self.expected
        remark = f", expected {self.expected!r}" if wrong else ""
        return remark if self.finished else f"{remark}, cut off"


def axes_for(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    return ax


@dataclass(frozen=True, eq=False)
class PatchMap:
    """The effects of the rows of a quantity on an answer."""

    quantity: str
    axis: str
    """of its rows: `step` or `source`"""
    answer: Answer
    """to the string as it is"""
    other: Answer
    """to the string that rows are taken from"""
    effect: NDArray[np.floating] = field(repr=False)
    """(P, T) by how much ln p of each of the answer's symbols falls, in nats: a row for each
    patched step or position, a column for each step"""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the effects into `ax`, by default the axes of a new figure, and return them. Effects
        below 0 look like 0.
        """
        from seq2attn.plotting.attention import draw_map

        # drawn as an attention map, with a row for each patched step or source position, and a
        # column for each step of the answer
        answer = self.answer
        rows = answer.source_symbols if self.axis == "source" else answer.output_symbols
        drawn = AttentionMap(
            answer.source,
            answer.output,
            answer.output_symbols,
            rows[: len(self.effect)],  # those that both strings have
            tuple(map(tuple, self.effect.tolist())),
        )
        ax = axes_for(ax)
        title = f"{self.quantity} of {self.other.source!r} in {answer.source!r}"
        # colours reach to 1 nat at least, so that small effects look small
        draw_map(ax, drawn, title=title, largest=max(float(self.effect.max()), 1.0))
        ax.set(xlabel="ln p lost at", ylabel="patched at")
        ax.figure.colorbar(ax.collections[0], ax=ax, label="nats")
        return ax


# ---- a look inside: what a model computes while it decodes, kept by hooks ----


class Visit(NamedTuple):
    """What a model computed at one point in one call, for B strings and L positions."""

    point: Point
    strings: Tensor
    """(B,) their indices"""
    positions: range
    rows: NDArray[Any]
    """(B, L, ...)"""


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
        axes: Mapping[str, tuple[str, ...]],
        lengths: Mapping[str, Any],
    ) -> None:
        """Keep the arrays.

        arrays, axes: name of a quantity -> its array, and what each dimension of that counts.
        lengths: how many rows of `step` and of `source` there are, as the attribute says.
        """
        super().__init__(arrays)
        self._axes = axes
        self.lengths = lengths
        """`step` and `source`: how many there are; of several strings, an array with a number for
        each"""

    def names(self) -> dict[str, tuple[str, ...]]:
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
        return f"Cache({self.names()})"

    def __missing__(self, name: object) -> NDArray[Any]:
        raise Seq2AttnError(f"unknown quantity {quoted(name)}; this model has {', '.join(self)}")


class Collector:
    """Keeps what a model computes for strings, in the context of
    `hooked_places(collector.hooks, Rank.CACHE)`: its hooks keep each value that passes a point, and
    `cache` joins them.

    Points without axes, those that no value passes, and the encoder's single steps are left out.
    Points that share a name, such as those of heads, become one array.
    """

    def __init__(self, model: Model) -> None:
        """Make the hooks that keep what passes those points of `model` that a cache has."""
        self._points: dict[str, list[Point]] = {}  # name -> those that share it
        self._visits: dict[str, list[Visit]] = defaultdict(list)  # by name
        self.hooks: list[tuple[Place, Hook]] = []
        for name, group in places(model).items():
            axes = group[0].point.axes
            # A cache has no points without axes, and none of an encoder without `source`: those are
            # passed once for each step of its cells.
            if axes and ("source" in axes or not name.startswith("encoder.")):
                self._points[name] = [place.point for place in group]
                self.hooks += [(place, self._keep) for place in group]

    def _keep(self, value: Tensor, at: At) -> None:
        """Keep a value (B, ...) that passes a point. The hook of each of them."""
        rows = at_least_float32(by_row(at.axes, value)).cpu().numpy()
        self._visits[at.name].append(Visit(at.point, at.strings, at.positions, rows))

    def cache(self, answers: Sequence[Answer]) -> Cache:
        """Return the cache of all strings.

        answers: those to the strings, by their indices; they say where each string's steps and
            source positions end in the arrays.
        """
        steps = np.array([len(answer.output_symbols) for answer in answers])
        sources = np.array([len(answer.source_symbols) for answer in answers])
        arrays, axes = {}, {}
        for name, points in self._points.items():
            if name not in self._visits:  # no value has passed the points of this name
                continue
            own = points[0].axes  # those of one point are those of all
            counted = row_axis(own)  # what rows are: `step` or `source`
            # where several points share the name, an axis tells them apart, such as `head`
            each = [points[0].each or "point"] if len(points) > 1 else []
            axes[name] = ("string", counted, *each, *[axis for axis in own if axis != counted])

            array = _joined(name, self._visits[name], points, len(answers))
            # A batch goes on until the longest of its outputs has ended. (Its sources have one
            # length, so rows of `source` have nothing behind their ends.)
            if counted == "step":
                array[np.arange(array.shape[1]) >= steps[:, None]] = _blank(array)
            arrays[name] = array if each else array[:, :, 0]
        return Cache(arrays, axes, {"step": steps, "source": sources})


def _joined(
    name: str, visits: Sequence[Visit], points: Sequence[Point], count: int
) -> NDArray[Any]:
    """Return all that was computed at some points for `count` strings as one array (count,
    positions, points, ...): along each axis as long as the longest visit, and blank (`_blank`)
    where a string has no value.

    name: of the quantity, for messages. Raises `Seq2AttnError` for two rows of one position.
    """
    positions = max(visit.positions.stop for visit in visits)
    # the rows of a visit are (B, L, ...), for B strings and L positions: all axes after these
    longest = np.max([visit.rows.shape[2:] for visit in visits], axis=0).astype(int)
    first = visits[0].rows
    array = np.full((count, positions, len(points), *longest), _blank(first), first.dtype)
    for visit in visits:
        here = slice(visit.positions.start, visit.positions.stop)
        # along every other axis as much as the visit has
        sizes = map(slice, visit.rows.shape[2:])
        region: Any = (visit.strings.numpy(), here, points.index(visit.point), *sizes)
        # (in an array of bool, False may be a value, so that nothing tells that one was there)
        if array.dtype.kind == "f" and not np.isnan(array[region]).all():
            raise Seq2AttnError(
                f"{name} is passed several times at position {here.start}, and a cache keeps one "
                "value",
                hint="Give each of them a point of its own, or the axes step and source.",
            )
        array[region] = visit.rows
    return array


def _blank(array: NDArray[Any]) -> float | bool:
    """Return what stands where a string has no value: nan, or False in `attention.allowed`."""
    return np.nan if array.dtype.kind == "f" else False
