"""Tables and attention maps as HTML without scripts, for notebooks. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from seq2attn.plotting.heatmap import colour
from seq2attn.plotting.symbols import on_its_own

if TYPE_CHECKING:
    from seq2attn.inference.maps import AttentionMap

LARGEST_CELL, SMALLEST_LABELLED, WIDEST, MOST_CELLS = 28, 9, 640, 20_000  # pixels; cells of a map
_LABEL = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"}


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is a heading."""
    head = "".join(f'<th style="text-align:left">{escape(one)}</th>' for one in header)
    body = "".join(
        f'<tr><th style="text-align:left">{escape(first)}</th>'
        + "".join(f'<td style="text-align:left">{escape(one)}</td>' for one in others)
        + "</tr>"
        for first, *others in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_map(one: AttentionMap, note: str = "") -> str:
    """The source and its output, with a `note` behind it, above the heat map as inline SVG.

    A cell's tooltip is its weight.
    """
    title = f"{escape(one.source)} → {escape(one.output)}{escape(note)}"
    columns, rows = len(one.source_symbols), len(one.output_symbols)
    drawing = _svg(one) if columns * rows <= MOST_CELLS else f"<em>a map of {rows:,} x {columns:,} cells</em>"
    return (
        f'<div style="display:inline-block;margin:4px 20px 8px 0;vertical-align:top"><div>{title}</div>{drawing}</div>'
    )


def _svg(one: AttentionMap) -> str:
    columns, rows = [list(map(_label, symbols)) for symbols in (one.source_symbols, one.output_symbols)]
    cell = min(LARGEST_CELL, WIDEST / len(columns))
    labelled = cell >= SMALLEST_LABELLED
    text = min(13.0, 0.62 * cell)
    upright = max(map(len, columns)) > 2
    left, top = (
        8 + 0.65 * text * longest if labelled else 0 for longest in (max(map(len, rows)), _side(columns, upright))
    )
    names = [[f"{escape(symbol)} ({place})" for place, symbol in enumerate(labels)] for labels in (rows, columns)]
    size = f'width="{cell + 0.3:.1f}" height="{cell + 0.3:.1f}"'
    parts = [
        f'<rect x="{left + j * cell:.1f}" y="{top + t * cell:.1f}" {size} fill="rgb{colour(weight)}">'
        f"<title>{names[0][t]} to {names[1][j]}: {weight:.3f}</title></rect>"
        for t, weights in enumerate(one.weights)
        for j, weight in enumerate(weights)
    ]
    for j, label in enumerate(columns if labelled else ()):
        x, y = left + (j + 0.5) * cell, top - 5
        place = f'transform="translate({x + 0.3 * text:.1f} {y}) rotate(-90)"' if upright else f'x="{x:.1f}" y="{y}"'
        parts.append(f'<text {place} text-anchor="{"start" if upright else "middle"}">{escape(label)}</text>')
    for t, label in enumerate(rows if labelled else ()):
        y = top + (t + 0.5) * cell + 0.35 * text
        parts.append(f'<text x="{left - 5:.1f}" y="{y:.1f}" text-anchor="end">{escape(label)}</text>')
    width, height = left + cell * len(columns) + 1, top + cell * len(rows) + 1
    style = f"max-width:100%;height:auto;font:{text:.1f}px monospace;fill:currentColor"
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}" style="{style}" role="img" '
        f'aria-label="attention">{"".join(parts)}</svg>'
    )


def _side(labels: Sequence[str], upright: bool) -> float:
    """Characters that the labels of columns are high."""
    return max(map(len, labels)) if upright else 1.6


def _label(symbol: str) -> str:
    return _LABEL.get(symbol, on_its_own(symbol))
