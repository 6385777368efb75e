"""Attention maps as HTML without scripts, for notebooks and the report. Imports nothing heavy."""

from __future__ import annotations

from html import escape

from seq2attn.inference.maps import AttentionMap, colour
from seq2attn.plotting.style import sign

LARGEST_CELL, SMALLEST_LABELLED, WIDEST, MOST_CELLS = 28, 9, 640, 20_000  # pixels; cells of a map


def html_map(one: AttentionMap, note: str = "") -> str:
    """The source and its output, with a `note` behind it, above the heat map as inline SVG."""
    columns, rows = len(one.source_symbols), len(one.output_symbols)
    drawing = _svg(one) if columns * rows <= MOST_CELLS else f"<em>a map of {rows:,} x {columns:,} cells</em>"
    style = "display:inline-block;margin:4px 20px 8px 0;vertical-align:top"
    return f'<div style="{style}"><div>{escape(one.source)} → {escape(one.output)}{escape(note)}</div>{drawing}</div>'


def _svg(one: AttentionMap) -> str:
    """The heat map alone; a cell's tooltip is its weight."""
    columns, rows = [list(map(sign, symbols)) for symbols in (one.source_symbols, one.output_symbols)]
    cell = min(LARGEST_CELL, WIDEST / len(columns))
    text, labelled = min(13.0, 0.62 * cell), cell >= SMALLEST_LABELLED
    upright = max(map(len, columns)) > 2
    left = (8 + 0.65 * text * max(map(len, rows))) * labelled
    top = (8 + 0.65 * text * (max(map(len, columns)) if upright else 1.6)) * labelled
    parts = [
        f'<rect x="{left + j * cell:.1f}" y="{top + t * cell:.1f}" width="{cell + 0.3:.1f}" height="{cell + 0.3:.1f}" '
        f'fill="rgb{colour(weight)}"><title>{escape(f"{row} ({t}) to {column} ({j})")}: {weight:.3f}</title></rect>'
        for t, (row, weights) in enumerate(zip(rows, one.weights, strict=True))
        for j, (column, weight) in enumerate(zip(columns, weights, strict=True))
    ]
    for j, label in enumerate(columns if labelled else ()):
        x, y = left + (j + 0.5) * cell, top - 5
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})" dy=".3em"' if upright else ""
        anchor = "start" if upright else "middle"
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{turn} text-anchor="{anchor}">{escape(label)}</text>')
    for t, label in enumerate(rows if labelled else ()):
        y = top + (t + 0.5) * cell
        parts.append(f'<text x="{left - 5:.1f}" y="{y:.1f}" dy=".35em" text-anchor="end">{escape(label)}</text>')
    width, height = left + cell * len(columns) + 1, top + cell * len(rows) + 1
    style = f"max-width:100%;height:auto;font:{text:.1f}px monospace;fill:currentColor;shape-rendering:crispEdges"
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}" style="{style}" role="img" '
        f'aria-label="attention">{"".join(parts)}</svg>'
    )
