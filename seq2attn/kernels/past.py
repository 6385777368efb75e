"""How the histories enter the C: as a convolution over the previous weights and the sum of all past ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.kernels.plain import is_plain_tensor


def convolution(history: Any, features: int, dtype: torch.dtype) -> dict[str, Tensor] | None:
    """`past_weight` and `power`, as recurrence.c describes them; empty without a history, None if it is not as in the C.

    features: the width that the score expects of them.
    """
    kind = None if history is None else vars(type(history)).get("kernel")
    if kind == "shift":
        taps = 2 * history.reach + 1
        if is_plain_tensor(history.logits, dtype, taps) and is_plain_tensor(history.power, dtype):
            moves = torch.softmax(history.speed * history.logits, dim=0)
            return {"past_weight": moves.flip(0).view(1, taps, 1), "power": 1 + F.softplus(history.power).view(1)}
    elif kind == "coverage":
        if _is_map(history.map, dtype, features, 1):
            return {
                "past_weight": F.pad(history.map.weight.t().unsqueeze(0), (0, 0, 0, 0, 1, 0))
            }  # 0 for the last weights
    elif kind is not None:
        layer, (taps,) = history.convolution, history.convolution.kernel_size
        settings = (layer.bias, layer.stride, layer.dilation, layer.groups, layer.padding, layer.padding_mode)
        if (
            settings == (None, (1,), (1,), 1, (taps // 2,), "zeros")
            and taps % 2
            and is_plain_tensor(layer.weight, dtype, layer.out_channels, history.channels, taps)
            and _is_map(history.map, dtype, features, layer.out_channels)
        ):
            return {"past_weight": layer.weight.permute(1, 2, 0) @ history.map.weight.t()}  # (C, T, features)
    return {} if history is None else None


def _is_map(layer: Any, dtype: torch.dtype, outputs: int, inputs: int) -> bool:
    return layer.bias is None and is_plain_tensor(layer.weight, dtype, outputs, inputs)
