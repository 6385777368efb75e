"""The output of an analysis: a table for people, rows for programs, JSON, a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seq2attn.cli.output import note, on_terminal, print_table, write_line, write_rows


def finish(
    result: Any, columns: Sequence[tuple[str, str, str]], *, as_json: bool, plot: Path | None, notes: Sequence[str] = ()
) -> None:
    """Print `result.rows`: for people, for programs in a pipe, or as JSON; draw the figure; then the notes.

    columns: field, header and format of each; without a header a column is for programs alone.
    """
    if as_json:
        write_line(json.dumps(asdict(result), indent=2))
    elif on_terminal():
        shown = [column for column in columns if column[1]]
        rows = [[_for_people(getattr(row, name), how) for name, _, how in shown] for row in result.rows]
        right = [header for _, header, how in shown if how not in ("", "yes")]
        print_table([header for _, header, _ in shown], rows, right=right)
    else:
        names = [name for name, _, _ in columns]
        write_rows(names, [[_for_programs(getattr(row, name)) for name in names] for row in result.rows])
    save(result, plot)
    for text in () if as_json else notes:
        note(text)


def _for_people(value: Any, how: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, tuple):
        shown_first = "  ".join(format(one, how) for one in value[:4])
        return shown_first + (" …" if len(value) > 4 else "")
    return format(value, how)


def _for_programs(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(_for_programs, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def save(result: Any, plot: Path | None) -> None:
    """Draw the figure of a result, where one is wanted."""
    if plot is None:
        return
    from seq2attn.plotting import analysis
    from seq2attn.plotting.style import save_figure

    draw = getattr(analysis, f"{type(result).__name__.lower()}_figure")
    save_figure(draw(result), plot)
    note(f"figure: {plot}")
