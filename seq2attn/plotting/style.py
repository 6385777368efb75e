"""What all figures share: colours, signs, panels, formats, and writing to a file."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.display.console import printable
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
HEAT = "cividis"
DASHES = ("-", "--", "-.", ":")
MARKERS = "osD^vPX*"
THINNEST, WIDEST = 1.6, 6.0  # points, of lines
SCORE_COLOURS = {  # after Okabe & Ito 2008
    "scaled": "#0072b2",
    "dot": "#d55e00",
    "general": "#009e73",
    "additive": "#cc79a7",
    "cosine": "#e69f00",
    "scaled_general": "#56b4e9",
    "key_value": "#6a3d9a",
    "none": "#7f7f7f",
}
PALETTE = tuple(SCORE_COLOURS.values())  # for the scores of plug-ins
_SIGNS = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"}


def sign(symbol: str) -> str:
    """A symbol as the label of a row or column: a combining mark stands on a dotted circle, not on
    its neighbour.
    """
    marked = len(symbol) == 1 and unicodedata.category(symbol).startswith("M")
    return f"\u25cc{symbol}" if marked else _SIGNS.get(symbol) or printable(symbol)


def isolate_direction(text: str) -> str:
    """A text for a title: between left-to-right marks if it is written from right to left, so that
    it turns nothing else.
    """
    text = printable(text.replace("\t", " "))  # a tab stands before a source's features
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"\u200e{text}\u200e" if turned else text


def score_colour(name: str) -> str:
    """The colour of a score, the same in every figure; that of a plug-in is derived from its name."""
    return SCORE_COLOURS.get(name) or PALETTE[sum(name.encode()) % len(PALETTE)]


@dataclass(frozen=True)
class Look:
    """How one of several lines is drawn."""

    colour: str
    dash: str
    marker: str
    width: float
    """decreasing, so that lines that coincide are all visible"""


def looks(scores: Sequence[str]) -> list[Look]:
    """The look of each line: its colour is that of its score; lines of one score differ in shade,
    dash and marker.
    """
    made = []
    for place, name in enumerate(scores):
        same, number = scores.count(name), scores[:place].count(name)
        colour = _shade(score_colour(name), number / (same - 1) if same > 1 else 0)
        marker = MARKERS[(number if len(set(scores)) == 1 else place) % len(MARKERS)]
        width = THINNEST + min(1.1, (WIDEST - THINNEST) / len(scores)) * (len(scores) - 1 - place)
        made.append(Look(colour, DASHES[number % len(DASHES)], marker, width))
    return made


def _shade(colour: str, lightness: float) -> str:
    """The colour itself at 0, half way to white at 1."""
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * 0.5 * lightness):02x}" for part in parts)


def new_panels(
    count: int = 1, size: tuple[float, float] = (6.4, 3.8), title: str = "", columns: int = 99
) -> tuple[Figure, Any]:
    """A figure with its panels, at most so many side by side, with one axis of values. size: width
    and height in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    panels = figure.subplots(
        -(-count // columns), min(count, columns), sharey=True, squeeze=False
    ).flat
    for panel in panels[count:]:
        panel.set_axis_off()
    return figure, panels[:count]


def clean(panel: Any, title: str = "") -> None:
    """Horizontal grid lines behind the data, no frame at the top and right."""
    if title:
        panel.set_title(title, fontsize=11, loc="left")
    panel.grid(axis="y", color="0.9", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def legend(panel: Any, **place: Any) -> None:
    """The legend of all figures: small and without a frame."""
    panel.legend(frameon=False, fontsize=9, **place)


def logarithmic(panel: Axes) -> None:
    """A logarithmic axis of values with labels such as 0.5 instead of 5 x 10^-1."""
    from matplotlib.ticker import LogLocator, NullFormatter

    panel.set_yscale("log", subs=[])
    low, high = panel.get_ylim()
    panel.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,), numticks=12)
    )
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's ending."""
    write_atomically(path, render(figure, check_format(path), 160))


def render(figure: Figure, form: str, dpi: int = 72) -> bytes:
    """The content of a figure's file."""
    drawn = io.BytesIO()
    with warnings.catch_warnings():  # a character that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, dpi=dpi, format=form)
    return drawn.getvalue()


def svg(figure: Figure, scale: float = 1.0) -> str:
    """A figure as an element of an HTML page. scale: of its panels, not of its text."""
    import matplotlib

    figure.set_size_inches(*scale * figure.get_size_inches())
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        text = render(figure, "svg").decode()
    return text[text.index("<svg") :]


def check_format(path: Path) -> str:
    """The format of a figure's file, by its ending. Raises `Seq2AttnError` for other endings."""
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        allowed = ", ".join(f".{name}" for name in FORMATS)
        raise Seq2AttnError(f"{path}: a figure's file name ends with one of {allowed}")
    if not path.parent.is_dir():
        raise Seq2AttnError(f"{path}: there is no directory {path.parent}")
    return form
