"""Where the trials of a comparison run: processes of this machine, those of a Dask cluster, or any
`concurrent.futures.Executor`.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Executor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from seq2attn.display.console import escape_streams
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.create import available_cores

ANSWER = 5  # seconds for a Dask scheduler to answer
ExecutorWord = str | Callable[[], Executor] | None
"""processes of this machine (None), `dask:ADDRESS`, or a function that makes an Executor"""
DASK = re.compile(r"dask:(inproc://.+|((tcp|tls|ucx|wss?)://)?(\[[^][/]+]|[^][:/\s]+):[0-9]{1,5})")


class Workers:
    """What runs the trials: `count` workers of executors that `make` makes."""

    def __init__(self, make: Callable[[], Executor], count: int) -> None:
        self.make = make
        self.count = count

    def at_once(self) -> int:
        """Return how many trials can run at a time now."""
        return self.count

    def leave_out(self, worker: str) -> bool | None:
        """Give no further trial to this worker, which has refused one. Returns whether there are
        others; None if it cannot be left out.
        """
        return None

    def place(self) -> dict[str, Any]:
        """Return the keywords of `Executor.submit` that keep a trial away from the workers that
        are left out.
        """
        return {}


class DaskWorkers(Workers):
    """The workers of a Dask cluster, which come and go.

    count: trials at a time; None: as many as there are workers.
    """

    def __init__(self, client: Any, count: int | None) -> None:
        # pure would mean that equal calls have one result: a trial that is tried again would not
        # run. 0 stands for None, see `at_once`
        super().__init__(lambda: client.get_executor(pure=False), count or 0)
        self.client = client
        self.left_out: set[str] = set()

    def at_once(self) -> int:
        return self.count or max(1, len(self._others()))  # 1: it waits for the first worker

    def leave_out(self, worker: str) -> bool | None:
        self.left_out.add(worker)
        return bool(self._others())

    def place(self) -> dict[str, Any]:
        return {"workers": self._others()} if self.left_out else {}

    def _others(self) -> list[str]:
        # Without a connection it has no workers to name; the trials' futures then say so.
        with contextlib.suppress(Exception):
            return [worker for worker in self.client.nthreads() if worker not in self.left_out]
        return []


@contextlib.contextmanager
def open_workers(executor: ExecutorWord, count: int | None, trials: int) -> Iterator[Workers]:
    """Yield what runs the trials, as `ExecutorWord` describes. A connection to Dask is closed
    afterwards.

    count: how many trials run at a time; None: one per core, or per worker of Dask's. trials: how
    many there are.
    """
    if isinstance(executor, str):  # dask:ADDRESS
        with _dask_client(executor.removeprefix("dask:")) as client:
            yield DaskWorkers(client, count)
    else:
        # (a caller in Python may give any `count`, such as -1)
        limit = max(1, min(count or available_cores(), trials))
        yield Workers(executor or (lambda: process_pool(limit)), limit)


def process_pool(workers: int) -> Executor:
    """Processes of this machine that end when this process ends, however it ends."""
    context = SpawnContext()
    context.Process = _Worker  # type: ignore[misc]
    return futures.ProcessPoolExecutor(workers, mp_context=context)


class _Worker(SpawnProcess):
    """Ends with its parent, and never gets the signals that a terminal sends to all processes: the
    parent handles them.
    """

    def start(self) -> None:
        """Start the process with the signals of terminals blocked: it inherits that."""
        if not hasattr(signal, "pthread_sigmask"):  # Windows, which cannot block signals
            super().start()
            return
        resource_tracker.ensure_running()  # starting it later would unblock SIGINT
        of_terminal = {signal.SIGINT, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, of_terminal)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        escape_streams()
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().run()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, then end this one."""
    multiprocessing.parent_process().join()  # type: ignore[union-attr]
    os._exit(1)  # `sys.exit` would end this thread alone


def _dask_client(address: str) -> Any:
    """Return a client of the Dask scheduler at `address`, without `dask:`. Its workers must be
    processes of one thread that see the runs directory. Raises `Seq2AttnError` if the package
    distributed is missing, or if no scheduler answers within `ANSWER` seconds.
    """
    try:
        import distributed
    except ImportError as error:
        raise Seq2AttnError(
            f"--executor dask needs the package distributed ({error})",
            hint='Install it: pip install "seq2attn[dask]"',
        ) from None
    dask: Any = distributed  # mypy would refuse its untyped functions
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is in our messages
    try:
        # A Client waits forever if nothing answers, so ask first; in a thread, since a notebook has
        # an event loop of its own.
        with futures.ThreadPoolExecutor(1) as thread:
            identity = thread.submit(asyncio.run, _identity(dask, address)).result()
        if identity["type"] != "Scheduler":
            raise ValueError(f"it is a {identity['type']}")  # such as a worker; reported below
        return dask.Client(address, timeout=ANSWER, set_as_default=False)
    except Exception as error:  # Dask's libraries may raise anything
        reason = str(error) or f"nothing after {ANSWER} seconds"
        raise Seq2AttnError(
            f"no Dask scheduler answers at {address}: {reason}",
            hint="Start one with: dask scheduler    and workers with: "
            "dask worker ADDRESS --nthreads 1",
        ) from None


async def _identity(dask: Any, address: str) -> Any:
    """Return what a server of Dask's says of itself, within `ANSWER` seconds."""
    secure = dask.Security().get_connection_args("client")
    async with dask.rpc(address, connection_args=secure) as server:
        return await asyncio.wait_for(server.identity(), ANSWER)
