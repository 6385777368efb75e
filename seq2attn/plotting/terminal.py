"""Attention in the terminal: one row per output token, one column per source token. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from seq2attn.inference.maps import AttentionMap, colour
from seq2attn.plotting.style import sign

if TYPE_CHECKING:
    from rich.console import Console

_SHADES = " .:~*+o%#@"  # by the area that is drawn, in a font such as DejaVu Sans Mono
_WIDEST = 8  # cells of a label; longer ones are cut
_SIGNS = {"<eos>": "$", "<pad>": "0", "<sos>": "^", " ": "_"}  # every terminal has these


def heat_map(shown: AttentionMap, console: Console) -> Text | None:
    """The weights as coloured cells, or as shades of ASCII where there are too few colours.

    None where there are more columns than the console has.
    """
    column, margin = _width(shown.source_symbols), _width(shown.output_symbols) + 2
    if column * len(shown.source_symbols) + margin > console.width:
        return None
    text = Text(" " * margin)
    text.append("".join(_label(symbol, column) for symbol in shown.source_symbols).rstrip(), style="bold")
    for symbol, row in zip(shown.output_symbols, shown.weights, strict=True):
        text.append("\n  ")
        text.append(_label(symbol, margin - 2), style="bold")
        for weight in row:
            if _has_colours(console):
                text.append(" " * column, style=f"on rgb({','.join(map(str, colour(weight)))})")
            else:
                text.append(column * _SHADES[max(0, min(len(_SHADES) - 1, int(weight * len(_SHADES))))])
    return text


def legend(shown: AttentionMap, console: Console) -> str:
    """The meaning of the map's signs."""
    used = {*shown.source_symbols, *shown.output_symbols}
    notes = [meaning for symbol, meaning in {"<eos>": "$ <eos>", " ": "_ space"}.items() if symbol in used]
    large = "bright" if _has_colours(console) else "dense"
    return ", ".join(["rows: output", "columns: source", *notes, f"{large}: attended to"])


def _has_colours(console: Console) -> bool:
    """16 are too few, and a theme may change them; from 256 Rich takes the nearest."""
    return console.color_system in ("256", "truecolor") and not console.no_color


def _width(symbols: Sequence[str]) -> int:
    """The cells that labels need: two for characters, some of which take both; one more than the widest longer symbol."""
    widest = max(cell_len(_text(symbol)) for symbol in symbols)
    return 2 if widest <= 2 else min(_WIDEST, widest + 1)


def _label(symbol: str, width: int) -> str:
    """A symbol as a label of this many cells."""
    label = _text(symbol)
    return set_cell_size(label if cell_len(label) <= width else f"{set_cell_size(label, width - 2)}… ", width)


def _text(symbol: str) -> str:
    return _SIGNS.get(symbol) or sign(symbol)
