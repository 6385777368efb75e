"""Finds, checks and loads the library that `setup.py` compiled from the C beside this file when
seq2attn was installed.
"""

import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path

import torch

from seq2attn.errors import Seq2AttnError
from seq2attn.kernels.function import TYPES, Kernels

SWITCH = "SEQ2ATTN_KERNELS"  # environment variable: `on`, the default, or `off`: the formulas alone
OFF = f"{SWITCH} is off"
FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "recurrence.so"
WHY_NONE = FOLDER / "recurrence.txt"  # written by setup.py where it could not compile


def load(dtype: torch.dtype) -> Kernels | str:
    """Return the compiled recurrence for this dtype and processor, or why there is none."""
    value = os.environ.get(SWITCH) or "on"
    if value not in ("on", "off"):
        raise Seq2AttnError(f"{SWITCH}: unknown value {value!r}; allowed: on, off")
    return _load(dtype) if value == "on" else OFF


def describe(device: torch.device) -> str:
    """Say which kernels training on this device uses, or why it uses none."""
    found = load(torch.float32)
    if device.type != "cpu" and found != OFF:
        return "not compiled: PyTorch's fused operations"
    return found if isinstance(found, str) else f"compiled, {found.variant}"


def why_slow(device: torch.device) -> str | None:
    """Say how training on a CPU could be faster; None if compiled kernels are there, or were
    switched off by the user, and for another device, which does not use them.
    """
    found = load(torch.float32)  # the kernels, or why there are none
    if device.type != "cpu" or not isinstance(found, str) or found == OFF:
        return None
    return (
        f"{found}; training takes 2.5 times as long as with compiled kernels. To change that, "
        "install a C compiler, then seq2attn again with pip install --force-reinstall --no-deps"
    )


@cache
def _load(dtype: torch.dtype) -> Kernels | str:
    """Return the compiled recurrence for this dtype and this machine's processor, or a sentence
    that says why there is none. The library is loaded once in a process for each dtype.
    """
    if dtype not in TYPES:
        return f"there is no compiled recurrence for {dtype}"
    if not LIBRARY.is_file():
        reason = f"there is no {LIBRARY.name}"
        if WHY_NONE.is_file():
            reason = WHY_NONE.read_text(encoding="utf-8").strip()
        return f"the recurrences were not compiled when seq2attn was installed: {reason}"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        # both return text: the checksum of the sources, and the fastest variant that this processor
        # can run, such as "avx2"
        library.built_from.restype = library.best_variant.restype = ctypes.c_char_p
        if library.built_from().decode() != checksum():
            return f"{LIBRARY.name} was compiled from other sources than those beside it"
        # float64 is for exact results, not for speed: of it only the variant that every processor
        # can run is compiled
        variant = library.best_variant().decode() if dtype == torch.float32 else "baseline"
        return Kernels(library, dtype, variant)
    except (OSError, AttributeError) as error:  # AttributeError: it lacks a function
        return f"the compiled recurrences cannot be loaded: {error}"


def checksum() -> str:
    """Compute the checksum of the C sources, as setup.py does."""
    sources = sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
