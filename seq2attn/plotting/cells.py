"""Attention as coloured cells, a row per output token and a column per source token: in the
terminal, and as HTML without scripts for notebooks and the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from seq2attn.display.signs import explain_signs, isolate_direction, sign, weight_colour
from seq2attn.results.answers import AttentionMap

if TYPE_CHECKING:
    from rich.console import Console

WIDEST_LABEL = 8  # cells of the terminal; longer labels are cut
MOST_CELLS = 20_000  # of a map in HTML


def heat_map(attention: AttentionMap, console: Console, *, digits: bool = False) -> Text | None:
    """Return the weights as coloured cells, with digits if these are wanted or the terminal has too
    few colours; None if the map is wider than the terminal.
    """
    columns = _labels(attention.source_symbols, console)
    rows = _labels(attention.output_symbols, console)
    width = cell_len(columns[0])  # of each column, in cells of the terminal
    margin = cell_len(rows[0]) + 2  # the label of a row, between two blanks
    # in a file, lines may have any width
    if console.is_terminal and width * len(columns) + margin > console.width:
        return None
    coloured = _has_colours(console)
    digits = digits or not coloured

    text = Text(" " * margin)
    text.append("".join(columns).rstrip(), style="bold")
    for label, weights in zip(rows, attention.weights, strict=True):
        text.append(f"\n {label} ", style="bold")
        for weight in weights:
            # a digit from 1 to 9, which is also that of 1.0; a point for less than a tenth
            tenths = str(min(9, int(10 * weight)) or ".") if digits else ""
            style = f"on {weight_colour(weight)}"
            if digits:  # readable on a dark or bright ground
                style = f"{'white' if weight < 0.5 else 'black'} {style}"
            text.append(tenths.ljust(width), style=style if coloured else "")
    return text


def legend(attention: AttentionMap, console: Console, *, digits: bool = False) -> str:
    """Return the key to a `heat_map`: what rows, columns, signs, colours and digits mean."""
    symbols = {*attention.source_symbols, *attention.output_symbols}
    notes = ["rows: output", "columns: source"]
    notes += explain_signs(symbols, plain=_is_plain(console))
    coloured = _has_colours(console)
    if coloured:
        notes.append("bright: attended to")
    if digits or not coloured:
        notes.append("digits: tenths of the weight")
    return ", ".join(notes)


def _has_colours(console: Console) -> bool:
    """Return False for 16 colours, too, which are too few and which a theme may change. From 256,
    Rich takes the nearest.
    """
    return console.color_system in ("256", "truecolor") and not console.no_color


def _is_plain(console: Console) -> bool:
    """Return True for a terminal that may lack the signs of figures and pages."""
    return not console.encoding.startswith("utf")


def _labels(symbols: Sequence[str], console: Console) -> list[str]:
    """Return symbols as labels of equal width in cells of the terminal: two if all are characters,
    since some characters take both; more if there are longer symbols, up to `WIDEST_LABEL`.
    """
    plain = _is_plain(console)
    labels = [sign(symbol, plain=plain) for symbol in symbols]
    widest = max(map(cell_len, labels))
    width = 2 if widest <= 2 else min(WIDEST_LABEL, widest + 1)  # + 1: a blank behind a longer one
    for index, label in enumerate(labels):
        if cell_len(label) > width:  # it is cut, so that … and a blank still fit
            label = f"{set_cell_size(label, width - 2)}…"
        labels[index] = set_cell_size(label, width)
    return labels


# ---- HTML ----


def html_map(attention: AttentionMap, note: str = "") -> str:
    """Return an HTML element with the source and its output, a `note` behind them, and a table of
    coloured cells, whose tooltips have the weights. Of a map of more than `MOST_CELLS` cells, it
    has the size in place of the table.
    """
    columns = list(map(sign, attention.source_symbols))
    rows = list(map(sign, attention.output_symbols))
    title = html_title(attention.source, attention.output, note)
    style = "display:inline-block;margin:4px 20px 8px 0;vertical-align:top;max-width:100%"
    if len(columns) * len(rows) > MOST_CELLS:
        size = f"{len(rows):,} x {len(columns):,}"
        return f'<div style="{style}">{title}<em>a map of {size} cells</em></div>'

    label = "padding:1px;border:0;font:12px monospace"
    # labels of more than two letters are written downwards
    mode = "vertical-rl" if max(map(len, columns)) > 2 else "horizontal-tb"
    cell = "padding:0;border:0;min-width:20px;height:20px"

    # the row of the columns' labels; without the stripes that notebooks give the rows of a table
    html = '<tr style="background:none"><th></th>'
    for column in columns:
        html += f'<th style="{label};text-align:center;writing-mode:{mode}">{escape(column)}</th>'
    for t, weights in enumerate(attention.weights):
        html += f'</tr><tr style="background:none"><th style="{label};text-align:right">'
        html += f"{escape(rows[t])}</th>"
        for j, weight in enumerate(weights):
            tooltip = escape(f"{rows[t]} ({t}) to {columns[j]} ({j}): {weight:.3f}")
            ground = f"background:{weight_colour(weight)}"
            html += f'<td title="{tooltip}" style="{cell};{ground}"></td>'
    table = f'<table style="border-collapse:collapse">{html}</tr></table>'
    return f'<div style="{style};overflow-x:auto">{title}{table}</div>'


def html_title(source: str, output: str, note: str) -> str:
    """Return an element that names a source and its output, with a `note` behind them."""
    text = f"{isolate_direction(source)} → {isolate_direction(output)}{note}"
    return f"<div>{escape(text)}</div>"
