"""Curves through training and by string length, and what all figures share: the looks of lines,
panels, formats, and writing to a file.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from seq2attn.display.signs import SERIES_COLOURS, WHITE, mixed, score_colour
from seq2attn.errors import Seq2AttnError, character_name, first_of
from seq2attn.files import write_atomically
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import Row

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

FORMATS = (".png", ".svg", ".pdf")
DPI = 160  # of a PNG file
CREATOR = "seq2attn figure"  # in the metadata of a figure's file, where commands look for it
MISSING = r"Glyph (\d+) .* missing from"
GREY = "0.45"
DASHES = ("-", "--", "-.", ":")
MARKERS = "osD^vPX*"
THINNEST, WIDEST = 1.6, 6.0  # points, of lines
METRICS = {
    "exact match (greedy)": "exact_match",
    "characters (greedy)": "character_accuracy",
    "characters (teacher-forced)": "teacher_forced",
}
SMOOTHED = 50  # points of an averaged curve, at least
BESIDE = 0.48  # of a length, over which points that would coincide are moved apart


@dataclass(frozen=True)
class Look:
    """How one of several lines is drawn."""

    colour: str
    dash: str
    marker: str
    width: float
    """decreasing, so that lines that coincide are all visible"""


def looks(scores: Sequence[str]) -> list[Look]:
    """Return the look of each line, given the score of each: lines of one score have shades of its
    colour and differ in dash and marker. Each line is thinner than those drawn before it.
    """
    thinner = min(1.1, (WIDEST - THINNEST) / len(scores))  # points; 1.1: few lines need no more
    chosen = []
    for index, score in enumerate(scores):
        number = scores[:index].count(score)  # among the lines of its score
        shade = number / max(1, scores.count(score) - 1)  # 0 for the first, 1 for the last of them
        look = Look(
            colour=mixed(score_colour(score), WHITE, 0.5 * shade),  # at most half white
            dash=DASHES[number % len(DASHES)],
            marker=MARKERS[index % len(MARKERS)],
            width=THINNEST + thinner * (len(scores) - 1 - index),
        )
        chosen.append(look)
    return chosen


def new_panels(
    count: int = 1, size: tuple[float, float] = (6.4, 3.8), title: str = "", columns: int = 99
) -> tuple[Figure, Any]:
    """Return a figure and its `count` panels, which share the y axis, as a flat array.

    size: of the figure, width and height in inches. columns: at most so many panels are side by
    side; by default all.
    """
    from matplotlib.figure import Figure

    # not from pyplot, which would keep it open, and might need a screen
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    rows = math.ceil(count / columns)
    panels = figure.subplots(rows, min(count, columns), sharey=True, squeeze=False).flat
    for panel in panels[count:]:  # places that are left in the last row
        panel.set_axis_off()
    return figure, panels[:count]


def clean(panel: Axes, title: str = "") -> None:
    """Draw horizontal grid lines behind the data and no frame at the top and right."""
    panel.set_title(title, fontsize=11, loc="left")
    panel.grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def legend(panel: Axes, **options: Any) -> None:
    """Draw a small legend without a frame."""
    panel.legend(frameon=False, fontsize=9, **options)


def logarithmic(panel: Axes) -> None:
    """Make the y axis logarithmic, with labels such as 0.5 instead of 5 x 10^-1."""
    from matplotlib.ticker import LogLocator

    panel.set_yscale("log", subs=[])  # no minor ticks
    low, high = panel.get_ylim()
    # within two decades, powers of ten are too few labels
    labelled = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    # 12: as long as there are fewer decades, no power of ten is skipped
    panel.yaxis.set_major_locator(LogLocator(subs=labelled, numticks=12))
    panel.yaxis.set_major_formatter("{x:g}")


def column(rows: Iterable[object], field: str) -> NDArray[np.float64]:
    """Return a field of all rows as numbers; nan, which is not drawn, for None."""
    import numpy as np

    return np.array([getattr(row, field) for row in rows], dtype=float)


def draw_intervals(
    panel: Axes, rows: Sequence[object], field: str, *, shift: float = 0, **style: Any
) -> None:
    """Draw a field of rows, given by its name, against their `length`, with its interval from `low`
    to `high`; where these are None, without one.

    shift: to the right, in lengths, so that lines do not hide each other. style: of `errorbar`.
    """
    values = column(rows, field)
    sides = [values - column(rows, "low"), column(rows, "high") - values]
    panel.errorbar(column(rows, "length") + shift, values, sides, capsize=2, **style)


# ---- through training ----


def curves_figure(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    scores: Sequence[str],
    label: str,
    *,
    log: bool = False,
) -> Figure:
    """Draw a number that training logs against step, a line for each run.

    curves: name of a run -> (step, value) of its points. scores: the score of each run, which gives
    the colour of its line. label: of the y axis. log: on a logarithmic scale, with means of
    neighbouring points (`averaged`), and without values that are not positive.
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


# ---- files ----


def save_figure(figure: Figure, path: Path) -> str:
    """Write a figure in the format that the file's name ends with. Return a note for the user on
    characters that are drawn as boxes, since no font has them; "" if there are none. Raises
    `Seq2AttnError` for a name that ends with no format, and for a file that cannot be written.
    """
    with warnings.catch_warnings(record=True) as caught:  # matplotlib warns of each such character
        warnings.filterwarnings("always", message=MISSING)
        write_atomically(path, render(figure, check_format(path), DPI))
    # (other warnings do not concern a user)
    missing = [re.match(MISSING, str(warning.message)) for warning in caught]
    characters = sorted({chr(int(found[1])) for found in missing if found})
    if not characters:
        return ""
    names = first_of(map(character_name, characters))
    return (
        f"note: no font of matplotlib's has {names}: they are boxes in the figure. Install a font "
        "that has them, such as one of the Noto family, and add its name to font.family in your "
        "matplotlibrc"
    )


def render(figure: Figure, form: str, dpi: int = 100) -> bytes:
    """Return the content of a figure's file."""
    file = io.BytesIO()
    key = "Software" if form == "png" else "Creator"
    figure.savefig(file, dpi=dpi, format=form, metadata={key: CREATOR})
    return file.getvalue()


def svg(figure: Figure, scale: float) -> str:
    """Return a figure as an element of an HTML page.

    scale: the figure becomes so many times as wide and high, but its text keeps its size.
    """
    import matplotlib

    figure.set_size_inches(*scale * figure.get_size_inches())
    with matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=MISSING)  # the browser has its own fonts
        text = render(figure, "svg").decode()
    return text[text.index("<svg") :]  # without the declarations that begin a file


def check_format(path: Path) -> str:
    """Return the format of a figure's file. Raises `Seq2AttnError` for another ending."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        allowed = ", ".join(FORMATS)
        raise Seq2AttnError(f"{path}: a figure's file name ends with one of {allowed}")
    return ending[1:]
