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
PLAIN = (  # flags of os.open: follow no link, wait for no pipe
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


@contextlib.contextmanager
def reading(path: Path, hint: str | None = None) -> Iterator[BufferedReader]:
    """Open a plain file of at most `MAX_BYTES`, and raise an `OSError` as a `Seq2AttnError`.

    A link, a pipe, a device and a larger file are refused; none of them is followed, waited for or
    read.
    """
    try:
        with open(os.open(path, os.O_RDONLY | PLAIN), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a plain file")
            if status.st_size > MAX_BYTES:
                raise OSError(errno.EFBIG, f"larger than {MAX_BYTES:,} bytes")
            yield file
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise Seq2AttnError(message, hint=hint) from None
