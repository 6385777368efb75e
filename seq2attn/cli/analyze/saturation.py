"""`seq2attn analyze saturation`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import MOST_KEYS, Samples, Scores, Seed, Widths, begin
from seq2attn.cli.analyze.output import finish


def saturation(
    scores: Scores = None,
    widths: Widths = None,
    keys: Annotated[int, typer.Option("--keys", "-S", min=1, max=MOST_KEYS, help="S, keys to choose from.")] = 8,
    samples: Samples = 2_000,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Attention weights over random keys as the width grows: unscaled scores saturate, scaled ones do not.

    "saturated" is the share of queries that give one key more than 0.99.

    Examples:

      seq2attn analyze saturation

      seq2attn analyze saturation --scores dot scaled cosine --keys 32 --plot saturation.png
    """
    names, sizes = begin(scores, widths, plot, plugin, "dot scaled", "16 64 256 1024")
    from seq2attn.analysis.saturation import weight_saturation

    result = weight_saturation(names, sizes, keys=keys, samples=samples, seed=seed)
    columns = [
        ("score", "score", ""),
        ("width", "D", "d"),
        ("largest", "largest weight", ".3f"),
        ("largest_error", "±", ".3f"),
        ("saturated", "saturated", ".3f"),
        ("weights", "weights by rank", ".3f"),
    ]
    notes = [f"{samples:,} queries, {keys} keys each, components N(0, 1), seed {seed}"]
    finish(result, columns, as_json=as_json, plot=plot, notes=notes)
