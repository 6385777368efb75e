"""Curves of one or several runs over steps of training, and of one by string length and family of
strings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from seq2attn.inference.results import Evaluation, FamilyLength, Row, worst_place
from seq2attn.plotting.style import clean, legend, logarithmic, looks, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#00429d",
    "#c2571a",
    "#3c7d4c",
    "#7a3b9a",
    "#8a6d1f",
    "#2b8a9d",
    "#b0306a",
)  # of families, and of metrics
WORST = "#c00000"
SMOOTHED = 50  # points of a curve, about: neighbours are averaged
SHIFT = 0.16  # of a length, between points that would coincide


def curves_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    scores: Sequence[str],
    label: str,
    *,
    log: bool = False,
) -> Figure:
    """A number that is logged in training against step: run -> (step, value).

    log: on a logarithmic scale, without values that are not positive; faint: as logged; strong:
    averaged.
    """
    figure, (panel,) = new_panels()
    for look, (name, points) in zip(looks(scores), curves.items(), strict=True):
        drawn = [(step, value) for step, value in points if value > 0] if log else points
        if drawn and log:
            panel.plot(*zip(*drawn, strict=True), color=look.colour, lw=0.5, alpha=0.3)
            drawn = averaged(drawn)
        style = {"ls": look.dash, "color": look.colour, "marker": "o" if len(drawn) == 1 else ""}
        panel.plot(*zip(*drawn, strict=True) if drawn else ([], []), lw=1.6, label=name, **style)
    if log and max(map(len, curves.values())) > 1:
        logarithmic(panel)
    panel.set_ylabel(label)
    _finish(panel, len(curves))
    return figure


def accuracy_curves_figure(
    curves: Mapping[str, Sequence[tuple[int, Evaluation]]], scores: Sequence[str]
) -> Figure:
    """Exact match against step: run -> (step, evaluation). The mean over the trained lengths;
    shaded down to the worst of them.
    """
    figure, (panel,) = new_panels()
    for look, (name, evaluations) in zip(looks(scores), curves.items(), strict=True):
        steps = [step for step, _ in evaluations]
        means = [results.mean("exact_match") for _, results in evaluations]
        worst = [results.lowest().value for _, results in evaluations]
        style = {"color": look.colour, "lw": look.width, "ls": look.dash, "marker": look.marker}
        panel.plot(steps, means, ms=look.width + 2.5, label=name, **style)
        panel.fill_between(steps, worst, means, color=look.colour, alpha=0.15, lw=0)
    panel.set(ylim=(-0.03, 1.03), ylabel="exact match, mean to worst length")
    _finish(panel, len(curves))
    return figure


def accuracy_figure(results: Evaluation, title: str) -> Figure:
    """Accuracy by length with 95 % intervals; lengths outside training on a grey background.

    Of results on several families of strings: exact match of each family.
    """
    if len(results.families) > 1:
        exact_match = results.by_length("exact_match")
        untrained = {row.length or 0 for row in exact_match if not row.trained}
        figure, (panel,) = new_panels()
        draw_families(
            panel, {(row.family, row.length or 0): row.value for row in exact_match}, untrained
        )
        panel.set_ylabel("exact match (greedy)")
        clean(panel, title)
        legend(panel, loc="upper left", bbox_to_anchor=(1, 1))
        return figure
    labels = {
        "exact_match": ("exact match (greedy)", "o", COLOURS[0]),
        "character_accuracy": ("characters (greedy)", "s", COLOURS[1]),
        "teacher_forced": ("characters (teacher-forced)", "^", COLOURS[2]),
    }
    return _lengths_figure(
        [(*look, results.by_length(metric)) for metric, look in labels.items()], "accuracy", title
    )


def runs_figure(results: Mapping[str, Evaluation], scores: Sequence[str]) -> Figure:
    """Exact match by length of several runs, with 95 % intervals; of several families of strings
    the first.
    """
    series = []
    for look, (name, evaluation) in zip(looks(scores), results.items(), strict=True):
        rows = [
            row
            for row in evaluation.by_length("exact_match")
            if row.family == evaluation.families[0]
        ]
        series.append((name, look.marker, look.colour, rows))
    return _lengths_figure(series, "exact match", "")


def _lengths_figure(
    series: Sequence[tuple[str, str, str, Sequence[Row]]], label: str, title: str
) -> Figure:
    """Label, marker, colour and rows of each line, beside one another where they would coincide."""
    figure, (panel,) = new_panels()
    for number, (name, marker, colour, rows) in enumerate(series):
        shift = SHIFT * (number - (len(series) - 1) / 2) * min(1.0, 3 / len(series))
        rows = sorted(rows, key=lambda row: row.length or 0)
        places, middle = [(row.length or 0) + shift for row in rows], [row.value for row in rows]
        errors = [
            [row.value - (row.low or 0.0) for row in rows],
            [(row.high or 0.0) - row.value for row in rows],
        ]
        look = {"label": name, "marker": marker, "color": colour, "lw": 1.2 - 3 * shift}
        panel.errorbar(places, middle, errors, ms=4, capsize=2, **look)
    trained = {row.length or 0: row.trained for *_, rows in series for row in rows}
    draw_lengths(
        panel,
        {length: length for length in sorted(trained)},
        [one for one in trained if not trained[one]],
    )
    panel.set_ylabel(label)
    clean(panel, title)
    legend(panel)
    return figure


def draw_families(
    panel: Axes, values: Mapping[FamilyLength, float], untrained: Collection[int]
) -> None:
    """A metric of each (family, length), one line a family, the worst boldly; lengths in
    `untrained` on grey.
    """
    places = {
        length: place for place, length in enumerate(sorted({length for _, length in values}))
    }
    families = list(dict.fromkeys(family for family, _ in values))
    worst = worst_place(values)
    for number, family in enumerate(families):
        bold = worst is not None and family == worst[0]
        at = [
            (place, values[family, length])
            for length, place in places.items()
            if (family, length) in values
        ]
        look: dict[str, Any] = {
            "label": f"{family} (worst)" if bold else family,
            "color": WORST if bold else COLOURS[number % len(COLOURS)],
            "lw": 2.4 if bold else 1.0,
            "ms": 3 + 1.2 * (len(families) - number),  # where lines coincide, all markers are seen
        }
        panel.plot(
            *zip(*at, strict=True), marker="o", mfc="none", zorder=2 + bold, clip_on=False, **look
        )
    draw_lengths(panel, places, untrained)


def draw_lengths(
    panel: Any, places: Mapping[Any, float], untrained: Collection[Any], most: int = 20
) -> None:
    """The axis of string lengths, each at its place, lengths in `untrained` on grey; and the axis
    of a share.
    """
    for length in untrained:
        panel.axvspan(places[length] - 0.5, places[length] + 0.5, color="0.93", lw=0, zorder=0)
    labelled = list(places)[:: math.ceil(len(places) / most) or 1]
    panel.set_xticks([places[length] for length in labelled], map(str, labelled))
    grey = " (grey: never seen in training)" if untrained else ""
    panel.set(xlabel=f"string length{grey}", ylim=(-0.03, 1.05))


def averaged(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points with neighbours averaged, so that about `SMOOTHED` remain: steps arithmetically,
    values geometrically.
    """
    size = max(1, len(points) // SMOOTHED)
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (fmean(step for step, _ in block), geometric_mean(value for _, value in block))
        for block in blocks
    ]


def _finish(panel: Any, runs: int) -> None:
    panel.set(xlabel="step", xlim=(0, None))
    panel.locator_params(axis="x", integer=True)
    panel.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    clean(panel)
    if runs <= 10:
        legend(panel)
