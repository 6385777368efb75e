"""The recurrences of training in C, compiled when seq2attn is installed.

PyTorch computes the same (`seq2attn/model/recurrence.py`, `attentive_recurrence.py`) on a GPU, where there is no compiled
library, for scores that the C does not know, and wherever no gradient is wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.kernels import library
from seq2attn.kernels.binding import Kernels
from seq2attn.kernels.library import SWITCH, why_slow
from seq2attn.kernels.library import describe as describe_kernels

__all__ = ["SWITCH", "describe_kernels", "kernels_for", "why_slow"]

LARGE = 2**22  # B x D^2


def kernels_for(state: Tensor) -> Kernels | None:
    """The compiled recurrences for a first state (B, D) like this one: None where PyTorch's are to be taken.

    Those compiled use one thread. With more, PyTorch's are as fast from B x D^2 = 4 million on.
    """
    rows, width = state.shape
    if state.device.type != "cpu" or not torch.is_grad_enabled():
        return None
    if rows * width**2 >= LARGE and torch.get_num_threads() > 1:
        return None
    found = library.load(state.dtype)
    return None if isinstance(found, str) else found
