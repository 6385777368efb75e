"""A lock that allows one training per run; the operating system releases it when the process ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import not_written
from seq2attn.runs.run import Run
from seq2attn.runs.status import Status

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TRIES, _PAUSE = 10, 0.05  # retries, because `is_training` holds the lock for a moment
_PLACE = 1 << 20  # the byte that is locked on Windows: past the text, so that others can read that
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


class BeingTrained(Seq2AttnError):
    """Another process trains the run."""


@contextlib.contextmanager
def training_lock(run: Run) -> Iterator[bool]:
    """Keep other processes from training `run`. Yields False if the file system has no locks.

    Raises `BeingTrained` if another process holds the lock. A process that was killed holds nothing, even if its file
    remains.
    """
    path = run.lock_file
    try:
        descriptor, locked = _open_locked(path, run)
    except OSError as error:
        raise not_written(path, error) from error
    try:
        if locked:
            with contextlib.suppress(OSError):  # the number is informative only; the lock holds without it
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
        yield locked
    finally:
        with contextlib.suppress(OSError):
            if sys.platform != "win32":
                path.unlink()  # while it is locked: a waiting process sees this and tries again
        os.close(descriptor)
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                path.unlink()


def is_training(run: Run) -> bool:
    """Whether a live process trains `run`."""
    try:
        descriptor = os.open(run.lock_file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return _try_lock(descriptor) is False
    finally:
        os.close(descriptor)


def state_of(run: Run, status: Status) -> str:
    """The state of `run` in a word or two, from its `status` and its files."""
    if is_training(run):
        return "training"
    if status.problem is not None:
        return "unreadable status.json"
    if status.state is not None:
        return "stopped" if status.state == "training" else status.state
    return "stopped" if run.has_checkpoint else "no checkpoint"


def _open_locked(path: Path, run: Run) -> tuple[int, bool]:
    """The lock file, and whether it could be locked."""
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        locked = _try_lock(descriptor)
        if locked is None:
            return descriptor, False
        if locked and _is_same_file(path, descriptor):
            return descriptor, True
        os.close(descriptor)
        if not locked:
            time.sleep(_PAUSE)
    raise BeingTrained(
        f"run {run.name!r} is being trained by another process{_holder(path)}",
        hint="Wait for it, or stop it; then resume.",
    )


def _try_lock(descriptor: int) -> bool | None:
    """Whether the lock was taken; None if the file system has no locks."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _PLACE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            return False
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Whether `path` is still the file that was opened: its last holder may have removed it in between."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _holder(path: Path) -> str:
    try:
        text = path.read_bytes()[:20].strip().decode("ascii")
    except (OSError, ValueError):
        return ""
    return f" (pid {text})" if text.isdecimal() else ""
