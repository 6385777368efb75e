"""The output of an analysis: a table on a terminal, tab-separated lines in a pipe, JSON, or a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.cli import options
from seq2attn.cli.output import note, on_terminal, print_table, stdout, write_json, write_rows
from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from seq2attn.analysis.masks import Mask, Masks


def print_result(
    result: Any,
    columns: Mapping[str, str],
    headings: Sequence[str],
    about: str = "",
    *,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print `result.rows` and draw the figure.

    columns: field -> format. A field with an empty heading is not shown on a terminal. about: a note below the rows.
    """
    if as_json:
        write_json(asdict(result))
    elif on_terminal():
        shown = [(heading, *column) for heading, column in zip(headings, columns.items(), strict=True) if heading]
        cells = {
            heading: [_for_terminal(getattr(row, field), form) for row in result.rows] for heading, field, form in shown
        }
        print_table(cells, right=[heading for heading, _, form in shown if form not in ("", "yes")])
    else:
        write_rows(list(columns), [[_for_pipe(getattr(row, field)) for field in columns] for row in result.rows])
    save_figure(result, plot)
    if about and not as_json:
        note(about)


def _for_terminal(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, tuple):
        return "  ".join(format(one, form) for one in value[:4]) + (" …" if len(value) > 4 else "")
    return format(value, form)


def _for_pipe(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(_for_pipe, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def save_figure(result: Any, plot: Path | None) -> None:
    """Draw the figure of a result if there is a file for it."""
    if plot is not None:
        from seq2attn.plotting import analysis

        draw = getattr(analysis, f"{type(result).__name__.lower()}_figure")
        options.save_figure(draw(result), plot)


def print_masks(result: Masks) -> None:
    """Print window masks as heat maps or, in a pipe, one line for each output position."""
    if not on_terminal():
        header = ("mask", "t", "centre", "first", "last", "positions", "factors")
        write_rows(header, (row for mask in result.masks for row in _mask_rows(mask)))
        return
    from seq2attn.inference.maps import AttentionMap
    from seq2attn.plotting.heatmap import heat_map

    console = stdout()
    positions = tuple(str(j % 10) for j in range(result.source))
    steps = tuple(str(t % 10) for t in range(result.target))
    for mask in result.masks:
        console.print(mask.kind, style="bold")
        drawn = heat_map(AttentionMap("", "", positions, steps, mask.factors), console)
        if drawn is None:
            hint = "Draw a figure with --plot FILE, or use a pipe."
            raise Seq2AttnError(f"{result.source} columns do not fit in this terminal", hint=hint)
        console.print(drawn)
    console.print("    rows: output positions, columns: source positions, bright: allowed", style="dim")


def _mask_rows(mask: Mask) -> Iterable[list[str]]:
    for t, factors in enumerate(mask.factors):
        inside = [j for j, factor in enumerate(factors) if factor > 0]
        ends = [str(inside[0]), str(inside[-1])] if inside else ["", ""]
        centre = "" if mask.centres is None else f"{mask.centres[t]:.6g}"
        yield [mask.kind, str(t), centre, *ends, str(len(inside)), _for_pipe(factors)]
