"""Writing files so that a fault leaves the old or the new one, and reading untrusted files safely."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any

from seq2attn.display.console import json_text
from seq2attn.errors import Seq2AttnError

_TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9a-f]{8}")  # as `write_atomically` names them


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, sync it to the disk, and rename it to `path`.

    Raises `Seq2AttnError` (exit code 1) if writing fails; `path` is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise not_written(path, error, hint="The previous file is unchanged.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """`write_atomically` a JSON value, indented, with a line end; what is not valid Unicode is escaped, as in JSON."""
    text = json_text(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"))


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a `write_atomically` that was killed. Nothing may be writing there."""
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()


class AppendFile:
    """A file to append to. If a record cannot be written completely, the file is unchanged and `Seq2AttnError` is raised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise not_written(path, error) from error

    def add(self, data: bytes) -> None:
        """Append `data`, or nothing if that fails."""
        size = None
        try:
            size = os.fstat(self._file.fileno()).st_size
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            with contextlib.suppress(OSError):
                if size is not None:
                    self._file.truncate(size)
            raise not_written(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()


def read_plain(path: Path, limit: int) -> bytes:
    """The contents of a plain file of at most `limit` bytes.

    A link, a pipe, a device and a larger file raise `OSError`; none of them is followed, waited for or read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes")
        return file.read(status.st_size)


def file_time(path: Path) -> datetime.datetime:
    """When a file was last changed; year 1 if that is unknown."""
    try:
        return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    except (OSError, ValueError, OverflowError):
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)


def not_written(path: Path, error: OSError, hint: str | None = None) -> Seq2AttnError:
    """The error for a file that the system would not write."""
    return Seq2AttnError(f"{path}: cannot be written: {error.strerror or error}", hint=hint, exit_code=1)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, if the system can (Windows and some network disks cannot)."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # the renamed file is complete anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
