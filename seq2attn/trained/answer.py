"""What a trained model answers: an output that draws its attention."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.predictor import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Answer(Prediction):
    """The output for one string. `str(answer)` is the output alone; a notebook shows the attention map.

    `weights` is None without attention, and for sources of more than 1,000 characters.
    """

    def plot(self, ax: Axes | None = None, *, ideal: bool = False) -> Axes:
        """Draw the attention map into `ax`, by default a new figure's, and return it. ideal: outline the ideal alignment."""
        from seq2attn.plotting.attention import draw_map

        if self.map is None:
            reason = "the model has no attention, the string is too long, or weights=False was given"
            raise Seq2AttnError(f"there is no attention to draw for {shown(self.source)}: {reason}")
        ax = axes_for(ax)
        draw_map(ax, self.map, ideal=ideal)
        return ax

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        return f"Answer({self.source!r} -> {self.output!r}{self._remark})"

    def _repr_html_(self) -> str:
        from seq2attn.plotting.cells import html_map
        from seq2attn.plotting.style import apart

        if self.map is None:
            return f"<div>{escape(f'{apart(self.source)} → {apart(self.output)}{self._remark}')}</div>"
        return html_map(self.map, self._remark)

    @property
    def _remark(self) -> str:
        wrong = f", expected {self.expected!r}" if self.correct is False and self.output != self.expected else ""
        return wrong if self.finished else f"{wrong}, cut off"


def axes_for(ax: Axes | None) -> Axes:
    """`ax`, or those of a new figure."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    return ax
