"""Attention through training as an animated GIF."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError
from seq2attn.plotting.attention import IDEAL, frame_figure
from seq2attn.plotting.style import HEAT

if TYPE_CHECKING:
    from PIL.Image import Image

    from seq2attn.maps import AttentionMap

DPI = 100
SECONDS, LAST_SECONDS = 0.6, 2.0  # each frame, and the last


def save_animation(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], path: Path, *, ideal: bool = False) -> None:
    """Write a GIF of the maps, a frame a step, that plays for ever."""
    from PIL.Image import Dither

    frames = [_frame(step, maps, ideal) for step, maps in snapshots]
    palette = _palette()
    drawn = [frame.quantize(palette=palette, dither=Dither.NONE) for frame in frames]
    times = [int(1000 * SECONDS)] * (len(drawn) - 1) + [int(1000 * LAST_SECONDS)]
    try:
        drawn[0].save(path, format="GIF", save_all=True, append_images=drawn[1:], duration=times, loop=0)
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be written: {error.strerror or error}", exit_code=1) from error


def _palette() -> Image:
    """An image with the colours of every frame: those of the heat map, greys, and shades of the outlines."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb
    from PIL import Image

    outline = to_rgb(IDEAL)
    colours = [colormaps[HEAT](place / 159)[:3] for place in range(160)]
    colours += [3 * (place / 63,) for place in range(64)]
    colours += [tuple(1 - place / 16 * (1 - part) for part in outline) for place in range(1, 17)]
    colours += [tuple(place / 16 * part for part in outline) for place in range(1, 17)]
    made = Image.new("P", (1, 1))
    made.putpalette([round(255 * part) for colour in colours for part in colour])
    return made


def _frame(step: int, maps: Sequence[AttentionMap], ideal: bool) -> Image:
    from PIL import Image

    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a character that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        frame_figure(step, maps, ideal=ideal).savefig(buffer, format="png", dpi=DPI)
    return Image.open(buffer).convert("RGB")
