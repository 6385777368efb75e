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
    restoring = contextlib.ExitStack()  # when it is closed, the handlers are those from before

    def request_stop(number: int, frame: FrameType | None) -> None:
        request.signal = number
        restoring.close()

    with restoring:
        with contextlib.suppress(ValueError):  # only the main thread can handle signals
            for number in signal.Signals:
                if number.name in NAMES and signal.getsignal(number) is not signal.SIG_IGN:
                    before = signal.signal(number, request_stop)
                    restoring.callback(signal.signal, number, before)
        yield request
