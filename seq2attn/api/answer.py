"""A trained model's answer to a string, with its attention: what `model.predict` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.predictor import Hypothesis, Prediction
from seq2attn.plotting.html import html_map, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from seq2attn.data.tasks import Task

MOST_SHOWN = 50  # answers of a list in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The output for one string. `str(answer)` is the output alone; a notebook shows the attention map."""

    source: str
    output: str
    finished: bool
    """False if the model emitted no `<eos>` within the maximum number of steps"""
    source_symbols: tuple[str, ...]
    """S tokens, as the model reads them: the columns of `weights`"""
    output_symbols: tuple[str, ...]
    """T tokens with the `<eos>`: the rows of `weights`"""
    weights: NDArray[np.float32] | None
    """(T, S) attention weights; None without attention, and for sources of more than 1,000 characters"""
    expected: str | None = None
    """the right answer, if the task knows it"""
    ideal: tuple[int, ...] = ()
    """the source position that each character of the right answer copies; empty if unknown"""
    hypotheses: tuple[Hypothesis, ...] = ()
    """what a beam search found, best first"""

    @property
    def correct(self) -> bool | None:
        """Whether the output is the right answer; None if the task does not know that."""
        return None if self.expected is None else self.finished and self.output == self.expected

    @property
    def map(self) -> AttentionMap:
        """The attention as a record that `seq2attn.plotting` draws. Raises `Seq2AttnError` without weights."""
        if self.weights is None:
            reason = "the model has no attention, the string is too long, or weights=False was given"
            raise Seq2AttnError(f"there is no attention to draw for {shown(self.source)}: {reason}")
        rows = tuple(map(tuple, self.weights.tolist()))
        return AttentionMap(self.source, self.output, self.source_symbols, self.output_symbols, rows, self.ideal)

    def plot(self, ax: Axes | None = None, *, ideal: bool = False) -> Axes:
        """Draw the attention map into `ax`, by default a new figure's, and return it. ideal: outline the ideal alignment."""
        from seq2attn.plotting.attention import draw_map

        one = self.map
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        draw_map(ax, one, ideal=ideal)
        return ax

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        return f"Answer({self.source!r} -> {self.output!r}{self._remark})"

    def _repr_html_(self) -> str:
        if self.weights is None:
            return html_table(["source", "output"], [[self.source, f"{self.output}{self._remark}"]])
        return html_map(self.map, self._remark)

    @property
    def _remark(self) -> str:
        wrong = f", expected {self.expected!r}" if self.correct is False and self.output != self.expected else ""
        return wrong if self.finished else f"{wrong}, cut off"


class Answers(list[Answer]):
    """The answers to several strings, in order. A notebook shows their maps side by side."""

    def _repr_html_(self) -> str:
        more = f"<div>and {len(self) - MOST_SHOWN:,} more</div>" if len(self) > MOST_SHOWN else ""
        return f"<div>{''.join(one._repr_html_() for one in self[:MOST_SHOWN])}{more}</div>"


def make_answer(prediction: Prediction, task: Task) -> Answer:
    """The answer for a prediction, with what `task` knows about it."""
    known = task.answer(prediction.source)
    return Answer(
        prediction.source,
        prediction.output,
        prediction.finished,
        prediction.source_symbols,
        prediction.output_symbols,
        None if prediction.weights is None else np.array(prediction.weights, dtype=np.float32),
        known.text if known else None,
        tuple(known.alignment or ()) if known else (),
        prediction.hypotheses,
    )
