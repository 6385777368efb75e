"""Attention through training as an animated GIF."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import Seq2AttnError
from seq2attn.plotting.attention import IDEAL, frame_figure
from seq2attn.plotting.style import HEAT, render

if TYPE_CHECKING:
    from PIL.Image import Image

    from seq2attn.inference.maps import AttentionMap

DPI = 100
SECONDS, LAST_SECONDS = 0.6, 2.0  # each frame, and the last


def save_animation(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], path: Path, *, ideal: bool = False) -> None:
    """Write a GIF of the maps, one frame per step, repeated endlessly."""
    palette = _palette()
    frames = (render(frame_figure(step, maps, ideal=ideal), "png", DPI) for step, maps in snapshots)
    drawn = [_in_palette(frame, palette) for frame in frames]
    times = [int(1000 * SECONDS)] * (len(drawn) - 1) + [int(1000 * LAST_SECONDS)]
    try:
        drawn[0].save(path, format="GIF", save_all=True, append_images=drawn[1:], duration=times, loop=0)
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be written: {error.strerror or error}", exit_code=1) from error


def _palette() -> NDArray[np.uint8]:
    """The colours of every frame: heat map, greys, and shades of the outlines; few, so that the file is small. (64, 3)"""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    outline, share = np.array(to_rgb(IDEAL)), np.linspace(0, 1, 4)[:, None]
    heat = colormaps[HEAT](np.linspace(0, 1, 40))[:, :3]
    greys = np.linspace(0, 1, 16)[:, None].repeat(3, axis=1)
    return np.round(255 * np.concatenate([heat, greys, 1 - share * (1 - outline), share * outline])).astype(np.uint8)


def _in_palette(png: BytesIO, palette: NDArray[np.uint8]) -> Image:
    """The image with each pixel's nearest colour."""
    from PIL import Image

    frame = np.asarray(Image.open(png).convert("RGB"))  # (H, W, 3)
    colours, places = np.unique(frame.reshape(-1, 3), axis=0, return_inverse=True)
    distances = np.square(colours[:, None].astype(np.int32) - palette[None]).sum(axis=2)  # (colours, 64)
    nearest = distances.argmin(axis=1).astype(np.uint8)
    made = Image.fromarray(nearest[places].reshape(frame.shape[:2]), mode="P")
    made.putpalette(palette.tobytes())
    return made
