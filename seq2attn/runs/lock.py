"""A lock that allows one training per run; the operating system releases it when the process ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import not_written
from seq2attn.runs.records import Status
from seq2attn.runs.run import Run

WAIT = 0.5  # seconds, because `is_training` holds the lock for a moment


class BeingTrained(Seq2AttnError):
    """Another process trains the run."""


@contextlib.contextmanager
def training_lock(run: Run) -> Iterator[None]:
    """Keep other processes from training `run`. Raises `BeingTrained` if one of them does; a killed one holds nothing."""
    from filelock import FileLock, Timeout  # not at the top: `--help` does not wait for it

    lock = FileLock(run.lock_file, timeout=WAIT, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise BeingTrained(
            f"run {run.name!r} is being trained by another process", hint="Wait for it, or stop it; then resume."
        ) from None
    except OSError as error:
        raise not_written(run.lock_file, error) from error
    try:
        yield
    finally:
        lock.release()


def is_training(run: Run) -> bool:
    """Whether a live process trains `run`."""
    from filelock import FileLock, Timeout

    if not run.lock_file.is_file():
        return False
    try:
        with FileLock(run.lock_file, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def state_of(run: Run, status: Status) -> str:
    """The state of `run` in a word or two, from its `status` and its files."""
    if is_training(run):
        return "training"
    if status.problem is not None:
        return "unreadable status.json"
    if status.state is not None:
        return "stopped" if status.state == "training" else status.state
    return "stopped" if run.has_checkpoint else "no checkpoint"
