"""A metric by family of strings and by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seq2attn.inference.results import Place, worst_place
from seq2attn.plotting.style import clean, new_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#00429d", "#c2571a", "#3c7d4c", "#7a3b9a", "#8a6d1f", "#2b8a9d", "#b0306a")
WORST = "#c00000"


def families_figure(values: Mapping[Place, float], untrained: Sequence[int], label: str, title: str) -> Figure:
    """The metric `label` of each (family, length) by length, one line a family; the worst family is drawn boldly."""
    figure, panel = new_panel()
    draw_families(panel, values, untrained)
    panel.set_ylabel(label)
    clean(panel)
    panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    panel.set_title(title, fontsize=10, loc="left")
    return figure


def draw_families(panel: Axes, values: Mapping[Place, float], untrained: Sequence[int]) -> None:
    """The lines of `families_figure`, lengths at equal distances, those in `untrained` on grey."""
    lengths = sorted({length for _, length in values})
    families = list(dict.fromkeys(family for family, _ in values))
    worst = worst_place(values)
    for number, family in enumerate(families):
        places = [place for place, length in enumerate(lengths) if (family, length) in values]
        at = [values[family, lengths[place]] for place in places]
        bold = worst is not None and family == worst[0]
        colour, width = (WORST, 2.4) if bold else (COLOURS[number % len(COLOURS)], 1.0)
        name = f"{family} (worst)" if bold else family
        size = 3 + 1.2 * (len(families) - number)  # where lines coincide, all markers are seen
        (line,) = panel.plot(places, at, label=name, color=colour, lw=width, zorder=2 + bold, clip_on=False)
        line.set(marker="o", markersize=size, markerfacecolor="none")
    for place, length in enumerate(lengths):
        if length in untrained:
            panel.axvspan(place - 0.5, place + 0.5, color="0.93", lw=0, zorder=0)
    panel.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_xlim(-0.5, len(lengths) - 0.5)
    panel.set_ylim(-0.03, 1.05)
