"""Curves of one or several runs over steps of training, and of one by string length and family of strings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from seq2attn.inference.results import Evaluation, Place, Row, worst_place
from seq2attn.plotting.style import clean, logarithmic, looks, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#00429d", "#c2571a", "#3c7d4c", "#7a3b9a", "#8a6d1f", "#2b8a9d", "#b0306a")  # of families
WORST = "#c00000"
SMOOTHED = 50  # points of a curve, about: neighbours are averaged
SHIFT = 0.16  # of a length, between points that would coincide


def curves_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]], scores: Sequence[str], label: str, *, log: bool = False
) -> Figure:
    """A number that is logged in training against step: run -> (step, value).

    log: on a logarithmic scale, without values that are not positive; faint: as logged; strong: averaged.
    """
    figure, (panel,) = new_panels()
    for look, (name, points) in zip(looks(scores), curves.items(), strict=True):
        drawn = [(step, value) for step, value in points if value > 0] if log else points
        if drawn and log:
            panel.plot(*zip(*drawn, strict=True), color=look.colour, lw=0.5, alpha=0.3)
            drawn = averaged(drawn)
        panel.plot(*zip(*drawn, strict=True) if drawn else ([], []), look.dash, color=look.colour, lw=1.6, label=name)
    if log:
        logarithmic(panel)
    panel.set_ylabel(label)
    _finish(panel, len(curves))
    return figure


def accuracy_curves_figure(curves: Mapping[str, Sequence[tuple[int, Evaluation]]], scores: Sequence[str]) -> Figure:
    """Exact match against step: run -> (step, evaluation). The mean over the trained lengths; shaded down to the
    worst of them.
    """
    figure, (panel,) = new_panels()
    for look, (name, evaluations) in zip(looks(scores), curves.items(), strict=True):
        steps = [step for step, _ in evaluations]
        means = [results.mean("exact_match") for _, results in evaluations]
        worst = [results.lowest().value for _, results in evaluations]
        style = {"color": look.colour, "lw": look.width, "ls": look.dash, "marker": look.marker}
        panel.plot(steps, means, ms=look.width + 2.5, label=name, **style)
        panel.fill_between(steps, worst, means, color=look.colour, alpha=0.15, lw=0)
    panel.set_ylim(-0.03, 1.03)
    panel.set_ylabel("exact match, mean to worst length")
    _finish(panel, len(curves))
    return figure


def accuracy_figure(results: Evaluation, title: str) -> Figure:
    """Accuracy by length with 95 % intervals; lengths outside training on a grey background.

    Of results on several families of strings: exact match of each family.
    """
    if len(results.families) > 1:
        exact_match = results.by_length("exact_match")
        untrained = sorted({row.length or 0 for row in exact_match if not row.trained})
        values = {(row.family, row.length or 0): row.value for row in exact_match}
        figure, (panel,) = new_panels()
        draw_families(panel, values, untrained)
        clean(panel, title)
        panel.set_ylabel("exact match (greedy)")
        panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        return figure
    labels = {
        "exact_match": ("exact match (greedy)", "o", "#00429d"),
        "character_accuracy": ("characters (greedy)", "s", "#c2571a"),
        "teacher_forced": ("characters (teacher-forced)", "^", "#3c7d4c"),
    }
    series = [(label, marker, colour, results.by_length(metric)) for metric, (label, marker, colour) in labels.items()]
    return _lengths_figure(series, "accuracy", title)


def runs_figure(results: Mapping[str, Evaluation], scores: Sequence[str]) -> Figure:
    """Exact match by length of several runs, with 95 % intervals; of several families of strings the first."""
    series = []
    for look, (name, evaluation) in zip(looks(scores), results.items(), strict=True):
        rows = [row for row in evaluation.by_length("exact_match") if row.family == evaluation.families[0]]
        series.append((name, look.marker, look.colour, rows))
    return _lengths_figure(series, "exact match", "")


def _lengths_figure(series: Sequence[tuple[str, str, str, Sequence[Row]]], label: str, title: str) -> Figure:
    """Label, marker, colour and rows of each line, beside one another where they would coincide."""
    figure, (panel,) = new_panels()
    trained = {row.length: row.trained for _, _, _, rows in series for row in rows}
    lengths = sorted(length for length in trained if length is not None)
    for number, (name, marker, colour, rows) in enumerate(series):
        shift = SHIFT * (number - (len(series) - 1) / 2) * min(1.0, 3 / len(series))
        rows = sorted(rows, key=lambda row: row.length or 0)
        places, middle = [(row.length or 0) + shift for row in rows], [row.value for row in rows]
        errors = [[row.value - (row.low or 0.0) for row in rows], [(row.high or 0.0) - row.value for row in rows]]
        look = {"label": name, "marker": marker, "color": colour, "lw": 1.2 - 3 * shift}
        panel.errorbar(places, middle, errors, ms=4, capsize=2, **look)
    untrained = [length for length in lengths if not trained[length]]
    for length in untrained:
        panel.axvspan(length - 0.5, length + 0.5, color="0.92", lw=0, zorder=0)
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_ylabel(label)
    panel.set_ylim(-0.03, 1.03)
    panel.set_xticks(lengths if len(lengths) <= 20 else lengths[:: math.ceil(len(lengths) / 20)])
    clean(panel, title)
    panel.legend(frameon=False, fontsize=8)
    return figure


def draw_families(panel: Axes, values: Mapping[Place, float], untrained: Sequence[int]) -> None:
    """A metric of each (family, length), one line a family, the worst boldly; lengths in `untrained` on grey."""
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
        look: dict[str, Any] = {"label": name, "color": colour, "lw": width, "marker": "o", "ms": size, "mfc": "none"}
        panel.plot(places, at, zorder=2 + bold, clip_on=False, **look)
    for place, length in enumerate(lengths):
        if length in untrained:
            panel.axvspan(place - 0.5, place + 0.5, color="0.93", lw=0, zorder=0)
    panel.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_xlim(-0.5, len(lengths) - 0.5)
    panel.set_ylim(-0.03, 1.05)


def averaged(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points with neighbours averaged, so that about `SMOOTHED` remain: steps arithmetically, values geometrically."""
    size = max(1, len(points) // SMOOTHED)
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return [(fmean(step for step, _ in block), geometric_mean(value for _, value in block)) for block in blocks]


def _finish(panel: Any, runs: int) -> None:
    panel.set_xlabel("step")
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    clean(panel)
    if runs <= 10:
        panel.legend(frameon=False, fontsize=9)
