"""A lock that allows one training per run; the operating system releases it when the process ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import writing
from seq2attn.runs.run import Run

if TYPE_CHECKING:
    from seq2attn.runs.records import Status

WAIT = 0.5  # seconds, because `is_training` holds the lock for a moment


class BeingTrained(Seq2AttnError):
    """Another process trains the run."""


@contextlib.contextmanager
def training_lock(run: Run, wait: float = WAIT) -> Iterator[None]:
    """Keep other processes from training `run`. Raises `BeingTrained` if one of them does; a killed one holds nothing."""
    from filelock import FileLock, Timeout  # not at the top: `--help` does not wait for it

    lock = FileLock(run.lock_file, timeout=wait, thread_local=False)
    with writing(run.lock_file):
        try:
            lock.acquire()
        except Timeout:
            raise BeingTrained(
                f"run {run.name!r} is being trained by another process", hint="Wait for it, or stop it; then resume."
            ) from None
    try:
        yield
    finally:
        lock.release()


def is_training(run: Run) -> bool:
    """Whether a live process trains `run`."""
    if not run.lock_file.is_file():
        return False
    try:
        with training_lock(run, wait=0):
            return False
    except Seq2AttnError as error:
        return isinstance(error, BeingTrained)


def state_of(run: Run, status: Status) -> str:
    """The state of `run` in a word or two, from its `status` and its files."""
    if is_training(run):
        return "training"
    if status.state is None:
        unknown = "stopped" if run.has_checkpoint else "no checkpoint"
        return "unreadable status.json" if run.status_file.exists() else unknown
    return "stopped" if status.state == "training" else status.state
