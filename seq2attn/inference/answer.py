"""The answer of a trained model: the output for one string, with its attention."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError
from seq2attn.results.answers import AttentionMap
from seq2attn.text import quoted

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
