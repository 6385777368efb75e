"""A faster way through the recurrence of training: the same numbers but for rounding, from C on a CPU.

`recurrence` is all that the model calls. The formulas are in `seq2attn/model/`; without this package they do all the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import Kernels
from seq2attn.kernels.function import attentive_gru, gru
from seq2attn.kernels.inference import may_branch, nonzero_span, sparse_context
from seq2attn.kernels.library import SWITCH, load, why_slow
from seq2attn.kernels.library import describe as describe_kernels
from seq2attn.kernels.plain import is_plain_call, is_plain_module, is_plain_reader, is_plain_tensor

__all__ = ["SWITCH", "describe_kernels", "may_branch", "nonzero_span", "recurrence", "sparse_context", "why_slow"]

LARGE = 2**22  # B x D^2 from which on PyTorch's products on several threads are as fast as the C, which uses one


def recurrence(
    reader: Any,
    tokens: Tensor,
    lengths: Tensor | None,
    cell: Any,
    state: tuple[Tensor, ...],
    attention: Any = None,
    memory: Any = None,
    *,
    keep_padding: bool = False,
) -> tuple[Tensor, Any] | None:
    """All steps of a cell that reads embedded tokens (B, L), and contexts if it attends; None: go by the formulas.

    reader: the encoder or decoder, whose `embedding` and `dropout` the tokens pass before the cell reads them.
    lengths (B,): real tokens of each row; None: all. state: the first, tensors (B, D).
    keep_padding: outputs past a row's end are wanted too.
    Without `attention`: outputs (B, L, D), and the one at each row's end (B, D). With it: outputs beside contexts
    (B, L, D + Dv), and attention weights (B, L, S), or None if it has none.

    The formulas take over for everything but the plain case: gradients wanted, CPU, one layer of GRU, and attention without
    window or history by a score that the C knows; no hooks, tracing, export, function transforms or other modes of torch, no
    subclasses of a module or tensor, one dtype for all of float32 and float64.
    """
    if not is_plain_call() or not is_plain_module(cell, "gru") or not is_plain_reader(reader):
        return None
    table = _without_gradient_of(reader.embedding.padding_idx, reader.embedding.weight)
    dtype, rows, steps, width = table.dtype, *tokens.shape, cell.width
    attends = attention is not None and not is_plain_module(attention, "none")
    read = table.size(1) + (memory.values.size(2) if attends else 0)
    weights = [table, *map(cell.weight, ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))]
    shapes = (table.shape, (3 * width, read), (3 * width, width), (3 * width,), (3 * width,))
    known = (
        rows * steps > 0
        and is_plain_tensor(tokens, torch.int64, rows, steps)
        and (lengths is None or is_plain_tensor(lengths, torch.int64, rows))
        and is_plain_tensor(state[0], dtype, rows, width)
        and all(is_plain_tensor(weight, dtype, *shape) for weight, shape in zip(weights, shapes, strict=True))
        and (not attends or _is_known_attention(attention, memory, dtype, rows, width))
    )
    if not known or (rows * width**2 >= LARGE and torch.get_num_threads() > 1):
        return None
    kernels = load(dtype)
    if not isinstance(kernels, Kernels):
        return None
    if (
        reader.dropout.training and reader.dropout.p
    ):  # a token's embedding differs from place to place: a table of places
        weights[0] = reader.dropout(reader.embedding(tokens)).flatten(0, 1)  # (B L, E)
        tokens = torch.arange(rows * steps).view(rows, steps)
    until = None if keep_padding or not _is_descending(lengths, steps) else lengths
    if attends:
        return attentive_gru(kernels, tokens, until, weights, state[0], attention.score, memory)
    outputs, last = gru(kernels, tokens, until, weights, state[0])
    if attention is not None:
        return outputs, None
    if until is None and lengths is not None:
        last = outputs.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, width)).squeeze(1)
    return outputs, last


def _without_gradient_of(row: int | None, table: Tensor) -> Tensor:
    """An embedding's table (V, E), whose gradient leaves out a row: that of its `padding_idx`."""
    if row is None:
        return table
    fixed = torch.arange(len(table), device=table.device) == row
    return torch.where(fixed.unsqueeze(1), table.detach(), table)


def _is_descending(lengths: Tensor | None, steps: int) -> bool:
    """Whether rows come longest first, each of 1 to `steps` tokens: then those that have ended take no part."""
    if lengths is None:
        return False
    counts = lengths.tolist()
    return bool(steps >= counts[0] and counts[-1] >= 1 and counts == sorted(counts, reverse=True))


def _is_known_attention(attention: Any, memory: Any, dtype: torch.dtype, rows: int, width: int) -> bool:
    """Whether it is a softmax over the scores of projected keys (B, S, D or D_a) and values (B, S, Dv), and no more."""
    score, keys, values = attention.score, memory.keys, memory.values
    if not is_plain_module(attention, "softmax") or attention.window is not None or attention.history is not None:
        return False
    count, key_width = keys.shape[1:] if keys.dim() == 3 else (0, 0)
    if score.kernel == "additive":
        fits = is_plain_tensor(score.query_map.weight, dtype, key_width, width)
        fits = fits and is_plain_tensor(score.v.weight, dtype, 1, key_width)
        fits = fits and score.query_map.bias is None and score.v.bias is None
    else:
        fits = score.kernel == "product" and key_width == width
    return (
        fits
        and memory.intervention is None
        and is_plain_tensor(keys, dtype, rows, count, key_width)
        and is_plain_tensor(values, dtype, rows, count, values.size(-1))
        and (memory.valid is None or is_plain_tensor(memory.valid, torch.bool, rows, 1, count))
        and (memory.scale is None or is_plain_tensor(memory.scale, dtype, rows, 1, 1))
    )
