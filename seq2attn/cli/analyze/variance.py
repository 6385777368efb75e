"""`seq2attn analyze variance`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import Samples, Scores, Seed, Widths, begin
from seq2attn.cli.analyze.output import finish


def variance(
    scores: Scores = None,
    widths: Widths = None,
    query_mean: Annotated[float, typer.Option(help="Mean of each component of s.")] = 0.0,
    query_sd: Annotated[float, typer.Option(min=0, help="Standard deviation of each component of s.")] = 1.0,
    key_mean: Annotated[float, typer.Option(help="Mean of each component of h.")] = 0.0,
    key_sd: Annotated[float, typer.Option(min=0, help="Standard deviation of each component of h.")] = 1.0,
    samples: Samples = 20_000,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Variance of a score over random queries s and keys h, against its formula.

    Components are normal and independent. Of a dot product the variance is D (ss^2 sh^2 + ss^2 mh^2 + sh^2 ms^2) with
    means m and standard deviations s; scaling divides it by D. "off by" is the distance from the formula in standard
    errors: beyond 3 once in 370 times.

    Examples:

      seq2attn analyze variance

      seq2attn analyze variance --scores dot general additive --widths 64 256 --plot variance.svg

      seq2attn analyze variance --query-mean 0.5 --key-mean 0.5
    """
    names, sizes = begin(scores, widths, plot, plugin, "dot scaled", "16 64 256 1024")
    from seq2attn.analysis.variance import Components, score_variance

    components = Components(query_mean, query_sd, key_mean, key_sd)
    result = score_variance(names, sizes, samples=samples, seed=seed, components=components)
    columns = [
        ("score", "score", ""),
        ("width", "D", "d"),
        ("mean", "mean", ".4g"),
        ("mean_theory", "theory", ".4g"),
        ("variance", "variance", ".5g"),
        ("variance_error", "±", ".2g"),
        ("variance_theory", "theory", ".5g"),
        ("deviation", "off by", "+.1f"),
    ]
    notes = [
        f"{samples:,} pairs, s ~ N({query_mean:g}, {query_sd:g}^2), h ~ N({key_mean:g}, {key_sd:g}^2), seed {seed}"
    ]
    finish(result, columns, as_json=as_json, plot=plot, notes=notes)
