"""This machine: devices, processor cores, memory allocation. Imports no torch at the top."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    import torch

MAX_THREADS = 256  # of the CPU
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt


def choose_device(name: str) -> torch.device:
    """Return the device `cpu`, `cuda` or `mps`; `auto` is cuda if available, otherwise cpu, and
    never mps, which is slower for such small models.

    Raises `Seq2AttnError` for a name that is not one of these, or not available here.
    """
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        name = "cuda" if "cuda" in available else "cpu"
    if name not in available:
        raise Seq2AttnError(
            f"--device: {name!r} is not available to torch {torch.__version__} here; available: "
            f"{', '.join(available)}"
        )
    return torch.device(name)


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """In this context, torch makes tensors of the dtype of this name, such as `float32`, where no
    other is asked for.
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next training step; without glibc, do nothing.

    Each step allocates the same buffers again. By default, glibc gets each one above 128 KiB from
    the system and gives it back when it is freed; the system then clears its pages each time.
    """
    # what a library without `mallopt`, and Windows (OSError, TypeError), raise
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)  # the libraries of this process, glibc among them
        library.mallopt(MMAP_THRESHOLD, 1 << 30)  # buffers below 1 GiB come from the heap,
        library.mallopt(TRIM_THRESHOLD, 1 << 30)  # of whose end up to 1 GiB is kept when it is free
