"""Whether a call is the plain case that the C knows, or one of the many others that the formulas take."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_KNOWN = (nn.Linear, nn.Embedding, nn.Dropout, nn.Conv1d)
_METHODS = {
    *("forward", "forward_by_steps", "step", "read", "recall", "scan", "output", "advance", "embed", "_combine"),
    *("update", "combine", "_around", "__call__"),
}


def is_plain_call(*, gradients: bool = True) -> bool:
    """Whether gradients are recorded by autograd alone, or not at all: no tracing, no function transform, no mode that
    looks on.
    """
    return (
        not torch.compiler.is_compiling()  # first: the compiler cannot read the rest
        and torch.is_grad_enabled() is gradients
        and not torch._C._is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._len_torch_function_stack()
        and forward_ad._current_level < 0
        and torch._C._autograd._top_saved_tensors_default_hooks(False) is None
        and not _has_any_global_hook()  # type: ignore[no-untyped-call]
    )


def is_plain_module(module: nn.Module, kernel: str | None = None) -> bool:
    """Whether leaving out the module's own call, and those of its parts, changes nothing.

    kernel: what its class must be to the C. A class says so in an attribute of its own, which a subclass does not inherit:
    `kernel = "gru"`.
    """
    if kernel is not None and vars(type(module)).get("kernel") != kernel:
        return False
    return all(
        (type(part) in _KNOWN or "kernel" in vars(type(part)))
        and not any(getattr(part, hooks) for hooks in _HOOKS)
        and not _METHODS & vars(part).keys()
        for part in module.modules()
    )


def is_plain_reader(reader: nn.Module) -> bool:
    """Whether a cell reads rows of its embedding's table and dropout, in an encoder or decoder that the C knows."""
    embedding, dropout = reader.embedding, reader.dropout
    return (
        "kernel" in vars(type(reader))
        and not _METHODS & vars(reader).keys()
        and type(dropout) is nn.Dropout
        and is_plain_module(dropout)
        and type(embedding) is nn.Embedding
        and is_plain_module(embedding)
        and embedding.max_norm is None
        and not embedding.scale_grad_by_freq
        and not embedding.sparse
    )


def is_plain_tensor(tensor: Any, dtype: torch.dtype, *shape: int) -> bool:
    """Whether it holds its own numbers, of this dtype and shape, on the CPU."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dtype == dtype
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and tensor.shape == shape
        and tensor.data_ptr() != 0
        and not tensor.is_neg()
    )
