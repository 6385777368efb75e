"""`seq2attn analyze entropy`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import MOST_KEYS, Samples, Scores, Seed, Widths, begin, whole_numbers
from seq2attn.cli.analyze.output import finish


def entropy(
    scores: Scores = None,
    widths: Widths = None,
    keys: Annotated[
        list[str] | None, typer.Option("--keys", metavar="S...", help="Numbers of keys to choose from.")
    ] = None,
    samples: Samples = 500,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Entropy of attention over random keys against the width, in nats: it falls with unscaled scores, not with scaled ones.

    "expected" is the entropy for independent normal scores of the same variance, the limit of large widths. For scaled
    scores it is somewhat below log S, the entropy of uniform weights.

    Examples:

      seq2attn analyze entropy

      seq2attn analyze entropy --keys 8 --widths 16 64 256 --samples 5000 --plot entropy.svg
    """
    names, sizes = begin(scores, widths, plot, plugin, "dot scaled", "4 16 64 256 1024 4096")
    counts = whole_numbers("--keys", keys, "16 64", MOST_KEYS)
    from seq2attn.analysis.entropy import entropy_by_width

    result = entropy_by_width(names, sizes, keys=counts, samples=samples, seed=seed)
    columns = [
        ("keys", "S", "d"),
        ("score", "score", ""),
        ("width", "D", "d"),
        ("entropy", "entropy", ".4f"),
        ("entropy_error", "±", ".4f"),
        ("limit", "expected", ".4f"),
    ]
    notes = [
        f"S = {count}: uniform {result.uniform[count]:.4f}, expected of scaled {result.plateau[count]:.4f}"
        for count in counts
    ]
    finish(result, columns, as_json=as_json, plot=plot, notes=notes)
