"""Characters as labels of rows and columns, whatever they are: combining marks, and characters that a font lacks."""

from __future__ import annotations

import functools
import importlib.util
import os
import unicodedata
from typing import Any

MISSING = "small digits: the code point of a character that the font lacks"


def on_its_own(symbol: str) -> str:
    """A combining mark on a dotted circle, which it would otherwise put on the character before it."""
    return f"\u25cc{symbol}" if len(symbol) == 1 and unicodedata.category(symbol).startswith("M") else symbol


def drawable(symbol: str) -> str:
    """`symbol`, or where the figures' font lacks it, its code point in two lines, as `1F` above `600`."""
    if len(symbol) != 1 or _has_glyph(symbol):
        return on_its_own(symbol)
    digits = f"{ord(symbol):04X}"
    return f"{digits[: len(digits) // 2]}\n{digits[len(digits) // 2 :]}"


def drawable_text(text: str) -> str:
    """`text` with `[U+1F600]` in place of characters that the figures' font lacks."""
    return "".join(character if _has_glyph(character) else f"[U+{ord(character):04X}]" for character in text)


def font_file() -> str:
    """The file of DejaVu Sans, which comes with matplotlib; importing that takes as long as 20 steps of training."""
    found = importlib.util.find_spec("matplotlib")
    assert found is not None, "matplotlib is a dependency"
    assert found.submodule_search_locations, "and a package"
    return os.path.join(found.submodule_search_locations[0], "mpl-data", "fonts", "ttf", "DejaVuSans.ttf")


@functools.cache
def _has_glyph(character: str) -> bool:
    return " " <= character <= "~" or any(font.get_char_index(ord(character)) for font in _fonts())


@functools.cache
def _fonts() -> tuple[Any, ...]:
    """The fonts that matplotlib looks in, in order."""
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont, get_font

    families = matplotlib.rcParams["font.family"]
    return tuple(get_font(findfont(FontProperties(family=[family]))) for family in families)
