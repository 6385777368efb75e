"""Attention as coloured cells, one row per output token, one column per source token: in the
terminal, and as HTML without scripts, for notebooks and the report. Imports neither torch nor
matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from seq2attn.inference.maps import AttentionMap, colour
from seq2attn.plotting.style import isolate_direction, sign

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 8  # cells of a label; longer ones are cut
_SIGNS = {"<eos>": "$", "<pad>": "0", "<sos>": "^", " ": "_"}  # every terminal has these
LARGEST_CELL, SMALLEST_CELL, WIDEST, MOST_CELLS = (
    28,
    4,
    640,
    20_000,
)  # in HTML: pixels; cells of a map


def heat_map(shown: AttentionMap, console: Console, *, digits: bool = False) -> Text | None:
    """The weights as coloured cells, with digits if these are wanted or there are too few colours.

    None where there are more columns than a terminal has.
    """
    columns, rows = _labels(shown.source_symbols), _labels(shown.output_symbols)
    column, margin = cell_len(columns[0]), cell_len(rows[0]) + 2
    if console.is_terminal and column * len(columns) + margin > console.width:
        return None
    text, coloured = Text(" " * margin), _has_colours(console)
    text.append("".join(columns).rstrip(), style="bold")
    for label, row in zip(rows, shown.weights, strict=True):
        text.append(f"\n {label} ", style="bold")
        for weight in row:
            tenths = min(9, int(10 * weight)) or "."
            ink = f"{'white' if weight < 0.5 else 'black'} " if digits else ""
            style = f"{ink}on rgb({','.join(map(str, colour(weight)))})" if coloured else ""
            text.append(f"{'' if coloured and not digits else tenths:<{column}}", style=style)
    return text


def legend(shown: AttentionMap, console: Console, *, digits: bool = False) -> str:
    """The meaning of the map's signs."""
    used = {*shown.source_symbols, *shown.output_symbols}
    notes = [
        meaning
        for symbol, meaning in {"<eos>": "$ <eos>", " ": "_ space"}.items()
        if symbol in used
    ]
    weights = ["bright: attended to"] if _has_colours(console) else []
    weights += ["digits: tenths of the weight"] if digits or not weights else []
    return ", ".join(["rows: output", "columns: source", *notes, *weights])


def _has_colours(console: Console) -> bool:
    """16 are too few, and a theme may change them; from 256 Rich takes the nearest."""
    return console.color_system in ("256", "truecolor") and not console.no_color


def _labels(symbols: Sequence[str]) -> list[str]:
    """Symbols as labels of equal width: two cells for characters, some of which take both; more for
    longer symbols.
    """
    texts = [_SIGNS.get(symbol) or sign(symbol) for symbol in symbols]
    widest = max(map(cell_len, texts))
    width = 2 if widest <= 2 else min(_WIDEST, widest + 1)
    cut = [
        text if cell_len(text) <= width else f"{set_cell_size(text, width - 2)}… " for text in texts
    ]
    return [set_cell_size(text, width) for text in cut]


# ---- HTML ----


def html_map(one: AttentionMap, note: str = "") -> str:
    """The source and its output, with a `note` behind it, above a table of coloured cells; a
    tooltip has the weight.
    """
    columns, rows = [
        [escape(sign(symbol)) for symbol in side]
        for side in (one.source_symbols, one.output_symbols)
    ]
    title = f"<div>{escape(f'{isolate_direction(one.source)} → {isolate_direction(one.output)}{note}')}</div>"
    outer = '<div style="display:inline-block;margin:4px 20px 8px 0;vertical-align:top;max-width:100%;overflow-x:auto">'
    if len(columns) * len(rows) > MOST_CELLS:
        return f"{outer}{title}<em>a map of {len(rows):,} x {len(columns):,} cells</em></div>"
    side = max(SMALLEST_CELL, min(LARGEST_CELL, WIDEST // len(columns)))
    text = f"padding:1px;border:0;font:{min(13, 0.62 * side):.1f}px monospace"
    turned = (
        ";writing-mode:vertical-rl"
        if max(len(sign(symbol)) for symbol in one.source_symbols) > 2
        else ""
    )
    lines = [
        "<th></th>"
        + "".join(f'<th style="{text};text-align:center{turned}">{label}</th>' for label in columns)
    ]
    for t, (row, weights) in enumerate(zip(rows, one.weights, strict=True)):
        cells = (
            f'<td title="{row} ({t}) to {column} ({j}): {weight:.3f}" style="padding:0;border:0;min-width:{side}px;'
            f'height:{side}px;background:rgb{colour(weight)}"></td>'
            for j, (column, weight) in enumerate(zip(columns, weights, strict=True))
        )
        lines.append(f'<th style="{text};text-align:right">{row}</th>{"".join(cells)}')
    table = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    return f'{outer}{title}<table style="border-collapse:collapse">{table}</table></div>'
