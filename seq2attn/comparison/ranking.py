"""The order of groups by one number each: the metric's mean over the lengths, over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from seq2attn.inference.intervals import Spread, spread


@dataclass(frozen=True)
class Ranked:
    """A group's place among all."""

    group: str
    rank: int
    """from 1; groups with the same mean share a rank"""
    spread: Spread
    """over seeds"""
    difference: Spread | None
    """from the best group, seed by seed, so at most 0 on average; None for the best itself, and without a common seed"""

    @property
    def may_be_best(self) -> bool:
        """Whether these seeds leave open that the group is as good as the best: 0 is in the difference's interval."""
        return self.rank == 1 or self.difference is None or self.difference.high is None or self.difference.high >= 0


def rank(values: Mapping[str, Mapping[int, float]]) -> tuple[Ranked, ...]:
    """Groups with their shares (0 to 1, larger is better) by seed -> the groups, the best first."""
    means = {group: _within(spread(list(by_seed.values())), 0.0) for group, by_seed in values.items() if by_seed}
    order = sorted(means, key=lambda group: -means[group].mean)
    ranked = []
    for group in order:
        place = 1 + sum(other.mean > means[group].mean for other in means.values())
        best = values[order[0]]
        differences = [value - best[seed] for seed, value in values[group].items() if seed in best]
        difference = _within(spread(differences), -1.0) if differences and group != order[0] else None
        ranked.append(Ranked(group, place, means[group], difference))
    return tuple(ranked)


def _within(found: Spread, lowest: float) -> Spread:
    """The interval cut to the values that are possible: `lowest` to 1."""
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(lowest, found.low), high=min(1.0, found.high))
