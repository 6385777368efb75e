"""What the analyses share: options and how their values are read, then the output of results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli import completion, options
from seq2attn.cli.output import note, on_terminal, print_table, stdout, write_json, write_rows
from seq2attn.errors import Seq2AttnError, shown

if TYPE_CHECKING:
    from seq2attn.analysis.masks import Mask, Masks

MAX_WIDTH = 65_536
MAX_KEYS = 4_096

Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="NAME...",
        help="Score functions; `seq2attn list scores` shows them.",
        autocompletion=completion.scores,
    ),
]
Widths = Annotated[list[str] | None, typer.Option("--widths", metavar="D...", help="Widths of queries and keys.")]
Samples = Annotated[int, typer.Option("--samples", metavar="N", min=2, max=10**7, help="Random draws.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Random seed.")]
Keys = Annotated[int, typer.Option("--keys", "-S", metavar="N", min=1, max=MAX_KEYS, help="S, number of keys.")]
Batch = Annotated[int, typer.Option("--batch", "-B", metavar="N", min=1, max=2**20, help="B, sequences.")]
Source = Annotated[
    int, typer.Option("--source", "-S", metavar="N", min=1, max=10**6, help="S, keys of each: source positions.")
]
Target = Annotated[
    int, typer.Option("--target", "-L", metavar="N", min=1, max=10**6, help="L, queries of each: output positions.")
]
Width = Annotated[
    int, typer.Option("--width", "-D", metavar="N", min=1, max=MAX_WIDTH, help="D, width of queries and keys.")
]


def read_scores_and_widths(
    scores: list[str] | None,
    widths: list[str] | None,
    plugins: list[Path] | None,
    default_scores: str,
    default_widths: str,
) -> tuple[list[str], list[int]]:
    """Load plug-ins, then read the names of scores and the widths."""
    options.load_plugins(plugins)
    names = score_names(scores, default_scores)
    sizes = whole_numbers("--widths", widths, default_widths, MAX_WIDTH)
    use_one_thread()
    return names, sizes


def use_one_thread() -> None:
    """Limit torch to one thread: the tensors are small, and sums are reproducible on machines of the same kind."""
    import torch

    torch.set_num_threads(1)


def score_names(values: list[str] | None, default: str) -> list[str]:
    """The distinct names of `--scores`, with synonyms resolved."""
    names = [parts.SCORES.get(word).name for word in _words(values, default)]
    if "none" in names:
        raise Seq2AttnError("--scores: 'none' has no score function; leave it out")
    return list(dict.fromkeys(names))


def whole_numbers(option: str, values: list[str] | None, default: str, highest: int) -> list[int]:
    """The distinct values of an option that takes several whole numbers."""
    words = _words(values, default)
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 10 and 1 <= int(word) <= highest):
            raise Seq2AttnError(f"{option}: {shown(word)} is not allowed; allowed: whole numbers from 1 to {highest:,}")
    return list(dict.fromkeys(map(int, words)))


def real_numbers(option: str, values: list[str] | None, default: str) -> list[float]:
    """The distinct values of an option that takes several numbers."""
    numbers = []
    for word in _words(values, default):
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not 1e-6 <= number <= 1e6:
            raise Seq2AttnError(f"{option}: {shown(word)} is not allowed; allowed: numbers from 1e-6 to 1e6")
        numbers.append(number)
    return list(dict.fromkeys(numbers))


def _words(values: list[str] | None, default: str) -> list[str]:
    words = [word for part in values or [] for word in part.split(",") if word]
    return words or default.split()


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
        visible = [(heading, *column) for heading, column in zip(headings, columns.items(), strict=True) if heading]
        cells = {
            heading: [_for_terminal(getattr(row, field), form) for row in result.rows]
            for heading, field, form in visible
        }
        print_table(cells, right=[heading for heading, _, form in visible if form not in ("", "yes")])
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


def print_masks(result: Masks, *, as_json: bool) -> None:
    """Print window masks as heat maps or, in a pipe, one line for each output position."""
    if as_json:
        write_json(asdict(result))
        return
    if not on_terminal():
        header = ("mask", "t", "centre", "first", "last", "positions", "factors")
        write_rows(header, (row for mask in result.masks for row in _mask_rows(mask)))
        return
    from seq2attn.inference.maps import AttentionMap
    from seq2attn.plotting.terminal import heat_map, large_weights

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
    console.print(
        f"    rows: output positions, columns: source positions, {large_weights(console)}: allowed", style="dim"
    )


def _mask_rows(mask: Mask) -> Iterable[list[str]]:
    for t, factors in enumerate(mask.factors):
        inside = [j for j, factor in enumerate(factors) if factor > 0]
        ends = [str(inside[0]), str(inside[-1])] if inside else ["", ""]
        centre = "" if mask.centres is None else f"{mask.centres[t]:.6g}"
        yield [mask.kind, str(t), centre, *ends, str(len(inside)), _for_pipe(factors)]
