"""This machine: devices, memory, processor cores. Imports no torch at the top."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    import torch

MOST_THREADS = 256  # of the CPU
DEVICES = ("auto", "cpu", "cuda", "mps")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` is cuda if available, otherwise cpu (mps is slower for such small models)."""
    if name not in DEVICES:
        raise Seq2AttnError(f"--device: unknown device {name!r}; allowed: {', '.join(DEVICES)}")
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    if not available[name]:
        present = ", ".join(device for device, is_present in available.items() if is_present)
        raise Seq2AttnError(f"device {name!r} is not available to torch {torch.__version__} here; available: {present}")
    return torch.device(name)


def available_cores() -> int:
    """The processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def available_bytes(device: torch.device | None = None) -> int | None:
    """Free memory, of a GPU or of the system; None if that is unknown."""
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    limits = [_system_bytes(), _cgroup_bytes()]
    return min((limit for limit in limits if limit is not None), default=None)


def shown_bytes(count: int) -> str:
    """`1610612736` -> `1.5 GiB`."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next training step; without glibc this does nothing.

    Each step allocates the same buffers again; above 128 KiB each was mapped and cleared anew, page by page.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(MMAP_THRESHOLD, 1 << 30)
            library.mallopt(TRIM_THRESHOLD, 1 << 30)


def _system_bytes() -> int | None:
    try:
        if sys.platform == "linux":
            for line in Path("/proc/meminfo").read_text().splitlines():
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        if sys.platform == "win32":
            return _windows_bytes()
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all memory, if what is free is unknown
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _cgroup_bytes() -> int | None:
    """The memory that a container may still use (cgroup v2)."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        folder = Path("/sys/fs/cgroup") / group.lstrip("/")
        if not (folder / "memory.max").exists():  # inside the container
            folder = Path("/sys/fs/cgroup")
        limit, used = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
        kept = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return limit - used + int(kept.get("file", 0))  # cached files are dropped when memory is needed
    except (OSError, ValueError):  # not Linux, no limit ("max"), or an older kernel
        return None


def _windows_bytes() -> int | None:
    class Status(ctypes.Structure):
        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "page", "page_free", "virtual", "virtual_free")),
            ("extended", ctypes.c_ulonglong),
        ]

    status = Status(length=ctypes.sizeof(Status))
    known = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status.free) if known else None
