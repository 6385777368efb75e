"""Figures of a comparison: loss and entropy through training, the metric by length with intervals,
the worst families.

Groups of one score share its colour; scores and base configs are lines, other differences make
panels.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.experiment import CONFIG, ERROR_RATES, METRICS
from seq2attn.comparison.plan import name_values
from seq2attn.plotting.curves import draw_families, draw_lengths
from seq2attn.plotting.style import Look, clean, logarithmic, looks, new_panels, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.comparison.groups import Group
    from seq2attn.comparison.results import Comparison

Series = tuple["Group", str]
"""a group and its label in a panel"""
Draw = Callable[["Axes", Sequence[tuple["Group", str, Look]]], None]

COLUMNS = 3  # panels side by side
PANEL = (3.6, 3.0)  # inches
LETTERS = 11  # of a title in an inch
SPREAD = 0.5  # of the room of a length, over which its groups are spread


def figures_of(comparison: Comparison) -> dict[str, Figure]:
    """Every figure that has data, by its name."""
    panels, metric = _panels(comparison.groups), METRICS[comparison.metric]
    made = {}
    for name, label in (
        ("loss", "training loss, nats"),
        ("entropy", "mean attention entropy over the trained lengths, nats"),
    ):
        if any(
            len(trial.metrics.curve(name)) > 1
            for group in comparison.groups
            for trial in group.trials
        ):
            explanation = "median over seeds; band: lowest to highest seed"
            made[name] = _figure(
                comparison.name, panels, partial(_by_step, name), label, explanation
            )
    if comparison.groups:
        seen = all(row.trained for group in comparison.groups for row in group.rows)
        grey = "" if seen else "; grey: never seen in training"
        explanation = f"mean over seeds with its 95 % interval; band: worst to best seed{grey}"
        made["results"] = _figure(comparison.name, panels, _results, metric, explanation)
    if comparison.has_families and comparison.metric != "entropy":
        panels = {group.label: [(group, "")] for group in comparison.groups}
        made["families"] = _figure(comparison.name, panels, _families, metric, "worst seed")
    return made


def save_figures(comparison: Comparison, folder: Path) -> Iterator[Path]:
    """Draw every figure that has data, as `NAME-loss.png` and so on; the files."""
    for name, figure in figures_of(comparison).items():
        save_figure(figure, folder / f"{comparison.name}-{name}.png")
        yield folder / f"{comparison.name}-{name}.png"


# ---- what a panel shows ----


def _by_step(name: str, panel: Axes, series: Sequence[tuple[Group, str, Look]]) -> None:
    """A number that was logged in training, over its steps."""
    for group, label, look in series:
        values: dict[int, list[float]] = {}
        for step, value in (point for trial in group.trials for point in trial.metrics.curve(name)):
            values.setdefault(step, []).append(value)
        steps, at = sorted(values), [values[step] for step in sorted(values)]
        panel.fill_between(
            steps, [*map(min, at)], [*map(max, at)], color=look.colour, alpha=0.15, lw=0
        )
        panel.plot(
            steps, [*map(statistics.median, at)], look.dash, color=look.colour, label=label, lw=1.6
        )
    (logarithmic if name == "loss" else _from_zero)(panel)
    panel.set_xlabel("step")


def _results(panel: Axes, series: Sequence[tuple[Group, str, Look]]) -> None:
    """The metric by length, or each error rate; groups beside one another where they would
    coincide.
    """
    rows = sorted(
        (row for group, _, _ in series for row in group.main), key=lambda row: row.length or 0
    )
    places = {
        key: place
        for place, key in enumerate(dict.fromkeys(row.length or row.metric.upper() for row in rows))
    }
    for number, (group, label, look) in enumerate(series):
        shift = SPREAD * ((number + 0.5) / len(series) - 0.5)
        at = [places[row.length or row.metric.upper()] + shift for row in group.main]
        over = [row.mean for row in group.main]
        panel.fill_between(
            at,
            [of.least for of in over],
            [of.most for of in over],
            color=look.colour,
            alpha=0.15,
            lw=0,
        )
        style: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "label": label,
            "lw": 1.2,
            "ms": 5,
        }
        panel.plot(at, [of.value for of in over], look.dash, **style)
        for place, row in zip(at, group.main, strict=True):
            if row.mean.low is not None and row.mean.high is not None:
                panel.vlines(place, row.mean.low, row.mean.high, color=look.colour, lw=2.4)
            if row.published is not None:
                style = {
                    "mfc": "none",
                    "mec": look.colour,
                    "ms": 8,
                    "mew": 1.4,
                    "label": "published",
                }
                panel.plot(place, row.published, "D", **style)
    draw_lengths(
        panel,
        places,
        places.keys() - {row.length or row.metric.upper() for row in rows if row.trained},
        12,
    )
    panel.set_xlabel("string length" if rows and rows[0].length else "")
    if rows and rows[0].metric in ("entropy", *ERROR_RATES):
        _from_zero(panel)


def _families(panel: Axes, series: Sequence[tuple[Group, str, Look]]) -> None:
    """The worst seed by family of strings and by length, of one group."""
    ((group, _, _),) = series
    draw_families(
        panel,
        group.least,
        [row.length for row in group.main if row.length is not None and not row.trained],
    )


def _from_zero(panel: Axes) -> None:
    panel.set_ylim(0, max(other.get_ylim()[1] for other in panel.figure.axes))


# ---- panels ----


def _figure(
    name: str, panels: Mapping[str, Sequence[Series]], draw: Draw, label: str, explanation: str
) -> Figure:
    """Panels with titles, one legend, and one label of values."""
    wide, high = min(COLUMNS, len(panels)), math.ceil(len(panels) / COLUMNS)
    size = (max(5.6, wide * PANEL[0]), high * PANEL[1] + 1.0)
    about = textwrap.fill(f"{name}: {explanation}", round(size[0] * LETTERS))
    figure, axes = new_panels(len(panels), size, about, COLUMNS)
    handles: dict[str, Any] = {}
    for panel, (title, series) in zip(axes, panels.items(), strict=True):
        styles = looks([group.score for group, _ in series])
        draw(panel, [(*drawn, look) for drawn, look in zip(series, styles, strict=True)])
        panel.tick_params(labelsize=10, labelleft=True)
        clean(panel, title)
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    style = {"ncols": min(5, max(1, len(handles))), "frameon": False, "fontsize": 10}
    names = sorted(handles, key=lambda name: name == "published")
    figure.legend([handles[name] for name in names], names, loc="outside lower center", **style)
    figure.supylabel(label, fontsize=11)
    return figure


def _panels(groups: Sequence[Group]) -> dict[str, list[Series]]:
    """A panel for each combination of values beside score and base config, whose groups are its
    lines; one if only other keys vary.
    """
    keys = list(groups[0].values) if groups else []
    lines = [key for key in keys if key in (CONFIG, "model.attention.score")] or keys
    panels: dict[str, list[Series]] = {}
    for group in groups:
        words = name_values(group.values)
        title = ", ".join(words[key] for key in keys if key not in lines)
        panels.setdefault(title, []).append(
            (group, ", ".join(words[key] for key in lines) or group.label)
        )
    return panels
