"""Curves of one or several runs: through training, by string length, and by family of strings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from seq2attn.colours import SERIES_COLOURS
from seq2attn.plotting.style import (
    GREY,
    MARKERS,
    clean,
    draw_intervals,
    legend,
    logarithmic,
    looks,
    new_panels,
)
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {
    "exact match (greedy)": "exact_match",
    "characters (greedy)": "character_accuracy",
    "characters (teacher-forced)": "teacher_forced",
}
SMOOTHED = 50  # points of an averaged curve, at least
BESIDE = 0.48  # of a length, over which points that would coincide are moved apart


def curves_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    scores: Sequence[str],
    label: str,
    *,
    log: bool = False,
) -> Figure:
    """Draw a number that training logs against step, a line for each run.

    curves: name of a run -> (step, value) of its points. scores: the score of each run, which gives
    the colour of its line. label: of the y axis. log: on a logarithmic scale, averaged, without
    values that are not positive.
    """
    figure, (panel,) = new_panels()
    for look, (name, points) in zip(looks(scores), curves.items(), strict=True):
        if log:
            points = averaged([point for point in points if point[1] > 0])
        panel.plot(
            [step for step, _ in points],
            [value for _, value in points],
            color=look.colour,
            ls=look.dash,
            lw=look.width,
            marker="o" if len(points) == 1 else "",  # a line of one point would not be seen
            label=name if points else "",
        )
    if log:
        logarithmic(panel)
    panel.set(xlabel="step", xlim=(0, None), ylabel=label)
    clean(panel)
    legend(panel)
    return figure


def accuracy_curves_figure(
    curves: Mapping[str, Sequence[tuple[int, Evaluation]]], scores: Sequence[str]
) -> Figure:
    """Draw exact match against step. A line for each run is the mean over the trained lengths,
    shaded down to the worst of them.

    curves: name of a run -> (step, evaluation). scores: the score of each run, which gives the
    colour of its line.
    """
    means = {}
    for name, evaluations in curves.items():
        means[name] = [(step, results.mean("exact_match") or 0.0) for step, results in evaluations]
    figure = curves_figure(means, scores, "exact match, mean to worst length")
    (panel,) = figure.axes
    for line, evaluations in zip(panel.lines, curves.values(), strict=True):
        worst = [results.lowest().value for _, results in evaluations]
        panel.fill_between(*line.get_data(), worst, color=line.get_color(), alpha=0.15, lw=0)
    panel.set_ylim(-0.03, 1.03)  # beyond 0 and 1, so that lines there are whole
    return figure


def averaged(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return means of neighbouring points: the arithmetic mean of their steps, and the geometric
    mean of their values, which are drawn on a logarithmic scale. There are at least `SMOOTHED`, and
    fewer than twice as many; as many as points, if these are fewer.

    points: (step, value), all values above 0.
    """
    size = max(1, len(points) // SMOOTHED)
    means = []
    for start in range(0, len(points), size):
        steps, values = zip(*points[start : start + size], strict=True)
        means.append((fmean(steps), geometric_mean(values)))
    return means


# ---- by string length ----


def accuracy_figure(
    results: Mapping[str, Evaluation], scores: Sequence[str], title: str = ""
) -> Figure:
    """Draw accuracy by length with 95 % intervals, lengths outside training on grey. Lines that
    would coincide are drawn beside one another.

    Of several runs, draw the exact match of each, on its first family of strings. Of one run, draw
    the exact match of each family, or the accuracies in `METRICS` if there is one family.

    results: name of a run -> its evaluation. scores: the score of each run, for its colour.
    """
    ylabel = "exact match (greedy)"
    colours: Sequence[str] = SERIES_COLOURS
    evaluation, *others = results.values()
    if others:
        colours = [look.colour for look in looks(scores)]
        series = {name: _of_family(each, each.families[0]) for name, each in results.items()}
    elif len(evaluation.families) > 1:
        series = {str(family): _of_family(evaluation, family) for family in evaluation.families}
    else:
        ylabel = "accuracy"
        series = {name: evaluation.by_length(metric) for name, metric in METRICS.items()}

    figure, (panel,) = new_panels()
    for number, (label, rows) in enumerate(series.items()):
        from_middle = number - (len(series) - 1) / 2
        shift = BESIDE * from_middle / max(3, len(series))  # two lines are as close as three
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
    lengths = sorted({row.length or 0 for row in every_row})  # `or 0` for mypy: all have one
    untrained = {row.length for row in every_row if not row.trained}
    # each length at its own number, so that gaps between lengths are seen
    draw_lengths(panel, {length: length for length in lengths}, untrained)
    panel.set_ylabel(ylabel)
    clean(panel, title)
    # a longer legend would cover the lines
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    legend(panel, **(beside if len(series) > 3 else {}))
    return figure


def _of_family(results: Evaluation, family: str | None) -> list[Row]:
    """Return the exact match on a family of strings by length."""
    return [row for row in results.by_length("exact_match") if row.family == family]


def draw_lengths(
    panel: Axes, positions: Mapping[Any, float], untrained: Collection[Any], limit: int = 20
) -> None:
    """Draw the axes of shares, from 0 to 1, by string length.

    positions: length -> where it is on the x axis, which names at most `limit` of them.
    untrained: lengths that get a grey ground.
    """
    for length in untrained:
        middle = positions[length]
        panel.axvspan(
            middle - 0.5,
            middle + 0.5,
            color=GREY,
            alpha=0.2,
            lw=0,
            zorder=0,
        )
    every = max(1, math.ceil(len(positions) / limit))  # (1 if there are no lengths)
    panel.set_xticks(list(positions.values())[::every], list(map(str, positions))[::every])
    grey = " (grey: never seen in training)" if untrained else ""
    # beyond 0 and 1, so that markers there are whole
    panel.set(xlabel=f"string length{grey}", ylim=(-0.03, 1.05))
