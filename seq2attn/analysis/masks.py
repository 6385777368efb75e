"""The windows of attention as pictures: which source positions each output position may attend to,
with what factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.analysis.result import Analysis, column
from seq2attn.model.windows import LocalM, LocalP

SHADES = " ░▒▓█"


@dataclass(frozen=True)
class MaskRow:
    """One window at one of L output positions."""

    mask: str
    t: int = column("t", ",")
    centre: float | None = column("centre", ".3g")
    """p_t; None for `global`"""
    picture: str = column("source positions")
    """the factors in shades of grey"""
    factors: tuple[float, ...] = column("")
    """of S source positions: 0 outside the window, inside it what the weight is multiplied by"""


def window_masks(source: int, target: int, radius: int) -> Analysis[MaskRow]:
    """`global`, `local_m` monotonic and reversed, and `local_p` (Luong et al. 2015, section 3.2),
    as the model has them.

    local_p learns its centres; here they sweep evenly from the last source position to the first.
    """
    t, last = torch.arange(target), source - 1
    sweep = last * (target - 1 - t) / max(1, target - 1)
    query, lengths = torch.zeros(1, target, 1), torch.tensor([source])
    with torch.random.fork_rng(devices=[]):
        learned = LocalP(1, False, radius=radius)
    windows = {
        "monotonic": (t, LocalM(1, False, radius=radius)(query, lengths, source, 0)),
        "reversed": (
            last - t,
            LocalM(1, False, radius=radius, centre="reversed")(query, lengths, source, 0),
        ),
        "local_p": (sweep, learned.around(sweep.view(1, -1, 1), source)),
    }
    rows = [_row("global", place, None, torch.ones(source)) for place in range(target)]
    for name, (centres, view) in windows.items():
        factors = view.allowed[0] * (
            torch.ones(1) if view.factor is None else view.factor[0]
        )  # (L, S)
        rows += [
            _row(name, place, float(centres[place]), factors[place]) for place in range(target)
        ]
    return Analysis({"source": source, "target": target, "radius": radius}, tuple(rows))


def _row(mask: str, t: int, centre: float | None, factors: Tensor) -> MaskRow:
    shades = (SHADES[round(factor * (len(SHADES) - 1))] * 2 for factor in factors.tolist())
    return MaskRow(mask, t, centre, "".join(shades), tuple(factors.tolist()))
