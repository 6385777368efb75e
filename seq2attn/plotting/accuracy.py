"""Accuracy by string length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2attn.plotting.style import clean, new_panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.inference.results import LengthResult

SHIFT = 0.16  # of a length, between points that would coincide


def accuracy_figure(results: Sequence[LengthResult], title: str) -> Figure:
    """Accuracy by length with 95 % intervals; lengths outside training on a grey background."""
    figure, panel = new_panel()
    lengths = [result.length for result in results]
    for values, label, marker, colour, shift in (
        ([result.exact_match for result in results], "exact match (greedy)", "o", "#00429d", -SHIFT),
        ([result.character_accuracy for result in results], "characters (greedy)", "s", "#c2571a", 0.0),
        ([result.teacher_forced for result in results], "characters (teacher-forced)", "^", "#3c7d4c", SHIFT),
    ):
        places, middle = [length + shift for length in lengths], [one.value for one in values]
        errors = [[one.value - one.low for one in values], [one.high - one.value for one in values]]
        look = {"label": label, "marker": marker, "color": colour, "lw": 1.2 - 3 * shift}
        panel.errorbar(places, middle, errors, ms=4, capsize=2, **look)
    for result in results:
        if not result.trained:
            panel.axvspan(result.length - 0.5, result.length + 0.5, color="0.92", lw=0, zorder=0)
    untrained = any(not result.trained for result in results)
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_ylabel("accuracy")
    panel.set_ylim(-0.03, 1.03)
    panel.set_xticks(lengths if len(lengths) <= 20 else lengths[:: math.ceil(len(lengths) / 20)])
    clean(panel)
    panel.legend(frameon=False, fontsize=8, loc="lower left")
    panel.set_title(title, fontsize=10, loc="left")
    return figure
