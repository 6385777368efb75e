"""Worker processes on this machine that run trials: a standard Executor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection, wait
from pathlib import Path

from seq2attn.comparison.engine import Engine
from seq2attn.comparison.trial import STOP_REQUEST


class TrialPool(Engine, ProcessPoolExecutor):
    """Worker processes with one torch thread each.

    Unlike other Executors, `shutdown(cancel_futures=True)` also makes running trials save and stop, and workers die with
    the process that made the pool.
    """

    def __init__(self, workers: int, plugins: Sequence[str] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop, self._stop_end = context.Pipe(
            duplex=False
        )  # closing it requests a stop; dead workers cannot block that
        super().__init__(workers, mp_context=context, initializer=_prepare, initargs=(self._stop, tuple(plugins)))
        self._workers = workers

    def capacity(self) -> int:
        return self._workers

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of every Executor; with `cancel_futures`, running trials save and stop."""
        if cancel_futures:
            self._stop_end.close()
        super().shutdown(wait, cancel_futures=cancel_futures)


def _prepare(stop: Connection, plugins: Sequence[str]) -> None:
    """Initialise a worker process."""
    for name in ("SIGINT", "SIGHUP"):  # a terminal sends them to all processes; only the main process handles them
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()
    import torch

    from seq2attn.config.plugins import load_plugin

    torch.set_num_threads(1)
    for plugin in plugins:
        load_plugin(Path(plugin))


def _watch(stop: Connection) -> None:
    """Pass on a stop request; exit when the parent dies."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([stop, parent.sentinel])
    STOP_REQUEST.signal = signal.SIGTERM
    wait([parent.sentinel])
    os._exit(1)
