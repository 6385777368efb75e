"""What all figures share: the looks of lines, panels, formats, and writing to a file."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.colours import lighten, score_colour
from seq2attn.errors import Seq2AttnError
from seq2attn.files import write_atomically
from seq2attn.text import character_name, first_of

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
            colour=lighten(score_colour(score), 0.5 * shade),  # at most half white
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


def save_figure(figure: Figure, path: Path) -> str:
    """Write a figure in the format that the file's name ends with. Return a note for the user on
    characters that are drawn as boxes, since no font has them; "" if there are none.
    """
    with warnings.catch_warnings(record=True) as caught:  # matplotlib warns of each such character
        warnings.filterwarnings("always", message=MISSING)
        write_atomically(path, render(figure, check_format(path), DPI))
    # (other warnings do not concern a user)
    missing = [re.match(MISSING, str(warning.message)) for warning in caught]
    characters = sorted({chr(int(found[1])) for found in missing if found})
    if not characters:
        return ""
    names = first_of(list(map(character_name, characters)))
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
