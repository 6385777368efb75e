"""Signals such as Ctrl-C as requests to stop after the current step."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # if the system has them


@dataclass
class StopRequest:
    """A signal's request to stop."""

    signal: int | None = None

    def is_set(self) -> bool:
        """Return True if a signal has come."""
        return self.signal is not None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """In this context the first signal sets the request; a second one acts immediately, as it would
    outside.
    """
    request, own_handlers = StopRequest(), contextlib.ExitStack()

    def request_stop(number: int, frame: FrameType | None) -> None:
        request.signal = number
        own_handlers.close()

    with own_handlers:
        with contextlib.suppress(ValueError):  # only the main thread can handle signals
            for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
                    own_handlers.callback(
                        signal.signal, number, signal.signal(number, request_stop)
                    )
        yield request
