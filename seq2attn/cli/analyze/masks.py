"""`seq2attn analyze masks`"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import check_plot
from seq2attn.cli.analyze.output import save
from seq2attn.cli.output import on_terminal, stdout, write_line, write_rows
from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from seq2attn.analysis.masks import Mask, Masks


def masks(
    source: Annotated[int, typer.Option("--source", "-S", min=1, max=200, help="S, source positions.")] = 12,
    target: Annotated[int, typer.Option("--target", "-L", min=1, max=200, help="L, output positions.")] = 12,
    radius: Annotated[int, typer.Option("--radius", "-R", min=0, max=200, help="R; windows hold 2R+1.")] = 2,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """Windows of attention as pictures: which source positions each output position may attend to.

    global: all. monotonic and reversed (local_m): [p_t - R, p_t + R] with p_t = t and p_t = S-1-t. local_p: the same
    window around a learned centre, its weights multiplied by a Gaussian of standard deviation R/2; the picture's
    centres sweep from the last position to the first.

    Examples:

      seq2attn analyze masks

      seq2attn analyze masks --source 20 --target 20 --radius 4 --plot masks.svg
    """
    check_plot(plot)
    from seq2attn.analysis.masks import window_masks

    result = window_masks(source, target, radius)
    if as_json:
        write_line(json.dumps(asdict(result), indent=2))
    elif on_terminal():
        _show_masks(result)
    else:
        header = ("mask", "t", "centre", "first", "last", "positions", "factors")
        write_rows(header, (row for mask in result.masks for row in _mask_rows(mask)))
    save(result, plot)


def _show_masks(result: Masks) -> None:
    from seq2attn.inference.maps import AttentionMap
    from seq2attn.plotting.heatmap import heat_map

    console = stdout()
    positions = tuple(str(j % 10) for j in range(result.source))
    steps = tuple(str(t % 10) for t in range(result.target))
    for mask in result.masks:
        console.print(mask.kind, style="bold")
        drawn = heat_map(AttentionMap("", "", positions, steps, mask.factors), console)
        if drawn is None:
            raise Seq2AttnError(
                f"{result.source} columns do not fit in this terminal", hint="Draw it: --plot FILE; or pipe it."
            )
        console.print(drawn)
    console.print("    rows: output positions, columns: source positions, bright: allowed", style="dim")


def _mask_rows(mask: Mask) -> Iterable[list[str]]:
    for t, factors in enumerate(mask.factors):
        inside = [j for j, factor in enumerate(factors) if factor > 0]
        ends = [str(inside[0]), str(inside[-1])] if inside else ["", ""]
        centre = "" if mask.centres is None else f"{mask.centres[t]:.6g}"
        yield [mask.kind, str(t), centre, *ends, str(len(inside)), ",".join(f"{factor:.6g}" for factor in factors)]
