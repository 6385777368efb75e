"""The windows of attention as pictures: which source positions each output position may attend to,
with what factor.
"""

from dataclasses import dataclass

import torch

from seq2attn.analysis import Analysis, column
from seq2attn.model.windows import LocalM, LocalP, View

SHADES = " ░▒▓█"


@dataclass(frozen=True)
class MaskRow:
    """One window at one of L output positions."""

    mask: str
    t: int = column("t")
    centre: float | None = column("centre", ".3g")
    """p_t; None for `global`"""
    picture: str = column("source positions")
    """the factors in shades of grey"""
    factors: tuple[float, ...] = column("")
    """of S source positions: 0 outside the window, inside it what the weight is multiplied by"""


def window_masks(source: int, target: int, radius: int) -> Analysis:
    """Compute the windows `global`, `local_m` monotonic and reversed, and `local_p` (Luong et al.
    2015, section 3.2), as the model has them: a row for each window and output position.

    source, target: the lengths S and L. radius: how many positions a window reaches to each side of
    its centre. local_p learns its centres; here they sweep evenly from the last source position to
    the first.
    """
    t = torch.arange(target)
    last = source - 1
    sweep = last * (target - 1 - t) / max(1, target - 1)
    queries = torch.zeros(1, target, 1)  # local_m ignores them
    inputs = queries, torch.tensor([source]), source, 0  # queries, lengths, S, the first t
    sizes = 1, False  # queries of width 1, and sources without `<eos>`
    # (LocalP draws parameters, which are not used here: the global random state stays as it was)
    with torch.random.fork_rng(devices=[]):
        learned = LocalP(*sizes, radius=radius)
    windows = [
        ("global", None, View(torch.ones(1, target, source))),
        ("monotonic", t, LocalM(*sizes, radius=radius)(*inputs)),
        ("reversed", last - t, LocalM(*sizes, radius=radius, centre="reversed")(*inputs)),
        ("local_p", sweep, learned.around(sweep.view(1, -1, 1), source)),
    ]
    rows = []
    for name, centres, (allowed, factor) in windows:
        # without a factor, a window leaves the weights inside as they are
        factors = allowed.float() if factor is None else allowed * factor  # (1, L, S)
        for position, row in enumerate(factors[0].tolist()):
            centre = None if centres is None else float(centres[position])
            # one of five shades, 0 to 4; two characters for a position, so that it looks square
            picture = "".join(2 * SHADES[round(4 * share)] for share in row)
            rows.append(MaskRow(name, position, centre, picture, tuple(row)))
    return Analysis({"source": source, "target": target, "radius": radius}, rows)
