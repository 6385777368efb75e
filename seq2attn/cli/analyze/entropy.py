"""`seq2attn analyze entropy`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import MOST_KEYS, Samples, Scores, Seed, Widths, begin, whole_numbers
from seq2attn.cli.analyze.output import finish
from seq2attn.cli.output import note


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
    """Entropy of attention over random keys against the width, in nats: scaled scores keep it, raw ones lose it.

    "expected" is that of independent normal scores of the same variance, which large widths tend to: for scaled
    scores a plateau, somewhat below log S, the entropy of uniform weights.

    Examples:

      seq2attn analyze entropy

      seq2attn analyze entropy --keys 8 --widths 16 64 256 --samples 5000 --plot entropy.svg
    """
    names, sizes = begin(scores, widths, plot, plugin, "dot scaled", "4 16 64 256 1024 4096")
    counts = whole_numbers("--keys", keys, "16 64", MOST_KEYS)
    from seq2attn.analysis.entropy import entropy_by_width

    result = entropy_by_width(names, sizes, keys=counts, samples=samples, seed=seed)
    columns = {"keys": "d", "score": "", "width": "d", "entropy": ".4f", "entropy_error": ".4f", "limit": ".4f"}
    headers = ("S", "score", "D", "entropy", "±", "expected")
    finish(result, columns, headers, as_json=as_json, plot=plot)
    if not as_json:
        for count in counts:
            note(f"S = {count}: uniform {result.uniform[count]:.4f}, expected of scaled {result.plateau[count]:.4f}")
