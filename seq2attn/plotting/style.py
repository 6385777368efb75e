"""What all figures share: colours, formats, and how one is written."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError, did_you_mean
from seq2attn.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
HEAT = "cividis"  # made for readers with any kind of colour vision (Nunez et al. 2018)
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#6a3d9a",
    "#7f7f7f",
)  # after Okabe & Ito 2008
SCORE_COLOURS = {
    "scaled": "#0072b2",
    "dot": "#d55e00",
    "general": "#009e73",
    "additive": "#cc79a7",
    "scaled_general": "#56b4e9",
    "cosine": "#e69f00",
    "key_value": "#6a3d9a",
    "none": "#7f7f7f",
}


def score_colour(name: str) -> str:
    """The colour of a score, the same in every figure; one that is not built in gets a colour by its name."""
    return SCORE_COLOURS.get(name) or PALETTE[sum(name.encode()) % len(PALETTE)]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name says."""
    check_format(path)
    drawn = io.BytesIO()
    with warnings.catch_warnings():  # a character that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, dpi=160, format=path.suffix.lower().removeprefix("."))
    write_atomically(path, drawn.getvalue())


def check_format(path: Path) -> None:
    """Refuse a file name whose ending is no format for figures."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        guess = did_you_mean(ending, FORMATS)
        allowed = ", ".join(f".{name}" for name in FORMATS)
        raise Seq2AttnError(f"{path}: a figure's file name ends with one of {allowed}; {guess}".rstrip("; "))
    if not path.parent.is_dir():
        raise Seq2AttnError(f"{path}: there is no directory {path.parent}")
