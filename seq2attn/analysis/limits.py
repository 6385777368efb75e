"""What an analysis may cost: refused before it runs rather than stopped by hand after an hour."""

from __future__ import annotations

from seq2attn.errors import Seq2AttnError

MOST_DRAWN = 10**10  # random numbers in one analysis: some minutes
MOST_KEPT = 10**8
MOST_PAIRS = 2**14  # of a query and a key, scored one at a time


def check_work(drawn: int, kept: int) -> None:
    """Refuse to draw so many random numbers, or to keep so many results in memory."""
    if drawn > MOST_DRAWN or kept > MOST_KEPT:
        raise Seq2AttnError(
            f"that takes {drawn:,} random numbers; at most {MOST_DRAWN:,}, and {MOST_KEPT:,} results",
            hint="Ask for fewer --samples, or smaller sizes.",
        )


def check_pairs(batch: int, source: int, target: int) -> None:
    """Refuse to score so many pairs one at a time."""
    pairs = batch * source * target
    if pairs > MOST_PAIRS:
        raise Seq2AttnError(f"B x L x S = {pairs:,} pairs, one at a time; at most {MOST_PAIRS:,}")
