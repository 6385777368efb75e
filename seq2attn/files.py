"""Reading files that somebody else may have written, and writing all or nothing."""

import contextlib
import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from seq2attn.display.console import json_text
from seq2attn.errors import Seq2AttnError

MAX_BYTES = 200_000_000  # of a file: what is larger is not read
MAX_LINES = 2_000_000
NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""flags of os.open: wait for no pipe"""
PLAIN = NO_WAIT | getattr(os, "O_NOFOLLOW", 0)
"""the same, and follow no link"""


@contextlib.contextmanager
def open_plain(path: Path, flags: int = NO_WAIT, most: int = MAX_BYTES) -> Iterator[BufferedReader]:
    """Open a plain file of at most `most` bytes. Raises `OSError` for a larger one, and for a pipe
    or a device, and waits for neither.
    """
    with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes")
        yield file


@contextlib.contextmanager
def reading(path: Path, hint: str | None = None) -> Iterator[BufferedReader]:
    """Open a plain file of at most `MAX_BYTES` for a `with`. A link, a pipe, a device and a larger
    file are refused; none of them is followed, waited for or read.

    Raises a `Seq2AttnError`, with `hint`, in place of any `OSError`, also of one in the body of the
    `with`: while the caller reads.
    """
    try:
        with open_plain(path, PLAIN) as file:
            yield file
    except OSError as error:
        raise Seq2AttnError(
            f"{path}: cannot be read: {error.strerror or error}", hint=hint
        ) from None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an `OSError` as a `Seq2AttnError` (exit code 1): `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise Seq2AttnError(
            f"{path}: cannot be written: {error.strerror or error}", exit_code=1
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, sync it to the disk, and rename it to `path`: at any
    time, `path` has all of its old contents or all of the new ones. First remove the temporary
    files of earlier calls for `path` that were killed.

    Raises `Seq2AttnError` (exit code 1) if writing fails; `path` is then unchanged.
    """
    remove_leftovers(path.parent, glob.escape(path.name))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with writing(path), temporary.open("xb") as file:
            with contextlib.suppress(OSError):  # some network disks have no locks
                _lock(file)  # so that `remove_leftovers` of another process leaves the file alone
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":  # Windows cannot rename a file that is open
                file.close()
            os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):  # the usual case: it was renamed, so it is gone
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, which Windows and some network disks cannot do."""
    with contextlib.suppress(OSError):  # the renamed file is complete anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value atomically, indented; half of a surrogate pair is escaped."""
    write_atomically(path, f"{json_text(value, indent=2, ensure_ascii=False)}\n".encode())


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove the temporary files that `write_atomically` has left in `folder` where its process was
    killed. A process that still writes has locked its temporary file, which then stays; an empty
    one stays too.

    name: a pattern of `Path.glob` for the names of the files that were to be written; `*`: all.
    """
    for path in folder.glob(f".{name}.{'[0-9a-f]' * 16}.part"):
        with contextlib.suppress(OSError):  # such as that of a lock: go on with the next file
            with open(os.open(path, os.O_RDWR | PLAIN), "rb") as file:
                _lock(file)  # raises if it is being written
            if path.stat().st_size:  # an empty one may just have been made, and be locked next
                path.unlink()


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed. Raises `OSError` if another process has locked it."""
    with contextlib.suppress(ImportError):  # Windows, which removes no open file
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def append(path: Path, data: bytes) -> None:
    """Append to a file, which is made if there is none. A kill or a full disk may leave a part of
    `data` in it.

    Raises `Seq2AttnError` (exit code 1) if writing fails, and for a link, which is not followed.
    """
    with writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | PLAIN, 0o666)
        try:
            while data:  # `os.write` may write a part, and returns how many bytes it wrote
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)
