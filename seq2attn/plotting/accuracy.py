"""Accuracy by string length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.inference.results import LengthResult

ASIDE = 0.16  # of a length


def accuracy_figure(results: Sequence[LengthResult], title: str) -> Figure:
    """Accuracy by length with 95 % intervals; lengths outside training on a grey ground."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    panel = figure.subplots()
    lengths = [result.length for result in results]
    for values, label, marker, colour, aside in (  # beside each other, so that equal ones are all seen
        ([result.exact_match for result in results], "exact match (greedy)", "o", "#00429d", -ASIDE),
        ([result.character_accuracy for result in results], "characters (greedy)", "s", "#c2571a", 0.0),
        ([result.teacher_forced for result in results], "characters (teacher-forced)", "^", "#3c7d4c", ASIDE),
    ):
        middle = [estimate.value for estimate in values]
        below = [estimate.value - estimate.low for estimate in values]
        above = [estimate.high - estimate.value for estimate in values]
        panel.errorbar(
            [length + aside for length in lengths],
            middle,
            [below, above],
            label=label,
            marker=marker,
            color=colour,
            ms=4,
            lw=1.2 - 3 * aside,
            capsize=2,
        )
    for result in results:
        if not result.trained:
            panel.axvspan(result.length - 0.5, result.length + 0.5, color="0.92", lw=0, zorder=0)
    untrained = any(not result.trained for result in results)
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_ylabel("accuracy")
    panel.set_ylim(-0.03, 1.03)
    panel.set_xticks(lengths if len(lengths) <= 20 else lengths[:: math.ceil(len(lengths) / 20)])
    panel.grid(axis="y", color="0.85", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8, loc="lower left")
    panel.set_title(title, fontsize=10, loc="left")
    return figure
