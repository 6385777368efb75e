"""STUB until the build branch is merged."""

import os
from functools import cache

import torch

from seq2attn.kernels.binding import Kernels


def load(dtype):
    if os.environ.get("SEQ2ATTN_KERNELS") == "off":
        return "off"
    return _load(dtype)


@cache
def _load(dtype):
    from seq2attn.kernels.compiler import shared_library

    return Kernels(shared_library({torch.float32: "float", torch.float64: "double"}[dtype], "cc"))


def describe(device):
    return "stub" if isinstance(load(torch.float32), Kernels) else "SEQ2ATTN_KERNELS is off"


def why_slow(device):
    return None
