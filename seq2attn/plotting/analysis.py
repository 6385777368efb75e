"""Figures of the analyses, one function each, named after the result that it draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from seq2attn.plotting.style import HEAT, clean, new_panel, new_panels, score_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.analysis.costs import Costs
    from seq2attn.analysis.entropy import Entropy
    from seq2attn.analysis.forms import Forms
    from seq2attn.analysis.masks import Masks
    from seq2attn.analysis.saturation import Gradient, Saturation
    from seq2attn.analysis.variance import Variance

MARKERS = "osD^vPX*"
GREY = "0.45"


def variance_figure(result: Variance) -> Figure:
    """Variance against width, both logarithmic: measured points with two standard errors, theory as a line."""
    figure, panel = new_panel()
    _by_width(panel, result.rows, "variance", "variance_theory")
    panel.set_yscale("log")
    panel.set_ylabel("variance of the score")
    panel.plot([], [], color=GREY, lw=1.2, label="by formula")
    panel.legend(frameon=False, fontsize=9)
    panel.set_title("Variance of a score over random queries and keys", fontsize=11, loc="left")
    return figure


def saturation_figure(result: Saturation) -> Figure:
    """Mean weight by rank: one panel per score, one line per width."""
    from matplotlib import colormaps

    names = list(dict.fromkeys(row.score for row in result.rows))
    widths = sorted({row.width for row in result.rows})
    figure, panels = new_panels(len(names), 1.2 + 2.7 * len(names), 3.5)
    shades = colormaps[HEAT]
    for panel, name in zip(panels, names, strict=True):
        for row in sorted((row for row in result.rows if row.score == name), key=lambda row: row.width):
            place = widths.index(row.width)
            look = {"color": shades(0.9 * place / max(1, len(widths) - 1)), "marker": MARKERS[place % len(MARKERS)]}
            panel.plot(range(1, len(row.weights) + 1), row.weights, ms=4, lw=1.4, label=f"D = {row.width:,}", **look)
        panel.axhline(1 / result.keys, color=GREY, lw=1, ls=":", zorder=0)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("rank of the key")
        panel.set_ylim(-0.02, 1.02)
        panel.xaxis.get_major_locator().set_params(integer=True)
        clean(panel)
    panels[0].set_ylabel("mean weight")
    panels[0].text(result.keys, 1 / result.keys + 0.015, "uniform", fontsize=8, color=GREY, ha="right", va="bottom")
    panels[-1].legend(frameon=False, fontsize=9)
    figure.suptitle(f"Attention weights over {result.keys} random keys", fontsize=11, x=0.01, ha="left")
    return figure


def gradient_figure(result: Gradient) -> Figure:
    """Mean and median norm against the scale, with the scales of unscaled dot products marked."""
    figure, panel = new_panel()
    rows = sorted(result.rows, key=lambda row: row.scale)
    scales = [row.scale for row in rows]
    panel.plot(scales, [row.formula for row in rows], color="#0072b2", lw=1.4, label="mean, by formula")
    errors = [2 * row.mean_error for row in rows]
    _points(panel, scales, [row.mean for row in rows], errors, color="#0072b2", marker="o", label="mean, by autograd")
    medians = [row.median for row in rows]
    panel.plot(scales, medians, color="#d55e00", marker="s", ms=4, lw=1.4, ls="--", label="median")
    panel.set_xscale("log")
    top = 1.25 * max(row.mean for row in rows)
    panel.set_ylim(0, max(top, 1.1 * max(medians)))
    for width in (1, 16, 256):
        scale, text = math.sqrt(width), "scaled" if width == 1 else f"unscaled,\nD = {width:,}"
        if scales[0] <= scale <= scales[-1]:
            panel.axvline(scale, color="0.8", lw=0.8, zorder=0)
            panel.annotate(text, (scale, 0.99), xycoords=("data", "axes fraction"), fontsize=7.5, color=GREY, ha="center",
                           va="top", bbox={"color": "white", "pad": 0.5})  # fmt: skip
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("scale c: standard deviation of the scores")
    panel.set_ylabel("norm of the gradient")
    panel.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.9))
    clean(panel, f"Gradient of the largest of {result.keys} weights with respect to the scores")
    return figure


def entropy_figure(result: Entropy) -> Figure:
    """Entropy against width, a panel for each number of keys."""
    counts = list(result.uniform)
    figure, panels = new_panels(len(counts), 1.4 + 3.2 * len(counts), 3.6)
    for panel, count in zip(panels, counts, strict=True):
        _by_width(panel, [row for row in result.rows if row.keys == count], "entropy", "limit")
        panel.axhline(result.uniform[count], color=GREY, lw=1, ls=":", zorder=0)
        end = max(row.width for row in result.rows)
        panel.text(end, result.uniform[count], "uniform: log S", fontsize=8, color=GREY, ha="right", va="bottom")
        panel.set_title(f"S = {count:,} keys", fontsize=10)
    panels[0].set_ylabel("entropy of attention, nats")
    panels[0].set_ylim(bottom=0)
    panels[-1].plot([], [], color=GREY, lw=1.2, label="expected")
    panels[-1].legend(frameon=False, fontsize=9, loc="center right", bbox_to_anchor=(1, 0.62))
    figure.suptitle("Entropy of attention over random keys", fontsize=11, x=0.01, ha="left")
    return figure


def costs_figure(result: Costs) -> Figure:
    """Parameters, operations and bytes as bars, one colour per score."""
    names = [row.score for row in result.rows]
    columns = {
        "parameters of attention": [row.attention_parameters for row in result.rows],
        "operations a query": [row.flops_query for row in result.rows],
        "bytes, all queries at once": [row.bytes_at_once for row in result.rows],
    }
    figure, panels = new_panels(len(columns), 9.6, 0.9 + 0.42 * len(names))
    for panel, (label, values) in zip(panels, columns.items(), strict=True):
        panel.barh(names, values, color=[score_colour(name) for name in names], height=0.62)
        for place, value in enumerate(values):
            panel.text(value, place, f" {value:,}", va="center", fontsize=8)
        panel.set_xlim(0, 1.35 * max(*values, 1))
        panel.set_title(label, fontsize=10, loc="left")
        panel.set_xticks([])
        panel.tick_params(axis="y", length=0)
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0].invert_yaxis()
    n = result.sizes
    sizes = f"B = {n.batch:,}, S = {n.source:,}, L = {n.target:,}, D = {n.hidden:,}"
    figure.supxlabel(sizes, fontsize=9, color=GREY)
    return figure


def masks_figure(result: Masks) -> Figure:
    """The windows side by side: rows are output positions, columns source positions."""
    side = 2.3
    high = side * max(0.35, min(2.0, result.target / result.source))
    figure, panels = new_panels(len(result.masks), 4 * side + 1.4, high + 0.7)
    titles = {"monotonic": "local_m, monotonic", "reversed": "local_m, reversed"}
    for panel, mask in zip(panels, result.masks, strict=True):
        image = panel.imshow(mask.factors, cmap=HEAT, vmin=0, vmax=1, aspect="equal")
        if mask.centres is not None:
            inside = [(c, t) for t, c in enumerate(mask.centres) if -0.5 <= c <= result.source - 0.5]
            panel.plot(*zip(*inside, strict=True) if inside else ([], []), color="#d55e00", marker=".", ms=3, lw=0.8)
        panel.set_title(titles.get(mask.kind, mask.kind), fontsize=10)
        panel.set_xlabel("source position")
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_major_locator().set_params(integer=True, nbins=6)
        for spine in panel.spines.values():
            spine.set_visible(False)
    panels[0].set_ylabel("output position")
    figure.colorbar(image, ax=panels, label="factor of the weight", shrink=0.8, aspect=18)
    figure.suptitle(f"Windows of radius {result.radius}; orange: their centres", fontsize=11, x=0.01, ha="left")
    return figure


def forms_figure(result: Forms) -> Figure:
    """Largest difference between the two forms, and the bound for rounding errors."""
    figure, panel = new_panel(width=7.2)
    names = list(dict.fromkeys(row.score for row in result.rows))
    for precision, fill in (("float32", GREY), ("float64", "white")):
        rows = [row for row in result.rows if row.precision == precision]
        for field, marker, shift in (("weights", "o", -0.12), ("contexts", "s", 0.12)):
            places = [names.index(row.score) + shift for row in rows]
            differences = [max(getattr(row, field), 1e-18) for row in rows]
            panel.plot(places, differences, marker, color=GREY, mfc=fill, label=f"{field}, {precision}")
        panel.axhline(rows[0].rounding, color=GREY, lw=1, ls=":")
        panel.text(len(names) - 0.45, rows[0].rounding, f"rounding, {precision}", fontsize=8, color=GREY, ha="right",
                   va="bottom")  # fmt: skip
    panel.set_yscale("log")
    panel.set_xlim(-0.5, len(names) - 0.4)
    panel.set_xticks(range(len(names)), names)
    panel.set_ylabel("largest difference")
    panel.legend(frameon=False, fontsize=8, ncols=2, loc="center", bbox_to_anchor=(0.5, 0.45))
    clean(panel, "Attention by loops and by matrices")
    return figure


def _by_width(panel: Any, rows: Sequence[Any], field: str, theory: str) -> None:
    """`field` with two standard errors against width, a colour per score; `theory` as a line where it is known."""
    for name, marker in zip(dict.fromkeys(row.score for row in rows), cycle(MARKERS), strict=False):
        own = sorted((row for row in rows if row.score == name), key=lambda row: row.width)
        errors = [2 * getattr(row, f"{field}_error") for row in own]
        _points(panel, [row.width for row in own], [getattr(row, field) for row in own], errors,
                label=name, color=score_colour(name), marker=marker, zorder=3)  # fmt: skip
        known = [(row.width, getattr(row, theory)) for row in own if getattr(row, theory) is not None]
        panel.plot(*zip(*known, strict=True) if known else ([], []), color=score_colour(name), lw=1.2)
    panel.set_xscale("log", base=2)
    widths = sorted({row.width for row in rows})
    panel.set_xticks(widths if len(widths) <= 8 else widths[:: math.ceil(len(widths) / 8)])
    panel.set_xticklabels([f"{tick:g}" for tick in panel.get_xticks()])
    panel.minorticks_off()
    panel.set_xlabel("width D")
    clean(panel)


def _points(panel: Any, x: Sequence[float], y: Sequence[float], errors: Sequence[float], **look: Any) -> None:
    panel.errorbar(x, y, errors, ms=5, lw=0, elinewidth=1.2, capsize=3, **look)
