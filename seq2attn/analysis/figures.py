"""Figures of the analyses, one function each, named after the command that draws it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from seq2attn.display.signs import BLUE, COLOUR_MAP, ORANGE, score_colour
from seq2attn.plotting.figures import (
    GREY,
    MARKERS,
    clean,
    column,
    draw_intervals,
    legend,
    new_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.analysis import Analysis


def variance_figure(result: Analysis) -> Figure:
    """Draw variance against width, both logarithmic: measured points with two standard errors,
    theory as a line.
    """
    figure, (panel,) = new_panels(title="Variance of a score over random queries and keys")

    _draw_by_width(panel, result.rows, "variance", "variance_theory")
    panel.set(yscale="log", ylabel="variance of the score")
    legend(panel)
    return figure


def saturation_figure(result: Analysis) -> Figure:
    """Draw the mean of the largest weight, of the second largest and so on: a panel per score, a
    line per width.
    """
    from matplotlib import colormaps

    keys = result.settings["keys"]
    title = f"Attention weights over {keys} random keys; dotted: uniform"
    scores = _groups(result.rows, "score")
    width = 1.2 + 2.7 * len(scores)  # inches: the labels on the left, and each panel
    figure, panels = new_panels(len(scores), (width, 3.5), title)

    for panel, (score, rows) in zip(panels, scores, strict=True):
        for number, row in enumerate(rows):
            shade = 0.25 + 0.7 * number / len(rows)  # the colour map's ends are hard to see
            panel.plot(
                range(1, keys + 1),
                row.weights,
                color=colormaps[COLOUR_MAP](shade),
                marker=MARKERS[number % len(MARKERS)],
                label=f"D = {row.width:,}",
            )
        panel.axhline(1 / keys, color=GREY, ls=":")
        # beyond 0 and 1, so that markers there are whole
        panel.set(title=score, xlabel="rank of the key", ylim=(-0.02, 1.02))
        panel.locator_params(axis="x", integer=True)
        clean(panel)

    panels[0].set_ylabel("mean weight")
    legend(panels[-1])  # for all panels: the same widths
    return figure


def gradient_figure(result: Analysis) -> Figure:
    """Draw the norm of the gradient against the scale of the scores: its mean, measured with two
    standard errors and by formula as a line, and its median.
    """
    keys = result.settings["keys"]
    title = f"Gradient of the largest of {keys} weights with respect to the scores"
    figure, (panel,) = new_panels(title=title)

    rows = sorted(result.rows, key=lambda row: row.scale)
    scales = column(rows, "scale")
    panel.plot(scales, column(rows, "formula"), color=BLUE, label="mean, by formula")
    panel.errorbar(
        scales,
        column(rows, "mean"),
        2 * column(rows, "mean_error"),
        fmt="o",
        color=BLUE,
        label="mean, by autograd",
    )
    panel.plot(scales, column(rows, "median"), "s--", color=ORANGE, label="median")

    panel.set(xscale="log", xlabel="scale c: standard deviation of the scores")
    panel.set(ylim=(0, None), ylabel="norm of the gradient")
    panel.xaxis.set_major_formatter("{x:g}")
    clean(panel)
    legend(panel)
    return figure


def entropy_figure(result: Analysis) -> Figure:
    """Draw entropy against width, a panel for each number of keys: measured points with two
    standard errors, expected values as a line.
    """
    counts = _groups(result.rows, "keys")
    title = "Entropy of attention over random keys; dotted: log S, of uniform weights"
    width = 1.4 + 3.2 * len(counts)  # inches: the labels on the left, and each panel
    figure, panels = new_panels(len(counts), (width, 3.6), title)

    for panel, (count, rows) in zip(panels, counts, strict=True):
        _draw_by_width(panel, rows, "entropy", "limit")
        panel.axhline(rows[0].uniform, color=GREY, ls=":")
        panel.set_title(f"S = {count:,} keys")

    # (the panels share the y axis)
    panels[0].set(ylabel="entropy of attention, nats", ylim=(0, None))
    legend(panels[-1])  # for all panels: the same scores
    return figure


def ledger_figure(result: Analysis) -> Figure:
    """Draw three panels, since units differ: parameters, operations and bytes. Each has a bar for
    each score, in the score's colour.
    """
    labels = {
        "attention_parameters": "parameters of attention",
        "flops_query": "operations a query",
        "bytes_at_once": "bytes, all queries at once",
    }
    scores = [row.score for row in result.rows]
    height = 0.9 + 0.42 * len(scores)  # inches: the title, and a bar each
    figure, panels = new_panels(len(labels), (9.6, height))
    colours = list(map(score_colour, scores))

    for panel, (field, label) in zip(panels, labels.items(), strict=True):
        bars = panel.barh(scores, column(result.rows, field), color=colours)
        panel.bar_label(bars, fmt=" {:,.0f}", fontsize=8)
        panel.set(title=label, xticks=[])
        panel.margins(x=0.35)  # room for the labels behind the bars
        panel.spines[["top", "right", "bottom"]].set_visible(False)

    panels[0].invert_yaxis()  # the first score on top
    sizes = ", ".join(f"{name} {size:,}" for name, size in result.settings.items())
    figure.supxlabel(sizes, fontsize=9)
    return figure


def masks_figure(result: Analysis) -> Figure:
    """Draw the windows side by side, as maps of the factors from 0 to 1 by which they multiply the
    weights, with a line through their centres: rows are output positions, columns source positions.
    """
    masks = _groups(result.rows, "mask")
    title = f"Windows of radius {result.settings['radius']}; orange: their centres"
    figure, panels = new_panels(len(masks), (10.6, 3.3), title)  # inches
    for panel, (name, rows) in zip(panels, masks, strict=True):
        factors = [row.factors for row in rows]
        image = panel.imshow(factors, cmap=COLOUR_MAP, vmin=0, vmax=1)
        # (those of `global`, None, are not drawn)
        panel.plot(column(rows, "centre"), range(len(rows)), color=ORANGE)
        panel.set(title=name, xlabel="source position")
        panel.locator_params(integer=True)
    panels[0].set_ylabel("output position")
    figure.colorbar(image, ax=panels, label="factor of the weight")  # the same for all panels
    return figure


def importance_figure(result: Analysis) -> Figure:
    """Draw exact match by length with its 95 % intervals, a line for each kind of weights."""
    title = f"{result.settings['run']}: exact match with other attention weights"
    figure, (panel,) = new_panels(title=title)

    kinds = _groups(result.rows, "weights")
    for (kind, rows), marker in zip(kinds, MARKERS, strict=False):  # there are more markers
        width = 4 if kind == "unchanged" else 1.4  # points: seen below an equal line, too
        draw_intervals(panel, rows, "exact_match", label=kind, marker=marker, lw=width)

    panel.set(xlabel="length", ylabel="exact match", ylim=(-0.02, 1.05))
    panel.locator_params(axis="x", integer=True)
    clean(panel)
    legend(panel)
    return figure


def _groups(rows: Iterable[object], field: str) -> list[tuple[Any, list[Any]]]:
    """Return each value of a field with its rows, which follow one another."""
    return [(value, list(group)) for value, group in groupby(rows, attrgetter(field))]


def _draw_by_width(panel: Axes, rows: Iterable[Any], field: str, theory: str) -> None:
    """Draw the field of this name against width D, a colour per score, as points with bars of two
    standard errors (the field `FIELD_error`) to each side; and the field named `theory` as a line,
    where it is known (not None).
    """
    for (score, measured), marker in zip(_groups(rows, "score"), cycle(MARKERS), strict=False):
        measured = sorted(measured, key=attrgetter("width"))
        colour = score_colour(score)
        widths = column(measured, "width")
        panel.plot(widths, column(measured, theory), color=colour)
        panel.errorbar(
            widths,
            column(measured, field),
            2 * column(measured, f"{field}_error"),
            fmt=marker,
            capsize=3,
            color=colour,
            label=score,
        )

    panel.plot([], color=GREY, label="expected")  # for the legend alone
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("width D")
    clean(panel)
