"""Signals such as Ctrl-C as requests to stop after the current step."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # if the system has them


@dataclass
class StopRequest:
    """Whether a stop was requested, and by which signal."""

    signal: int | None = None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """In this context the first signal sets the request; a second one acts immediately, as it would outside."""
    request = StopRequest()
    previous: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def request_stop(number: int, frame: FrameType | None) -> None:
        request.signal = number
        restore()

    with contextlib.suppress(ValueError):  # only the main thread can handle signals
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
                previous[number] = signal.signal(number, request_stop)
    try:
        yield request
    finally:
        restore()
