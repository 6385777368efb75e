"""Curves of one or several runs: through training, by string length, and by family of strings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from seq2attn.colours import SERIES_COLOURS
from seq2attn.inference.results import Evaluation, Row
from seq2attn.plotting.style import (
    MARKERS,
    clean,
    draw_intervals,
    legend,
    logarithmic,
    looks,
    new_panels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {
    "exact match (greedy)": "exact_match",
    "characters (greedy)": "character_accuracy",
    "characters (teacher-forced)": "teacher_forced",
}
SMOOTHED = 50  # points of an averaged curve, about
BESIDE = 0.48  # of a length, over which points that would coincide are moved apart


def curves_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    scores: Sequence[str],
    label: str,
    *,
    log: bool = False,
) -> Figure:
    """Draw a number that training logs against step: run -> (step, value).

    log: on a logarithmic scale, averaged, without values that are not positive.
    """
    figure, (panel,) = new_panels()
    for look, (name, points) in zip(looks(scores), curves.items(), strict=True):
        if log:
            points = averaged([point for point in points if point[1] > 0])
        panel.plot(
            *zip(*points, strict=True),
            color=look.colour,
            ls=look.dash,
            marker="o" if len(points) == 1 else "",
            label=name,
        )
    if log:
        logarithmic(panel)
    panel.set_ylabel(label)
    _finish(panel)
    return figure


def accuracy_curves_figure(
    curves: Mapping[str, Sequence[tuple[int, Evaluation]]], scores: Sequence[str]
) -> Figure:
    """Draw exact match against step: run -> (step, evaluation). A line is the mean over the trained
    lengths, shaded down to the worst of them.
    """
    figure, (panel,) = new_panels()
    for look, (name, evaluations) in zip(looks(scores), curves.items(), strict=True):
        steps = [step for step, _ in evaluations]
        means = [results.mean("exact_match") for _, results in evaluations]
        worst = [results.lowest().value for _, results in evaluations]
        panel.plot(
            steps,
            means,
            color=look.colour,
            ls=look.dash,
            marker=look.marker,
            lw=look.width,
            ms=look.width + 2.5,
            label=name,
        )
        panel.fill_between(
            steps,
            worst,
            means,
            color=look.colour,
            alpha=0.15,
            lw=0,
        )
    panel.set(ylim=(-0.03, 1.03), ylabel="exact match, mean to worst length")
    _finish(panel)
    return figure


def _finish(panel: Any) -> None:
    panel.set(xlabel="step", xlim=(0, None))
    clean(panel)
    legend(panel)


def averaged(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return about `SMOOTHED` points, each of several neighbours: the arithmetic mean of their
    steps, the geometric mean of their values.
    """
    size = max(1, len(points) // SMOOTHED)
    means = []
    for start in range(0, len(points), size):
        steps, values = zip(*points[start : start + size], strict=True)
        means.append((fmean(steps), geometric_mean(values)))
    return means


# ---- by string length ----


def accuracy_figure(results: Evaluation, title: str) -> Figure:
    """Draw accuracy by length with 95 % intervals, lengths outside training on grey. Of results on
    several families of strings: exact match of each family.
    """
    label = "accuracy"
    series = {name: results.by_length(metric) for name, metric in METRICS.items()}
    if len(results.families) > 1:
        label = "exact match (greedy)"
        series = {family: _of_family(results, family) for family in results.families}
    return _lengths_figure(series, SERIES_COLOURS, label, title)


def _of_family(results: Evaluation, family: str) -> list[Row]:
    return [row for row in results.by_length("exact_match") if row.family == family]


def runs_figure(results: Mapping[str, Evaluation], scores: Sequence[str]) -> Figure:
    """Draw exact match by length of several runs, with 95 % intervals; of several families of
    strings the first.
    """
    series = {}
    for name, evaluation in results.items():
        series[name] = _of_family(evaluation, evaluation.families[0])
    return _lengths_figure(series, [look.colour for look in looks(scores)], "exact match")


def _lengths_figure(
    series: Mapping[str, Sequence[Row]], colours: Sequence[str], ylabel: str, title: str = ""
) -> Figure:
    """Draw a line for each series, beside one another where they would coincide."""
    figure, (panel,) = new_panels()
    for number, (label, rows) in enumerate(series.items()):
        shift = BESIDE * (number - (len(series) - 1) / 2) / max(3, len(series))
        draw_intervals(
            panel,
            rows,
            "value",
            shift=shift,
            color=colours[number],
            marker=MARKERS[number % len(MARKERS)],
            label=label,
        )
    every_row = list(itertools.chain(*series.values()))
    lengths = sorted({row.length or 0 for row in every_row})
    untrained = {row.length for row in every_row if not row.trained}
    draw_lengths(panel, dict(zip(lengths, lengths, strict=True)), untrained)
    panel.set_ylabel(ylabel)
    clean(panel, title)
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    legend(panel, **(beside if len(series) > 3 else {}))
    return figure


def draw_lengths(
    panel: Any, positions: Mapping[Any, float], untrained: Collection[Any], limit: int = 20
) -> None:
    """Draw the x axis, with at most `limit` string lengths, those in `untrained` on grey, and the y
    axis of a share.
    """
    for length in untrained:
        middle = positions[length]
        panel.axvspan(
            middle - 0.5,
            middle + 0.5,
            color="0.93",
            lw=0,
            zorder=0,
        )
    every = math.ceil(len(positions) / limit) or 1
    panel.set_xticks(list(positions.values())[::every], list(map(str, positions))[::every])
    grey = " (grey: never seen in training)" if untrained else ""
    panel.set(xlabel=f"string length{grey}", ylim=(-0.03, 1.05))
