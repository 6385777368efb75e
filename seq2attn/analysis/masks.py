"""The windows of attention as pictures: which source positions each output position may attend to, with what factor."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Mask:
    """One window, over L output and S source positions."""

    kind: str
    centres: tuple[float, ...] | None
    """p_t of each output position; None for `global`"""
    factors: tuple[tuple[float, ...], ...]
    """L rows of S: 0 outside the window, inside it what the weight is multiplied by"""


@dataclass(frozen=True)
class Masks:
    """Windows of radius R over L output and S source positions."""

    source: int
    target: int
    radius: int
    masks: tuple[Mask, ...]


def window_masks(source: int, target: int, radius: int) -> Masks:
    """`global`, `local_m` monotonic and reversed, and `local_p` (Luong et al. 2015, section 3.2).

    local_p learns its centres; here they sweep evenly from the last source position to the first.
    The formulas are written again without torch; the tests compare them with the windows of the model.
    """
    last = source - 1
    centres = {
        "monotonic": [float(t) for t in range(target)],
        "reversed": [float(last - t) for t in range(target)],
        "local_p": [last * (1 - t / max(1, target - 1)) for t in range(target)],
    }
    masks = [Mask("global", None, ((1.0,) * source,) * target)]
    for kind, places in centres.items():
        rows = (window_factors(source, centre, radius, gaussian=kind == "local_p") for centre in places)
        masks.append(Mask(kind, tuple(places), tuple(rows)))
    return Masks(source, target, radius, tuple(masks))


def window_factors(source: int, centre: float, radius: int, *, gaussian: bool) -> tuple[float, ...]:
    """The factor of each of S source positions: inside [p_t - R, p_t + R] 1, or exp(-(j - p_t)^2 / (2 sigma^2))
    with sigma = R / 2; outside 0.
    """
    sigma = radius / 2

    def factor(position: int) -> float:
        distance = abs(position - centre)
        if distance > radius:
            return 0.0
        return math.exp(-(distance**2) / (2 * sigma**2)) if gaussian and distance else 1.0

    return tuple(factor(position) for position in range(source))
