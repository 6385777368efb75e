"""How an analysis shows its rows: to people, to programs, as JSON, as a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.cli.output import note, on_terminal, print_table, write_line, write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def finish(
    result: Any, columns: Mapping[str, str], headers: Sequence[str], *, as_json: bool, plot: Path | None
) -> None:
    """Print `result.rows`: for people, for programs in a pipe, or as JSON; and draw the figure.

    columns: each field with its format; a field whose header is empty is for programs alone.
    """
    if as_json:
        write_line(json.dumps(result.to_json(), indent=2))
    elif on_terminal():
        pairs = zip(headers, columns.items(), strict=True)
        shown = [(header, name, how) for header, (name, how) in pairs if header]
        rows = [[_for_people(getattr(row, name), how) for _, name, how in shown] for row in result.rows]
        right = [header for header, _, how in shown if how not in ("", "yes")]
        print_table([header for header, _, _ in shown], rows, right=right)
    else:
        write_rows(list(columns), [[_for_programs(getattr(row, name)) for name in columns] for row in result.rows])
    save(result, plot)


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
    figure: Figure = draw(result)
    save_figure(figure, plot)
    note(f"figure: {plot}")
