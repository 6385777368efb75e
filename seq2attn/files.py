"""Reading files that somebody else may have written."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from seq2attn.errors import Seq2AttnError

MAX_BYTES = 200_000_000  # of a file: what is larger is not read
MAX_LINES = 2_000_000
NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""flags of os.open: wait for no pipe"""
PLAIN = NO_WAIT | getattr(os, "O_NOFOLLOW", 0)
"""the same, and follow no link"""


@contextlib.contextmanager
def open_plain(path: Path, flags: int = NO_WAIT) -> Iterator[BufferedReader]:
    """Open a plain file. Raises `OSError` for a pipe or a device, and waits for neither."""
    with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        yield file


@contextlib.contextmanager
def reading(path: Path, hint: str | None = None) -> Iterator[BufferedReader]:
    """Open a plain file of at most `MAX_BYTES`, and raise an `OSError` as a `Seq2AttnError`.

    A link, a pipe, a device and a larger file are refused; none of them is followed, waited for or
    read.
    """
    try:
        with open_plain(path, PLAIN) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise OSError(errno.EFBIG, f"larger than {MAX_BYTES:,} bytes")
            yield file
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise Seq2AttnError(message, hint=hint) from None
