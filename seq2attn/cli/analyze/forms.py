"""`seq2attn analyze forms`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn import catalogue
from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import Scores, Seed, begin
from seq2attn.cli.analyze.output import finish
from seq2attn.errors import Seq2AttnError


def forms(
    scores: Scores = None,
    batch: Annotated[int, typer.Option("--batch", "-B", min=1, max=64, help="B, sequences.")] = 3,
    source: Annotated[int, typer.Option("--source", "-S", min=1, max=64, help="S, keys of each.")] = 8,
    target: Annotated[int, typer.Option("--target", "-L", min=1, max=64, help="L, queries of each.")] = 6,
    width: Annotated[int, typer.Option("--width", "-D", min=1, max=4096, help="D, of queries and keys.")] = 96,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Attention as loops over batch, queries and keys against attention as products of matrices.

    The two agree if no weight and no context differs by more than rounding errors can explain.

    Examples:

      seq2attn analyze forms

      seq2attn analyze forms --scores dot additive --width 256
    """
    names, _ = begin(scores, None, plot, plugin, " ".join(n for n in catalogue.SCORES.names() if n != "none"), "1")
    from seq2attn.analysis.forms import compare_forms

    result = compare_forms(names, batch=batch, source=source, target=target, width=width, seed=seed)
    columns = [
        ("score", "score", ""),
        ("precision", "precision", ""),
        ("weights", "in weights", ".1e"),
        ("contexts", "in contexts", ".1e"),
        ("rounding", "rounding", ".1e"),
        ("agree", "agree", "yes"),
    ]
    finish(result, columns, as_json=as_json, plot=plot)
    if not all(row.agree for row in result.rows):
        raise Seq2AttnError("the two forms differ by more than rounding", exit_code=1)
