"""Interleaved timing: when the machine speeds up or slows down, everything measured does."""

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
    """Seconds per call of each action, `repeats` measurements each. The actions take turns of about
    `seconds`.

    `wait` is called before the clock is read, to synchronise with a device that works
    asynchronously. Each action is called twice before timing starts. Measurement i of one action
    was taken next to measurement i of the others.
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
    """How many times faster: the median over pairs measured next to each other."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def median(figures: list[float]) -> float:
    return statistics.median(figures)
