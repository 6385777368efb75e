"""Attention in the terminal: one row per output token, one column per source token. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from seq2attn.plotting.symbols import on_its_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from seq2attn.inference.maps import AttentionMap

# cividis at 0, 1/8, ..., 1
_RAMP = (
    (0, 34, 78), (26, 56, 111), (67, 78, 108), (97, 101, 111), (125, 124, 120),
    (155, 148, 118), (188, 174, 108), (222, 201, 88), (254, 232, 56),
)  # fmt: skip
# the same way from blue to yellow in the fixed colours of a terminal that has 256, in even steps of lightness
_RAMP_OF_256 = (17, 19, 60, 102, 144, 186, 227)
_SHADES = " .:~*+o%#@"  # by the area that is drawn, in a font such as DejaVu Sans Mono
_WIDEST = 8  # cells of a label; longer ones are cut
_LABEL = {"<eos>": "$", "<pad>": "0", "<sos>": "^", " ": "_"}


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
            text.append(*_cell(weight, column, console))
    return text


def legend(shown: AttentionMap, console: Console) -> str:
    """The meaning of the map's signs."""
    signs = {"<eos>": "$ <eos>", " ": "_ space"}
    used = {*shown.source_symbols, *shown.output_symbols}
    notes = [meaning for symbol, meaning in signs.items() if symbol in used]
    return ", ".join(["rows: output", "columns: source", *notes, f"{large_weights(console)}: attended to"])


def large_weights(console: Console) -> str:
    """How a map shows large weights: bright, or as dense characters."""
    return "bright" if _colours(console) else "dense"


def _width(symbols: Sequence[str]) -> int:
    """The cells that labels need: two for characters, some of which take both; one more than the widest longer symbol."""
    widest = max(cell_len(_text(symbol)) for symbol in symbols)
    return 2 if widest <= 2 else min(_WIDEST, widest + 1)


def _label(symbol: str, width: int) -> str:
    """A symbol as a label of this many cells."""
    label = _text(symbol)
    return set_cell_size(label if cell_len(label) <= width else f"{set_cell_size(label, width - 2)}… ", width)


def _text(symbol: str) -> str:
    return _LABEL.get(symbol, on_its_own(symbol))


def _colours(console: Console) -> str | None:
    """`truecolor` or `256`; None where there are fewer: 16 are too few, and a theme may change them."""
    usable = console.color_system in ("256", "truecolor") and not console.no_color
    return console.color_system if usable else None


def _cell(weight: float, width: int, console: Console) -> tuple[str, str]:
    """A weight as text of this many cells, and its style."""
    colours = _colours(console)
    if colours == "truecolor":
        return " " * width, f"on rgb({','.join(map(str, colour(weight)))})"
    steps = _RAMP_OF_256 if colours else _SHADES
    step = steps[max(0, min(len(steps) - 1, int(weight * len(steps))))]
    return (" " * width, f"on color({step})") if colours else (width * str(step), "")


def colour(weight: float) -> tuple[int, int, int]:
    """The colour of a weight, red, green and blue from 0 to 255."""
    place = max(0.0, min(1.0, weight)) * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    share = place - low
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True))
    return red, green, blue
