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
    """In this context, the first of the signals `NAMES` sets the request that is yielded; a second
    one acts immediately, as it would outside.

    A signal that is ignored outside, as under `nohup`, stays ignored. In another thread than the
    main one, which alone can handle signals, nothing sets the request.
    """
    request = StopRequest()
    restoring = contextlib.ExitStack()  # closing it puts back the handlers from before

    def request_stop(number: int, frame: FrameType | None) -> None:
        request.signal = number
        restoring.close()

    with restoring:
        with contextlib.suppress(ValueError):  # raised in another thread than the main one
            for number in signal.Signals:
                if number.name in NAMES and signal.getsignal(number) is not signal.SIG_IGN:
                    before = signal.signal(number, request_stop)
                    restoring.callback(signal.signal, number, before)
        yield request
