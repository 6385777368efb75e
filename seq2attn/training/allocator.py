"""Memory that training frees and needs again a moment later stays with the process."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT = 1 << 30  # bytes at the top of the heap
LARGE = 1 << 25  # bytes; glibc takes no more


def keep_freed_memory() -> bool:
    """Ask glibc's malloc to hand freed memory out again rather than back to the system. Whether there is a glibc to ask.

    A training step allocates the same tensors as the one before. By default the larger ones are fetched from the system each
    time and come page by page, which large batches pay for (docs/performance.md).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT)) and bool(mallopt(M_MMAP_THRESHOLD, LARGE))
