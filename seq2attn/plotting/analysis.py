"""Figures of the analyses, one function each, named after the command that draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

from seq2attn.plotting.style import HEAT, MARKERS, clean, legend, new_panels, score_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.analysis.result import Analysis

GREY = "0.45"
POINTS: dict[str, Any] = {
    "ms": 5,
    "lw": 0,
    "elinewidth": 1.2,
    "capsize": 3,
}  # measured, with errors


def variance_figure(result: Analysis[Any]) -> Figure:
    """Variance against width, both logarithmic: measured points with two standard errors, theory as
    a line.
    """
    figure, (panel,) = new_panels(title="Variance of a score over random queries and keys")
    _by_width(panel, result.rows, "variance", "variance_theory", "by formula")
    panel.set(yscale="log", ylabel="variance of the score")
    legend(panel)
    return figure


def saturation_figure(result: Analysis[Any]) -> Figure:
    """Mean weight by rank: one panel per score, one line per width."""
    from matplotlib import colormaps

    keys, scores = result.settings["keys"], _groups(result.rows, "score")
    title = f"Attention weights over {keys} random keys; dotted: uniform"
    figure, panels = new_panels(len(scores), (1.2 + 2.7 * len(scores), 3.5), title)
    for panel, (name, rows) in zip(panels, scores.items(), strict=True):
        for place, row in enumerate(sorted(rows, key=lambda row: row.width)):
            colour, marker = (
                colormaps[HEAT](0.9 * place / max(1, len(rows) - 1)),
                MARKERS[place % len(MARKERS)],
            )
            label = f"D = {row.width:,}"
            panel.plot(
                range(1, keys + 1),
                row.weights,
                color=colour,
                marker=marker,
                ms=4,
                lw=1.4,
                label=label,
            )
        panel.axhline(1 / keys, color=GREY, lw=1, ls=":", zorder=0)
        panel.set(title=name, xlabel="rank of the key", ylim=(-0.02, 1.02))
        panel.locator_params(axis="x", integer=True)
        clean(panel)
    panels[0].set_ylabel("mean weight")
    legend(panels[-1])
    return figure


def gradient_figure(result: Analysis[Any]) -> Figure:
    """Mean and median norm against the scale, with the scales of unscaled dot products marked."""
    keys, rows = result.settings["keys"], sorted(result.rows, key=lambda row: row.scale)
    figure, (panel,) = new_panels(
        title=f"Gradient of the largest of {keys} weights with respect to the scores"
    )
    scales = [row.scale for row in rows]
    panel.plot(
        scales, [row.formula for row in rows], color="#0072b2", lw=1.4, label="mean, by formula"
    )
    means, errors = [row.mean for row in rows], [2 * row.mean_error for row in rows]
    panel.errorbar(
        scales, means, errors, color="#0072b2", marker="o", label="mean, by autograd", **POINTS
    )
    medians = [row.median for row in rows]
    panel.plot(scales, medians, color="#d55e00", marker="s", ms=4, lw=1.4, ls="--", label="median")
    panel.set(xscale="log", ylim=(0, 1.25 * max(*medians, *means)))
    for width, text in ((1, "scaled"), (16, "unscaled,\nD = 16"), (256, "unscaled,\nD = 256")):
        if scales[0] <= math.sqrt(width) <= scales[-1]:
            panel.axvline(math.sqrt(width), color="0.8", lw=0.8, zorder=0)
            panel.text(
                math.sqrt(width),
                0.99 * panel.get_ylim()[1],
                text,
                fontsize=7.5,
                color=GREY,
                va="top",
            )
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set(xlabel="scale c: standard deviation of the scores", ylabel="norm of the gradient")
    legend(panel, loc="upper left", bbox_to_anchor=(0, 0.9))
    clean(panel)
    return figure


def entropy_figure(result: Analysis[Any]) -> Figure:
    """Entropy against width, a panel for each number of keys."""
    counts = _groups(result.rows, "keys")
    title = "Entropy of attention over random keys; dotted: log S, of uniform weights"
    figure, panels = new_panels(len(counts), (1.4 + 3.2 * len(counts), 3.6), title)
    for panel, (count, rows) in zip(panels, counts.items(), strict=True):
        _by_width(panel, rows, "entropy", "limit", "expected")
        panel.axhline(rows[0].uniform, color=GREY, lw=1, ls=":", zorder=0)
        panel.set_title(f"S = {count:,} keys", fontsize=10)
    panels[0].set(ylabel="entropy of attention, nats", ylim=(0, None))
    legend(panels[-1], loc="center right", bbox_to_anchor=(1, 0.62))
    return figure


def ledger_figure(result: Analysis[Any]) -> Figure:
    """Parameters, operations and bytes as bars, one colour per score."""
    labels = {
        "attention_parameters": "parameters of attention",
        "flops_query": "operations a query",
        "bytes_at_once": "bytes, all queries at once",
    }
    figure, panels = new_panels(len(labels), (9.6, 0.9 + 0.42 * len(result.rows)))
    for panel, (field, label) in zip(panels, labels.items(), strict=True):
        values = [getattr(row, field) for row in result.rows]
        colours = [score_colour(row.score) for row in result.rows]
        bars = panel.barh([row.score for row in result.rows], values, color=colours, height=0.62)
        panel.bar_label(bars, fmt=" {:,.0f}", fontsize=8)
        panel.set(xlim=(0, 1.35 * max(*values, 1)), xticks=[])
        panel.set_title(label, fontsize=10, loc="left")
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0].invert_yaxis()
    sizes = ", ".join(f"{name} {size:,}" for name, size in result.settings.items())
    figure.supxlabel(sizes, fontsize=9, color=GREY)
    return figure


def masks_figure(result: Analysis[Any]) -> Figure:
    """The windows side by side: rows are output positions, columns source positions."""
    masks, settings = _groups(result.rows, "mask"), result.settings
    high = 2.3 * max(0.35, min(2.0, settings["target"] / settings["source"]))
    title = f"Windows of radius {settings['radius']}; orange: their centres"
    figure, panels = new_panels(len(masks), (10.6, high + 0.7), title)
    for panel, (name, rows) in zip(panels, masks.items(), strict=True):
        image = panel.imshow(
            [row.factors for row in rows], cmap=HEAT, vmin=0, vmax=1, aspect="equal"
        )
        centres = [math.nan if row.centre is None else row.centre for row in rows]
        panel.plot(centres, range(len(rows)), color="#d55e00", marker=".", ms=3, lw=0.8)
        panel.set(title=name, xlabel="source position", xlim=(-0.5, settings["source"] - 0.5))
        panel.locator_params(integer=True, nbins=6)
    panels[0].set_ylabel("output position")
    figure.colorbar(image, ax=panels, label="factor of the weight", shrink=0.8, aspect=18)
    return figure


def importance_figure(result: Analysis[Any]) -> Figure:
    """Exact match by length with its intervals, a line for each kind of weights."""
    figure, (panel,) = new_panels(
        title=f"{result.settings['run']}: exact match with other attention weights"
    )
    for (kind, rows), marker in zip(_groups(result.rows, "weights").items(), MARKERS, strict=False):
        lengths, values = [row.length for row in rows], [row.exact_match for row in rows]
        ends = [(row.exact_match - row.low, row.high - row.exact_match) for row in rows]
        look = POINTS | {"lw": 4 if kind == "unchanged" else 1.4}  # equal lines are both seen
        panel.errorbar(
            lengths, values, list(zip(*ends, strict=True)), label=kind, marker=marker, **look
        )
    panel.set(xlabel="length", ylabel="exact match", ylim=(-0.02, 1.05))
    panel.locator_params(axis="x", integer=True)
    legend(panel)
    clean(panel)
    return figure


def _groups(rows: Iterable[Any], field: str) -> dict[Any, list[Any]]:
    """The rows by the value of a field, in their order."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(getattr(row, field), []).append(row)
    return groups


def _by_width(panel: Any, rows: Iterable[Any], field: str, theory: str, label: str) -> None:
    """`field` with two standard errors against width, a colour per score; `theory` as a line where
    it is known.
    """
    for (name, own), marker in zip(_groups(rows, "score").items(), cycle(MARKERS), strict=False):
        own.sort(key=lambda row: row.width)
        widths, look = [row.width for row in own], {"color": score_colour(name), "marker": marker}
        errors = [2 * getattr(row, f"{field}_error") for row in own]
        panel.errorbar(
            widths, [getattr(row, field) for row in own], errors, label=name, **look, **POINTS
        )
        if getattr(own[0], theory) is not None:
            panel.plot(widths, [getattr(row, theory) for row in own], color=look["color"], lw=1.2)
    panel.plot([], [], color=GREY, lw=1.2, label=label)
    panel.set_xscale("log", base=2)
    panel.set_xticks(widths[:: math.ceil(len(widths) / 8)])
    panel.xaxis.set_major_formatter("{x:g}")
    panel.minorticks_off()
    panel.set_xlabel("width D")
    clean(panel)
