"""The device that the variable DEVICE names: `cuda`, or `simulated`."""

import contextlib
import os
import warnings

import torch

if os.environ["DEVICE"] == "cuda":
    DEVICE = torch.device("cuda", 0)
else:  # the import changes PyTorch, and has to come before the modules of seq2attn
    from benchmarks.simulated_device import DEVICE, waits


@contextlib.contextmanager
def nothing_waits():
    """Fail if the CPU asks the device for a value."""
    if DEVICE.type != "cuda":
        waits.clear()
        yield
        assert not waits
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
