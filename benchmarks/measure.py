"""Timing several things in turn, so that a machine that speeds up or slows down does so for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    actions: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 7,
    seconds: float = 0.15,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Seconds a call of each action, `repeats` figures each: every action runs for about `seconds`, then the next.

    `wait` is called before each look at the clock: for a device that has only been told what to do.
    Each action is called twice beforehand. Figure i of one action and figure i of another were measured next to each other.
    """
    calls = {}
    for name, action in actions.items():
        action()
        wait()
        start = time.perf_counter()
        action()
        wait()
        calls[name] = max(1, round(seconds / max(time.perf_counter() - start, 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                action()
            wait()
            found[name].append((time.perf_counter() - start) / calls[name])
    return found


def ratio(slow: list[float], fast: list[float]) -> float:
    """How many times faster: the median over pairs that were measured next to each other."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def median(figures: list[float]) -> float:
    return statistics.median(figures)
