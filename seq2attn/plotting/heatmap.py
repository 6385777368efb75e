"""Attention in the terminal: one row per output token, one column per source token. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import set_cell_size
from rich.text import Text

from seq2attn.plotting.symbols import on_its_own

if TYPE_CHECKING:
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
_LABEL = {"<eos>": "$", "<pad>": "0", "<sos>": "^", " ": "_"}


def heat_map(shown: AttentionMap, console: Console) -> Text | None:
    """The weights as coloured cells, or as shades of ASCII where there are too few colours.

    None where there are more columns than the console has.
    """
    if 2 * len(shown.source_symbols) + 4 > console.width:
        return None
    text = Text("    ")
    text.append("".join(map(_label, shown.source_symbols)).rstrip(), style="bold")
    for symbol, row in zip(shown.output_symbols, shown.weights, strict=True):
        text.append("\n  ")
        text.append(_label(symbol), style="bold")
        for weight in row:
            text.append(*_cell(weight, console))
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


def _label(symbol: str) -> str:
    """A symbol, two cells wide as the map's columns are: some characters take both."""
    return set_cell_size(_LABEL.get(symbol, on_its_own(symbol)), 2)


def _colours(console: Console) -> str | None:
    """`truecolor` or `256`; None where there are fewer: 16 are too few, and a theme may change them."""
    usable = console.color_system in ("256", "truecolor") and not console.no_color
    return console.color_system if usable else None


def _cell(weight: float, console: Console) -> tuple[str, str]:
    """A weight as text two cells wide, and its style."""
    colours = _colours(console)
    if colours == "truecolor":
        return "  ", f"on rgb({','.join(map(str, _colour(weight)))})"
    steps = _RAMP_OF_256 if colours else _SHADES
    step = steps[max(0, min(len(steps) - 1, int(weight * len(steps))))]
    return ("  ", f"on color({step})") if colours else (2 * str(step), "")


def _colour(weight: float) -> tuple[int, ...]:
    """The colour of a weight where all colours can be shown."""
    place = max(0.0, min(1.0, weight)) * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    share = place - low
    return tuple(round(a + share * (b - a)) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True))
