"""Figures of a comparison: loss and entropy through training, the metric by length, bars with error bars.

Groups of one score share its colour; other differences make panels or, with a single score, lines and shades.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.experiment import ERROR_RATES
from seq2attn.plotting.curves import draw_families
from seq2attn.plotting.style import DASHES, Look, clean, logarithmic, looks, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.comparison.groups import GroupResult
    from seq2attn.comparison.results import Comparison

Series = tuple["GroupResult", str, Look]
"""a group as a panel draws it, with its label there"""
Draw = Callable[["Axes", Sequence[Series]], None]

SCORE = "model.attention.score"
COLUMNS = 3  # panels side by side
PANEL = (3.6, 3.0)  # inches
LETTERS = 12  # of a title in an inch
GREY = "; grey: never seen in training"


def figures_of(comparison: Comparison) -> dict[str, Figure]:
    """Every figure that has data, by its name."""
    trials = [trial for group in comparison.groups for trial in group.trials]
    rows = [row for group in comparison.groups for row in group.main]
    metric, grey = comparison.metric_label, "" if all(row.trained for row in rows) else GREY
    made = {}
    if any(trial.losses for trial in trials):
        explanation = "median over seeds; band: lowest to highest seed"
        draw = _by_step("losses", statistics.median, logarithmic)
        made["loss"] = _figure(comparison, draw, "training loss, nats", explanation)
    if comparison.metric not in ERROR_RATES:
        explanation = f"mean over seeds; band: worst to best seed{grey}"
        made["lengths"] = _figure(comparison, _by_length(comparison), metric, explanation)
    explanation = f"mean and its 95 % interval over seeds{grey}"
    made["bars"] = _figure(comparison, _bars(comparison), metric, explanation)
    if comparison.has_families and comparison.metric != "entropy":
        panels: dict[str, list[Series]] = {group.label: [(group, "", looks([""])[0])] for group in comparison.groups}
        made["families"] = _figure(comparison, _families, metric, "worst seed", panels)
    if any(len(trial.entropies) > 1 for trial in trials):
        explanation = "trained lengths; mean over seeds; band: lowest to highest seed"
        draw = _by_step("entropies", statistics.fmean, _from_zero)
        made["entropy"] = _figure(comparison, draw, "mean attention entropy, nats", explanation)
    return made if comparison.groups else {}


def save_figures(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw every figure that has data, as `NAME-loss.png` and so on. Returns the files."""
    figures = {folder / f"{comparison.name}-{name}.png": figure for name, figure in figures_of(comparison).items()}
    for path, figure in figures.items():
        save_figure(figure, path)
    return list(figures)


# ---- what a panel shows ----


def _by_step(field: str, middle: Callable[[list[float]], float], scale: Callable[[Axes], None]) -> Draw:
    """The curves of each run over training: `field` of its `TrialResult`."""

    def draw(panel: Axes, series: Sequence[Series]) -> None:
        for group, label, look in series:
            values: dict[int, list[float]] = {}
            for step, value in (point for trial in group.trials for point in getattr(trial, field)):
                values.setdefault(step, []).append(value)
            _band(panel, values, middle, look, label=label, lw=1.6)
        scale(panel)
        panel.set_xlabel("step")

    return draw


def _by_length(comparison: Comparison) -> Draw:
    def draw(panel: Axes, series: Sequence[Series]) -> None:
        for group, label, look in series:
            values = {row.length: list(row.values.values()) for row in group.main if row.length is not None}
            style = {"marker": look.marker, "ms": look.width + 3.5, "lw": look.width}
            _band(panel, values, statistics.fmean, look, label=label, **style)
            published = [(row.length, row.published) for row in group.main if row.published is not None]
            if published:
                places = zip(*published, strict=True)
                panel.plot(*places, "D", mfc="none", mec=look.colour, ms=8, mew=1.4, label="published")
        lengths = sorted({row.length for group, _, _ in series for row in group.main if row.length is not None})
        _values_by_length(panel, comparison, series, {length: length for length in lengths})
        panel.set_xticks(lengths if len(lengths) <= 12 else lengths[:: math.ceil(len(lengths) / 12)])

    return draw


def _bars(comparison: Comparison) -> Draw:
    """Bars by length, or by error rate: the mean over seeds with its 95 % interval."""

    def draw(panel: Axes, series: Sequence[Series]) -> None:
        rows = sorted((row for group, _, _ in series for row in group.main), key=lambda row: row.length or 0)
        keys = list(dict.fromkeys(row.key for row in rows))
        width = 0.8 / len(series)
        for number, (group, label, look) in enumerate(series):
            for row in group.main:
                at, mean = keys.index(row.key) + (number - (len(series) - 1) / 2) * width, row.spread.mean
                style: dict[str, Any] = {"color": look.colour, "hatch": "" if look.dash == DASHES[0] else "//"}
                panel.bar(at, mean, width * 0.9, alpha=0.55, label=label if row is group.main[0] else None, **style)
                if row.spread.low is not None and row.spread.high is not None:
                    ends = [[mean - row.spread.low], [row.spread.high - mean]]
                    panel.errorbar(at, mean, ends, color="0.15", lw=1.2, capsize=min(4, 12 * width))
                if row.published is not None:
                    style = {"mfc": "white", "mec": "0.15", "ms": 5, "mew": 1.2, "ls": ""}
                    panel.plot(at, row.published, "D", zorder=5, label="published", **style)
        _values_by_length(panel, comparison, series, {row.length: keys.index(row.key) for row in rows})
        panel.set_xticks(range(len(keys)), [key.upper() for key in keys])

    return draw


def _families(panel: Axes, series: Sequence[Series]) -> None:
    """The worst seed by family of strings and by length, of one group."""
    ((group, _, _),) = series
    draw_families(panel, group.least, [row.length for row in group.main if row.length is not None and not row.trained])


def _band(
    panel: Axes, values: Mapping[int, list[float]], middle: Callable[[list[float]], float], look: Look, **style: Any
) -> None:
    """The middle of the values at each place as a line, and a band between their extremes."""
    if values:
        places, at = zip(*sorted(values.items()), strict=True)
        panel.fill_between(places, list(map(min, at)), list(map(max, at)), color=look.colour, alpha=0.15, lw=0)
        panel.plot(places, list(map(middle, at)), look.dash, color=look.colour, **style)


def _values_by_length(
    panel: Axes, comparison: Comparison, series: Sequence[Series], places: Mapping[int | None, float]
) -> None:
    """Both axes, and a grey background behind lengths that no group was trained on."""
    rows = [row for group, _, _ in series for row in group.main]
    for length in {row.length for row in rows} - {row.length for row in rows if row.trained}:
        panel.axvspan(places[length] - 0.5, places[length] + 0.5, color="0.93", lw=0, zorder=0)
    panel.set_xlabel("" if comparison.metric in ERROR_RATES else "string length")
    if comparison.metric == "entropy" or comparison.metric in ERROR_RATES:
        _from_zero(panel)
    else:
        panel.set_ylim(-0.03, 1.05)


def _from_zero(panel: Axes) -> None:
    panel.set_ylim(0, max(other.get_ylim()[1] for other in panel.figure.axes))


# ---- panels ----


def _figure(
    comparison: Comparison,
    draw: Draw,
    label: str,
    explanation: str,
    panels: Mapping[str, Sequence[Series]] | None = None,
) -> Figure:
    """Panels with titles, by default those of `facets_of`, one legend, and one label of values."""
    from matplotlib.figure import Figure

    panels = panels or facets_of(comparison.groups)
    columns = max(1, min(COLUMNS, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    size = (max(5.6, columns * PANEL[0]), rows * PANEL[1] + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for panel, (title, series) in zip(axes, panels.items(), strict=False):
        draw(panel, series)
        panel.tick_params(labelsize=10, labelleft=True)
        clean(panel, title)
    for panel in axes[len(panels) :]:
        panel.set_axis_off()
    labelled = [pair for panel in axes for pair in zip(*panel.get_legend_handles_labels(), strict=True)]
    handles: dict[str, Any] = {
        name: handle for handle, name in sorted(labelled, key=lambda pair: pair[1] == "published")
    }
    style = {"ncols": min(5, max(1, len(handles))), "frameon": False, "fontsize": 10}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", **style)
    figure.supylabel(label, fontsize=11)
    title = textwrap.fill(f"{comparison.name}: {explanation}", round(size[0] * LETTERS))
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", color="0.3")
    return figure


def facets_of(groups: Sequence[GroupResult]) -> dict[str, list[Series]]:
    """Panels: one for each combination of what varies within one score, if there are several scores; otherwise one."""
    by_score: dict[str, list[GroupResult]] = {}
    for group in groups:
        by_score.setdefault(group.score, []).append(group)
    keys = [
        key
        for key in (groups[0].words if len(by_score) > 1 else ())
        if key != SCORE and any(len({group.words[key] for group in members}) > 1 for members in by_score.values())
    ]
    facets: dict[str, list[GroupResult]] = {}
    for group in groups:
        facets.setdefault(", ".join(group.words[key] for key in keys), []).append(group)
    return {
        title: [
            (group, ", ".join(word for key, word in group.words.items() if key not in keys) or group.label, look)
            for group, look in zip(members, looks([group.score for group in members]), strict=True)
        ]
        for title, members in facets.items()
    }
