"""Figures of a comparison: loss and entropy through training, the metric by length with intervals.

Groups of one score share its colour; scores and base configs are lines, other differences make
panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.experiment import CONFIG
from seq2attn.comparison.plan import name_values
from seq2attn.plotting.figures import (
    FORMATS,
    Look,
    clean,
    column,
    draw_lengths,
    logarithmic,
    looks,
    new_panels,
)
from seq2attn.results.metrics import METRICS, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.comparison.results import Comparison, Group

Lines = Sequence[tuple["Group", Look]]
"""the groups of a panel, and how each is drawn"""

CURVES = {
    "loss": "training loss, nats",
    "entropy": "mean attention entropy\nover the trained lengths, nats",
}
COLUMNS = 3  # panels side by side
SCORE = "model.attention.score"
PANEL_WIDTH, PANEL_HEIGHT = 3.6, 3.0  # inches
WIDTH = 0.5  # of the distance between two lengths, over which groups stand side by side


def figures_of(comparison: Comparison) -> dict[str, Figure]:
    """Draw every figure that has data; return them by name: each of `CURVES` of which at least one
    trial logged two points, and `results`, unless no trial is done.
    """
    groups = comparison.groups
    metric = METRICS[comparison.metric]
    panels = _panels(groups)
    figures = {}
    for curve, label in CURVES.items():
        # (one point is not a curve)
        if any(len(one.metrics.curve(curve)) > 1 for group in groups for one in group.trials):
            title = f"{comparison.name}: median over seeds\nband: lowest to highest seed"
            figures[curve] = _figure(title, panels, partial(_draw_curves, curve), label)
    if groups:
        title = f"{comparison.name}: mean over seeds with its 95 % interval\n"
        title += "band: worst to best seed"
        if not all(row["trained"] for row in comparison.rows):
            title += "; grey: never seen in training"
        figures["results"] = _figure(title, panels, partial(_draw_results, metric), metric.heading)
    return figures


def figure_files(comparison: str, place: Path) -> dict[str, Path]:
    """Return the file of each figure that a comparison may have, by the figure's name.

    place: a folder, for the files `COMPARISON-loss.png` and so on in it; or the name of a figure's
        file, such as `wide.svg`, for `wide-loss.svg` and so on beside it.
    """
    is_file = place.suffix.lower() in FORMATS
    file = place if is_file else place / f"{comparison}.png"
    return {name: file.with_stem(f"{file.stem}-{name}") for name in (*CURVES, "results")}


# ---- what a panel shows ----


def _draw_curves(curve: str, panel: Axes, lines: Lines) -> None:
    """Draw one of `CURVES` over the steps of training: each group's median over its seeds, in a
    band from the lowest to the highest seed. lines: the groups, each with its look.
    """
    for group, look in lines:
        values: dict[int, list[float]] = {}  # of all seeds, by step
        for trial in group.trials:
            for step, value in trial.metrics.curve(curve):
                values.setdefault(step, []).append(value)
        if not values:  # such as the entropy of a model without attention
            continue
        steps = sorted(values)
        low, middle, high = ([of(values[step]) for step in steps] for of in (min, median, max))
        _draw_line(panel, group, look, steps, middle, (low, high), lw=1.6)
    if curve == "loss":  # which falls by powers of ten
        logarithmic(panel)
    else:  # entropy
        panel.set_ylim(0)
    panel.set_xlabel("step")


def _draw_results(metric: Metric, panel: Axes, lines: Lines) -> None:
    """Draw each group's mean with its interval, in a band from the worst to the best seed: at each
    length of the first family of strings (`Group.main`), or for each error rate of a file. Groups
    are moved apart sideways, so that all intervals are visible. Lengths never seen in training have
    a grey ground. lines: the groups, each with its look.
    """
    rows = [row for group, _ in lines for row in group.main]
    labels = sorted({row["label"] for row in rows})
    ticks = {label: place for place, label in enumerate(labels)}  # places on the x axis
    untrained = ticks.keys() - {row["label"] for row in rows if row["trained"]}
    for number, (group, look) in enumerate(lines):
        shift = WIDTH * ((number + 0.5) / len(lines) - 0.5)  # 0 for the group in the middle
        positions = [ticks[row["label"]] + shift for row in group.main]
        means = [row["mean"] for row in group.main]
        seeds = [row["worst"] for row in group.main], [row["best"] for row in group.main]
        style = {"marker": look.marker, "lw": 1.2, "ms": 5}
        _draw_line(panel, group, look, positions, column(means, "value"), seeds, **style)
        ends = column(means, "low"), column(means, "high")
        panel.vlines(positions, *ends, color=look.colour, lw=2.4)
    draw_lengths(panel, ticks, untrained, limit=12)  # 12 labels, as panels are narrow
    panel.set_xlabel("" if metric.of_file else "string length")
    # `draw_lengths` ends the axis at 1, as suits accuracy; an error rate (True) or an entropy
    # (None) may be larger
    if metric.lower_is_better is not False:
        panel.autoscale(axis="y")
        panel.set_ylim(0)


def _draw_line(
    panel: Axes, group: Group, look: Look, x: Any, values: Any, band: Any, **style: Any
) -> None:
    """Draw a group's values at `x` as a line, in a band from the lowest to the highest seed.

    band: the lowest and the highest values at `x`. style: of `Axes.plot`.
    """
    panel.fill_between(x, *band, color=look.colour, alpha=0.15, lw=0)
    panel.plot(x, values, look.dash, color=look.colour, label=group.label, **style)


# ---- panels ----


def _figure(
    title: str,
    panels: Mapping[str, Sequence[Group]],
    draw: Callable[[Axes, Lines], None],
    label: str,
) -> Figure:
    """Draw panels with one title, one legend, and one label of the y axis.

    panels: the groups of each, by the panel's own title. draw: draws the lines of one panel. label:
    that of the y axis.
    """
    # in inches; a narrower figure cuts its title off
    width = max(5.6, min(COLUMNS, len(panels)) * PANEL_WIDTH)
    height = math.ceil(len(panels) / COLUMNS) * PANEL_HEIGHT + 1.0  # for title and legend
    figure, axes = new_panels(len(panels), (width, height), title, COLUMNS)
    handles: dict[str, Any] = {}
    for panel, (heading, groups) in zip(axes, panels.items(), strict=True):
        styles = looks([group.score for group in groups])
        draw(panel, list(zip(groups, styles, strict=True)))
        panel.tick_params(labelleft=True)  # which a shared axis has on the first panel only
        clean(panel, heading)
        # once for groups that several panels call alike
        handles |= {line.get_label(): line for line in panel.lines}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(5, len(handles)),
        frameon=False,
    )
    figure.supylabel(label, fontsize=11)
    return figure


def _panels(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Return the groups of each panel, by its title: groups that differ only in their score or
    base config share a panel, where their labels name these alone, and the title all else that
    varies. If neither varies, all groups are in one panel without a title.
    """
    panels: dict[str, list[Group]] = {}
    for group in groups:
        words = name_values(group.values)
        in_label = [words.pop(key) for key in (CONFIG, SCORE) if key in words]
        # neither varies: its own label, which names the base config if only the seed varies
        if not in_label:
            in_label, words = [group.label], {}
        shown = group._replace(label=", ".join(in_label))
        panels.setdefault(", ".join(words.values()), []).append(shown)
    return panels
