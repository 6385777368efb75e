"""Writing files so that a reader sees the old one or the new one, never a part of one."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, push it to the disk, and let it take the name of `path`.

    Raises `Seq2AttnError` (exit code 1) when the disk refuses; what was at `path` is then untouched.
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
        message = f"{path}: cannot be written: {error.strerror or error}"
        raise Seq2AttnError(message, hint="What was there before is untouched.", exit_code=1) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """`write_atomically` a JSON value, indented, with a line end; what is no Unicode is escaped, as JSON does."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"))


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system can (not on Windows, nor on every network disk)."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # the file is whole and in its place already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
