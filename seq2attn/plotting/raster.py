"""An attention map as a small image without matplotlib's layout: a figure takes fifty times as long to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2attn.plotting.attention import SIGNS
from seq2attn.plotting.heatmap import colour
from seq2attn.plotting.symbols import drawable, drawable_text, font_file

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

    from seq2attn.inference.maps import AttentionMap

# pixels
CELL, MARGIN, CAPTION, TEXT = 24, 8, 26, 14
WIDEST_CAPTION = 40  # characters
GREY = (90, 90, 90)


def map_image(one: AttentionMap) -> Image:
    """Rows are output tokens, columns source tokens, under the source and its output."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(font_file(), TEXT)
    rows, columns = _labels(one.output_symbols), _labels(one.source_symbols)
    longest = max(map(font.getlength, columns))
    upright = longest > CELL
    caption = f"{drawable_text(one.source)} → {drawable_text(one.output)}"
    caption = caption if len(caption) <= WIDEST_CAPTION else f"{caption[: WIDEST_CAPTION - 1]}…"
    left = 2 * MARGIN + int(max(map(font.getlength, rows)))
    top = MARGIN + CAPTION + (int(longest) if upright else CELL - MARGIN)
    width = max(left + CELL * len(columns), MARGIN + int(font.getlength(caption))) + MARGIN
    image = Image.new("RGB", (width, top + CELL * len(rows) + MARGIN), "white")
    draw = ImageDraw.Draw(image)
    draw.text((MARGIN, MARGIN), caption, "black", font)
    for place, label in enumerate(columns):
        centre = left + CELL * place + CELL // 2
        if upright:
            image.paste(_turned(label, font), (centre - TEXT // 2 - 1, top - 2 - int(font.getlength(label))))
        else:
            draw.text((centre, top - 4), label, GREY, font, anchor="ms")
    for place, (label, weights) in enumerate(zip(rows, one.weights, strict=True)):
        y = top + CELL * place
        draw.text((left - MARGIN, y + CELL // 2), label, GREY, font, anchor="rm")
        for column, weight in enumerate(weights):
            x = left + CELL * column
            draw.rectangle((x, y, x + CELL - 1, y + CELL - 1), colour(weight))
    return image


def _labels(symbols: Sequence[str]) -> list[str]:
    return [SIGNS.get(symbol) or drawable(symbol).replace("\n", "") for symbol in symbols]


def _turned(label: str, font: FreeTypeFont) -> Image:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (int(font.getlength(label)) + 1, TEXT + 4), "white")
    ImageDraw.Draw(image).text((0, 0), label, GREY, font)
    return image.transpose(Image.Transpose.ROTATE_90)
