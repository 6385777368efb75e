"""A faster way through the recurrence of training: the same numbers but for rounding, from C on a CPU.

`recurrence` is all that the model calls. The formulas are in `seq2attn/model/`; without this package they do all the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.kernels.binding import Kernels
from seq2attn.kernels.function import attentive_gru, gru
from seq2attn.kernels.library import describe, load, why_slow
from seq2attn.kernels.packing import pack
from seq2attn.kernels.plain import is_plain_call, is_plain_module, is_plain_reader, is_plain_tensor

__all__ = ["describe", "recurrence", "why_slow"]

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
    lengths (B,): real tokens of each row, at least 1; None: all. state: the first, tensors (B, D).
    keep_padding: outputs past a row's end are wanted too.
    Without `attention`: outputs (B, L, D), and the one at each row's end (B, D). With it: outputs beside contexts
    (B, L, D + Dv), and attention weights (B, L, S), or None if it has none.

    The formulas take over for everything but the plain case: gradients wanted, CPU, one layer of GRU, and attention without
    window or history by a score that the C knows; no hooks, tracing, export, function transforms or other modes of torch, no
    subclasses of a module or tensor, no dropout, one dtype for all of float32 and float64.
    """
    if not is_plain_call() or not is_plain_module(cell, "gru") or not is_plain_reader(reader):
        return None
    embedding: nn.Embedding = reader.embedding
    dtype, (rows, steps) = embedding.weight.dtype, tokens.shape
    attends = attention is not None and not is_plain_module(attention, "none")
    context_width = memory.values.size(2) if attends else 0
    weights = (embedding.weight, *(cell.weight(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
    known = (
        _are_gru_weights(weights, cell.width, context_width)
        and is_plain_tensor(tokens, torch.int64, rows, steps)
        and (lengths is None or is_plain_tensor(lengths, torch.int64, rows))
        and is_plain_tensor(state[0], dtype, rows, cell.width)
        and (not attends or _is_known_attention(attention, memory, dtype, rows, cell.width))
    )
    if not known or not rows or not steps:
        return None
    kernels = load(dtype)
    if not isinstance(kernels, Kernels) or (rows * cell.width**2 >= LARGE and torch.get_num_threads() > 1):
        return None
    packing = pack(tokens, None if keep_padding else lengths)
    if attends:
        return attentive_gru(kernels, tokens, weights, state[0], packing, attention.score, memory)
    outputs, last = gru(kernels, tokens, weights, state[0], packing)
    if attention is not None:
        return outputs, None
    if lengths is not None and packing.is_whole:
        last = outputs.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, cell.width)).squeeze(1)
    return outputs, last


def _are_gru_weights(weights: tuple[Tensor, ...], width: int, context_width: int) -> bool:
    vocabulary, embedding = weights[0].shape
    rows = 3 * width
    shapes = ((vocabulary, embedding), (rows, embedding + context_width), (rows, width), (rows,), (rows,))
    dtype = weights[0].dtype
    return all(is_plain_tensor(weight, dtype, *shape) for weight, shape in zip(weights, shapes, strict=True))


def _is_known_attention(attention: Any, memory: Any, dtype: torch.dtype, rows: int, width: int) -> bool:
    """Whether it is a softmax over the scores of projected keys (B, S, D or D_a) and values (B, S, Dv), and no more."""
    score, keys, values = attention.score, memory.keys, memory.values
    plain = is_plain_module(attention, "softmax") and attention.window is None and attention.history is None
    if not plain or keys.dim() != 3:
        return False
    if is_plain_module(score, "additive"):
        inner = (score.query_map.weight, score.v.weight)
        key_width = keys.size(2)
        fits = is_plain_tensor(inner[0], dtype, key_width, width) and is_plain_tensor(inner[1], dtype, 1, key_width)
        fits = fits and score.query_map.bias is None and score.v.bias is None
    else:
        key_width, fits = width, is_plain_module(score, "product")
    return (
        fits
        and is_plain_tensor(keys, dtype, rows, keys.size(1), key_width)
        and is_plain_tensor(values, dtype, rows, keys.size(1), values.size(2))
        and (memory.valid is None or is_plain_tensor(memory.valid, torch.bool, rows, 1, keys.size(1)))
        and (memory.valid is None or bool(memory.valid[:, 0, 0].all()))  # every row has something to attend to
        and (memory.scale is None or is_plain_tensor(memory.scale, dtype, rows, 1, 1))
    )
