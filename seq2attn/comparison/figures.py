"""Figures of a comparison: loss and entropy through training, the metric by length, bars with error bars.

Groups of one score share its colour; other differences make panels or, with a single score, lines and shades.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.comparison.experiment import ERROR_RATES
from seq2attn.plotting.curves import draw_families
from seq2attn.plotting.style import DASHES, Look, logarithmic, looks, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.comparison.groups import GroupResult
    from seq2attn.comparison.results import Comparison

SCORE = "model.attention.score"
COLUMNS = 3  # panels side by side
PANEL = (3.6, 3.0)  # inches
LETTERS = 12  # of a title in an inch
DOTS = 30  # most seeds that are drawn one by one


@dataclass(frozen=True)
class Series:
    """One group as a panel draws it."""

    group: GroupResult
    label: str
    look: Look


def figures_of(comparison: Comparison) -> dict[str, Figure]:
    """Every figure that has data, by its name."""
    draw = {
        "loss": loss_figure,
        "lengths": length_figure,
        "bars": bar_figure,
        "families": family_figure,
        "entropy": entropy_figure,
    }
    figures = {name: figure(comparison) for name, figure in draw.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def save_figures(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw every figure that has data, as `NAME-loss.png` and so on. Returns the files."""
    figures = {folder / f"{comparison.name}-{name}.png": figure for name, figure in figures_of(comparison).items()}
    for path, figure in figures.items():
        save_figure(figure, path)
    return list(figures)


def loss_figure(comparison: Comparison) -> Figure | None:
    """Training loss by step: the median over seeds, and a band from the lowest to the highest."""
    explanation = "median over seeds; band: lowest to highest seed"
    return _by_step(comparison, "losses", statistics.median, logarithmic, "training loss, nats", explanation)


def entropy_figure(comparison: Comparison) -> Figure | None:
    """Attention entropy at each evaluation of training: the mean over seeds, and a band from the lowest to the highest."""
    if not any(len(trial.entropies) > 1 for group in comparison.groups for trial in group.trials):
        return None
    explanation = "trained lengths; mean over seeds; band: lowest to highest seed"
    return _by_step(comparison, "entropies", statistics.fmean, _from_zero, "mean attention entropy, nats", explanation)


def length_figure(comparison: Comparison) -> Figure | None:
    """The metric by string length: the mean over seeds, a band from the worst to the best, published figures as diamonds.

    None for error rates, which are measured on all words together.
    """
    if comparison.metric in ERROR_RATES:
        return None

    def draw(panel: Axes, series: Sequence[Series]) -> None:
        for item in series:
            look, rows = item.look, item.group.main
            values = {row.length: list(row.values.values()) for row in rows if row.length is not None}
            _band(panel, item, values, statistics.fmean, marker=look.marker, ms=look.width + 3.5, lw=look.width)
            published = [(row.length, row.published) for row in rows if row.published is not None]
            if published:
                panel.plot(*zip(*published, strict=True), "D", mfc="none", mec=look.colour, ms=8, mew=1.4)
        lengths = sorted({row.length for item in series for row in item.group.main if row.length is not None})
        _finish(panel, comparison, series, {length: length for length in lengths})
        panel.set_xticks(lengths if len(lengths) <= 12 else lengths[:: math.ceil(len(lengths) / 12)])

    return _panels(comparison, draw, comparison.metric_label, "mean over seeds; band: worst to best seed")


def family_figure(comparison: Comparison) -> Figure | None:
    """The metric of the worst seed by family of strings and by length, one panel a group; None without families."""
    if not comparison.has_families or comparison.metric == "entropy":
        return None
    from matplotlib.figure import Figure

    groups = comparison.groups
    columns = min(COLUMNS, len(groups))
    rows = math.ceil(len(groups) / columns)
    figure = Figure(figsize=(max(5.6, columns * PANEL[0]), rows * PANEL[1] + 1.0), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for panel, group in zip(panels, groups, strict=False):
        draw_families(
            panel, group.least, [row.length for row in group.main if row.length is not None and not row.trained]
        )
        panel.set_title(group.label, fontsize=11, loc="left")
        panel.legend(frameon=False, fontsize=8)
    for panel in panels[len(groups) :]:
        panel.set_axis_off()
    figure.supylabel(comparison.metric_label, fontsize=11)
    figure.suptitle(f"{comparison.name}: worst seed", fontsize=10, x=0.01, ha="left", color="0.3")
    return figure


def bar_figure(comparison: Comparison) -> Figure | None:
    """The metric as bars by length, or both error rates: the mean over seeds, its 95 % interval, and each seed as a dot."""

    def draw(panel: Axes, series: Sequence[Series]) -> None:
        rows = sorted((row for item in series for row in item.group.main), key=lambda row: row.length or 0)
        keys = list(dict.fromkeys(row.key for row in rows))
        width = 0.8 / len(series)
        for number, item in enumerate(series):
            shift = (number - (len(series) - 1) / 2) * width
            for row in item.group.main:
                at = keys.index(row.key) + shift
                label = item.label if row is item.group.main[0] else None
                colour, hatch = item.look.colour, "" if item.look.dash == DASHES[0] else "//"
                panel.bar(at, row.spread.mean, width * 0.9, color=colour, alpha=0.55, label=label, hatch=hatch)
                if 1 < len(row.values) <= DOTS:  # side by side, so that equal values do not hide each other
                    places = [at + width * 0.6 * (dot / (len(row.values) - 1) - 0.5) for dot in range(len(row.values))]
                    panel.plot(places, list(row.values.values()), "o", color=colour, ms=2.5, mec="0.2", mew=0.3)
                if row.spread.low is not None and row.spread.high is not None:
                    ends = [[row.spread.mean - row.spread.low], [row.spread.high - row.spread.mean]]
                    panel.errorbar(at, row.spread.mean, ends, color="0.15", lw=1.2, capsize=min(4, 12 * width))
                if row.published is not None:
                    panel.plot(at, row.published, "D", mfc="white", mec="0.15", ms=5, mew=1.2, zorder=5)
        _finish(panel, comparison, series, {row.length: keys.index(row.key) for row in rows})
        panel.set_xticks(range(len(keys)), [key.upper() for key in keys])

    return _panels(comparison, draw, comparison.metric_label, "mean and its 95 % interval over seeds; dots: seeds")


def _by_step(
    comparison: Comparison,
    field: str,
    middle: Callable[[list[float]], float],
    scale: Callable[[Axes], None],
    label: str,
    explanation: str,
) -> Figure | None:
    """The curves of each run, over training: `field` of its `TrialResult`."""
    if not any(getattr(trial, field) for group in comparison.groups for trial in group.trials):
        return None

    def draw(panel: Axes, series: Sequence[Series]) -> None:
        for item in series:
            values: dict[int, list[float]] = {}
            for step, value in (point for trial in item.group.trials for point in getattr(trial, field)):
                values.setdefault(step, []).append(value)
            _band(panel, item, values, middle)
        scale(panel)
        panel.set_xlabel("step")

    return _panels(comparison, draw, label, explanation)


def _panels(
    comparison: Comparison, draw: Callable[[Axes, Sequence[Series]], None], label: str, explanation: str
) -> Figure | None:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    facets = facets_of(comparison.groups)
    if not facets:
        return None
    columns = min(COLUMNS, len(facets))
    rows = math.ceil(len(facets) / columns)
    size = (max(5.6, columns * PANEL[0]), rows * PANEL[1] + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for panel, (title, series) in zip(panels, facets.items(), strict=False):
        draw(panel, series)
        panel.set_title(title, fontsize=11, loc="left")
        panel.tick_params(labelsize=10, labelleft=True)
        panel.grid(axis="y", color="0.88", lw=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(facets) :]:
        panel.set_axis_off()
    handles: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    rows_by_length = [row for group in comparison.groups for row in group.main]
    by_length = label == comparison.metric_label
    if by_length and not all(row.trained for row in rows_by_length):
        explanation += "; grey: never seen in training"
    if by_length and any(row.published is not None for row in rows_by_length):
        handles["published"] = Line2D([], [], marker="D", mfc="none", mec="0.15", ls="", ms=6)
    style = {"ncols": min(5, len(handles)), "frameon": False, "fontsize": 10}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", **style)
    figure.supylabel(label, fontsize=11)
    title = textwrap.fill(f"{comparison.name}: {explanation}", round(size[0] * LETTERS))
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", color="0.3")
    return figure


def facets_of(groups: Sequence[GroupResult]) -> dict[str, list[Series]]:
    """Panels: one for each combination of what varies besides the score; only one if there is a single score."""
    keys = _facet_keys(groups)
    facets: dict[str, list[GroupResult]] = {}
    for group in groups:
        facets.setdefault(", ".join(group.words[key] for key in keys), []).append(group)
    panels: dict[str, list[Series]] = {}
    for title, members in facets.items():
        for group, look in zip(members, looks([group.score for group in members]), strict=True):
            words = [word for key, word in group.words.items() if key not in keys]
            panels.setdefault(title, []).append(Series(group, ", ".join(words) or group.label, look))
    return panels


def _facet_keys(groups: Sequence[GroupResult]) -> list[str]:
    """The keys that vary within one score, if there are several scores (`config` does not if each score has its own)."""
    scores = {group.score for group in groups}
    if len(scores) < 2:
        return []

    def varies(key: str) -> bool:
        return any(len({group.words[key] for group in groups if group.score == score}) > 1 for score in scores)

    return [key for key in groups[0].words if key != SCORE and varies(key)]


def _band(
    panel: Axes, item: Series, values: Mapping[int, list[float]], middle: Callable[[list[float]], float], **style: Any
) -> None:
    """The middle of the values at each place as a line, and a band between their extremes."""
    if not values:
        return
    places, at = zip(*sorted(values.items()), strict=True)
    panel.fill_between(places, list(map(min, at)), list(map(max, at)), color=item.look.colour, alpha=0.15, lw=0)
    style = {"color": item.look.colour, "lw": 1.6, "label": item.label, **style}
    panel.plot(places, list(map(middle, at)), item.look.dash, **style)


def _finish(panel: Axes, comparison: Comparison, series: Sequence[Series], places: Mapping[int | None, float]) -> None:
    """Both axes, and a grey background behind lengths that no group was trained on."""
    rows = [row for item in series for row in item.group.main]
    for length in {row.length for row in rows} - {row.length for row in rows if row.trained}:
        panel.axvspan(places[length] - 0.5, places[length] + 0.5, color="0.93", lw=0, zorder=0)
    panel.set_xlabel("" if comparison.metric in ERROR_RATES else "string length")
    if comparison.metric == "entropy" or comparison.metric in ERROR_RATES:
        _from_zero(panel)
    else:
        panel.set_ylim(-0.03, 1.05)


def _from_zero(panel: Axes) -> None:
    panel.set_ylim(0, max(panel.get_ylim()[1], *(other.get_ylim()[1] for other in panel.figure.axes)))
