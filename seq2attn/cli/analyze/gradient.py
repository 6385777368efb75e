"""`seq2attn analyze gradient`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import MOST_KEYS, Samples, Seed, check_plot, prepare_torch, real_numbers
from seq2attn.cli.analyze.output import finish


def gradient(
    scales: Annotated[
        list[str] | None, typer.Option("--scales", metavar="C...", help="Standard deviations of the scores.")
    ] = None,
    keys: Annotated[int, typer.Option("--keys", "-S", min=2, max=MOST_KEYS, help="S, keys to choose from.")] = 8,
    samples: Samples = 10_000,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """Norm of the gradient of the largest attention weight against the scale of the scores.

    Scores are c e with e ~ N(0, 1): c = 1 is a scaled dot product, c = sqrt(D) an unscaled one. The gradient
    is with respect to the scores. It peaks somewhat above c = 1; at c = 10 it is close to 0 for half of all draws.

    Examples:

      seq2attn analyze gradient

      seq2attn analyze gradient --scales 0.5 1 2 4 8 16 --keys 64 --plot gradient.svg
    """
    check_plot(plot)
    factors = real_numbers("--scales", scales, "0.01 0.1 0.3 0.5 0.7 1 1.5 2 3 5 7 10 20 50")
    prepare_torch()
    from seq2attn.analysis.gradient import gradient_by_scale

    result = gradient_by_scale(factors, keys=keys, samples=samples, seed=seed)
    columns = [
        ("scale", "scale c", "g"),
        ("mean", "mean norm", ".4f"),
        ("mean_error", "±", ".4f"),
        ("formula", "by formula", ".4f"),
        ("median", "median norm", ".4f"),
        ("largest", "largest weight", ".3f"),
    ]
    notes = [f"the peak is at c = {result.peak:g}; {samples:,} draws of {keys} scores, seed {seed}"]
    finish(result, columns, as_json=as_json, plot=plot, notes=notes)
