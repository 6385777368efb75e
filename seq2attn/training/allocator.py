"""How the C library returns memory to the system."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LIMIT = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step instead of returning it to the system.

    A training step frees and asks again for the same buffers; above 128 KiB each was mapped and cleared anew, page by page.
    Elsewhere than on Linux with glibc this does nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, _LIMIT)
            library.mallopt(_M_TRIM_THRESHOLD, _LIMIT)
