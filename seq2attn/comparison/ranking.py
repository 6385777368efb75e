"""The order of groups by one number each: the metric's mean over the lengths, over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seq2attn.inference.statistics import Spread, spread


@dataclass(frozen=True)
class Ranked:
    """A group's place among all."""

    group: str
    rank: int
    """from 1; groups with the same mean share a rank"""
    spread: Spread
    """over seeds"""
    difference: Spread | None
    """from the best group, seed by seed, so on average not better; None for the best itself, and without a common seed"""
    may_be_best: bool
    """whether these seeds leave open that the group is as good as the best: its difference's interval has 0 in it"""


def rank(
    values: Mapping[str, Mapping[int, float]], *, lowest_first: bool = False, most: float = 1.0
) -> tuple[Ranked, ...]:
    """Groups with their numbers (0 to `most`) by seed -> the groups, the best first: the largest, or the smallest."""
    sign = 1 if lowest_first else -1
    means = {group: spread(list(by_seed.values()), 0.0, most) for group, by_seed in values.items() if by_seed}
    order = sorted(means, key=lambda group: sign * means[group].mean)
    ranked = []
    for group in order:
        place = 1 + sum(sign * other.mean < sign * means[group].mean for other in means.values())
        best = values[order[0]]
        differences = [value - best[seed] for seed, value in values[group].items() if seed in best]
        difference = spread(differences, -most, most) if differences and group != order[0] else None
        end = None if difference is None else difference.low if lowest_first else difference.high
        ranked.append(Ranked(group, place, means[group], difference, place == 1 or end is None or sign * end <= 0))
    return tuple(ranked)
