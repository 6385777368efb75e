"""Writing files so that a fault leaves the old or the new one, and reading untrusted files safely."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from seq2attn.display.console import json_text
from seq2attn.errors import Seq2AttnError

_SAFE = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # no link, no waiting


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """In this context, an `OSError` is raised as a `Seq2AttnError` (exit code 1): `path` cannot be
    written.
    """
    try:
        yield
    except OSError as error:
        raise Seq2AttnError(
            f"{path}: cannot be written: {error.strerror or error}", exit_code=1
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, sync it to the disk, and rename it to `path`.

    Raises `Seq2AttnError` (exit code 1) if writing fails; `path` is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with writing(path):
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """`write_atomically` a JSON value, indented, with a line end; what is not valid Unicode is
    escaped.
    """
    write_atomically(path, f"{json_text(value, indent=2, ensure_ascii=False)}\n".encode())


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of every `write_atomically` in `folder` that was killed. Nothing
    may be writing there.
    """
    for path in folder.rglob(".*.part"):
        with contextlib.suppress(OSError):
            path.unlink()


def append(path: Path, data: bytes) -> None:
    """Append to a file, which may not be a link. A kill or a full disk may leave a part of `data`.

    Raises `Seq2AttnError` (exit code 1) if writing fails.
    """
    with writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFE, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reading(path: Path, limit: int, hint: str | None = None) -> Iterator[BinaryIO]:
    """A plain file of at most `limit` bytes, open in this context, in which an `OSError` is raised
    as a `Seq2AttnError`.

    A link, a pipe, a device and a larger file are refused; none of them is followed, waited for or
    read.
    """
    try:
        with open(os.open(path, os.O_RDONLY | _SAFE), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a plain file")
            if status.st_size > limit:
                raise OSError(errno.EFBIG, f"larger than {limit:,} bytes")
            yield file
    except OSError as error:
        raise Seq2AttnError(
            f"{path}: cannot be read: {error.strerror or error}", hint=hint
        ) from None


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, if the system can (Windows and some network disks cannot)."""
    with contextlib.suppress(OSError):  # the renamed file is complete anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
