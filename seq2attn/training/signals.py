"""Signals such as Ctrl-C as requests to stop after the current step."""

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
    """Let the first signal in this context set the request; a second one acts immediately, as it
    would outside. A signal that is ignored outside, as under `nohup`, stays ignored.
    """
    request = StopRequest()
    handlers = contextlib.ExitStack()  # calls back what restores those outside

    def request_stop(number: int, frame: FrameType | None) -> None:
        request.signal = number
        handlers.close()

    with handlers:
        with contextlib.suppress(ValueError):  # only the main thread can handle signals
            for number in signal.Signals:
                if number.name in NAMES and signal.getsignal(number) is not signal.SIG_IGN:
                    before = signal.signal(number, request_stop)
                    handlers.callback(signal.signal, number, before)
        yield request
