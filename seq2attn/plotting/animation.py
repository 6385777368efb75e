"""Attention through training as an animated GIF."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError
from seq2attn.plotting.attention import frame_figure

if TYPE_CHECKING:
    from PIL.Image import Image

    from seq2attn.maps import AttentionMap

DPI = 100
COLOURS = 128
SECONDS, LAST_SECONDS = 0.6, 2.0  # each frame, and the last


def save_animation(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], path: Path, *, ideal: bool = False) -> None:
    """Write a GIF of the maps, a frame a step, that plays for ever."""
    from PIL.Image import Dither

    frames = [_frame(step, maps, ideal) for step, maps in snapshots]
    palette = _palette(frames[-1])
    drawn = [frame.quantize(palette=palette, dither=Dither.NONE) for frame in frames]
    times = [int(1000 * SECONDS)] * (len(drawn) - 1) + [int(1000 * LAST_SECONDS)]
    try:
        drawn[0].save(path, format="GIF", save_all=True, append_images=drawn[1:], duration=times, loop=0)
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be written: {error.strerror or error}", exit_code=1) from error


def _palette(frame: Image) -> Image:
    """An image with the colours of all frames: those of `frame`, the lightest made white."""
    chosen = frame.quantize(COLOURS)
    colours = chosen.getpalette() or []
    lightest = max(range(0, len(colours), 3), key=lambda place: sum(colours[place : place + 3]))
    chosen.putpalette([*colours[:lightest], 255, 255, 255, *colours[lightest + 3 :]])
    return chosen


def _frame(step: int, maps: Sequence[AttentionMap], ideal: bool) -> Image:
    from PIL import Image

    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a character that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        frame_figure(step, maps, ideal=ideal).savefig(buffer, format="png", dpi=DPI)
    return Image.open(buffer).convert("RGB")
