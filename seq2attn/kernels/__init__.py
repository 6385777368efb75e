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
from seq2attn.kernels.past import convolution
from seq2attn.kernels.plain import is_plain_call, is_plain_module, is_plain_reader, is_plain_tensor

__all__ = ["SWITCH", "describe_kernels", "may_branch", "nonzero_span", "recurrence", "sparse_context", "why_slow"]

LARGE = 2**25  # B x D^2 from which on PyTorch's products on several threads are faster than the C, which uses one
_TYPES = {"tokens": torch.int64, "lengths": torch.int64, "valid": torch.bool}  # of inputs that are not numbers


def recurrence(
    reader: Any,
    tokens: Tensor,
    lengths: Tensor | None,
    cell: Any,
    state: tuple[Tensor, ...],
    attention: Any = None,
    memory: Any = None,
    *,
    past: Tensor | None = None,
    combine: Any = None,
    fed: Tensor | None = None,
    reset: Any = None,
    keep_padding: bool = False,
) -> tuple[Tensor, Any] | None:
    """All steps of a cell that reads embedded tokens (B, L), and attends if there is attention; None: go by the formulas.

    reader: the encoder or decoder, whose `embedding` and `dropout` the tokens pass before the cell reads them.
    lengths (B,): real tokens of each row; None: all. state: the first, tensors (B, D).
    past (B, C, S): the first of the attention's history, if it has one.
    combine: W_c of `luong`, which steps, then attends. None: the cell attends, then steps, and reads the context.
    fed (B, D): the first attentional vector, where the cell reads the one before; None: it does not.
    reset: which states are replaced by noise, if any. keep_padding: outputs past a row's end are wanted too.
    Without `attention`: outputs (B, L, D), and the one at each row's end (B, D). With it: outputs beside contexts
    (B, L, D + Dc), with `combine` attentional vectors (B, L, D), and attention weights (B, L, S), or None if it has none.

    The formulas take over for everything but the plain case: gradients wanted, CPU, one layer of GRU, and attention without
    window, by a score and a history that the C knows, with zeros for `past` and `fed`; no hooks, tracing, export, function
    transforms or other modes of torch, no subclasses of a module or tensor, one dtype for all of float32 and float64.
    """
    if not is_plain_call() or not is_plain_module(cell, "gru") or not is_plain_reader(reader):
        return None
    attends = attention is not None and not is_plain_module(attention, "none")
    inputs = _known_inputs(
        reader, tokens, lengths, cell, state, attention if attends else None, memory, past, combine, fed
    )
    kernels = None if inputs is None else load(inputs["embedding"].dtype)
    if inputs is None or not isinstance(kernels, Kernels):
        return None
    (rows, steps), width = tokens.shape, cell.width
    if reset is not None:
        inputs |= {"kept": reset.kept, "noise": reset.noise[:, :, :width].to(state[0].dtype)}
    if reader.dropout.training and reader.dropout.p:
        # a token's embedding differs from place to place: a table of places
        inputs["embedding"] = reader.dropout(reader.embedding(tokens)).flatten(0, 1)  # (B L, E)
        inputs["tokens"] = torch.arange(rows * steps).view(rows, steps)
    until = inputs["lengths"] = None if keep_padding or not _is_descending(lengths, steps) else lengths
    if attends:
        return attentive_gru(kernels, inputs)
    outputs, last = gru(kernels, inputs)
    if attention is not None:
        return outputs, None
    if until is None and lengths is not None:
        last = outputs.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, width)).squeeze(1)
    return outputs, last


def _known_inputs(
    reader: Any,
    tokens: Tensor,
    lengths: Tensor | None,
    cell: Any,
    state: tuple[Tensor, ...],
    attention: Any,
    memory: Any,
    past: Tensor | None,
    combine: Any,
    fed: Tensor | None,
) -> dict[str, Any] | None:
    """What the C computes from, by the names in binding.py; None: it is not as the C expects it."""
    table = _without_gradient_of(reader.embedding.padding_idx, reader.embedding.weight)
    (rows, steps), width, read = tokens.shape, cell.width, 0
    parts: dict[str, tuple[Any, tuple[int, ...]]] = {  # with the shapes that they must have
        "tokens": (tokens, (rows, steps)),
        "embedding": (table, table.shape),
        "initial": (state[0], (rows, width)),
    }
    if lengths is not None:
        parts["lengths"] = (lengths, (rows,))
    known = rows * steps > 0 and (rows * width**2 < LARGE or torch.get_num_threads() == 1)
    if attention is not None:
        known = known and _is_known_attention(attention, memory)
        parts |= _attended(attention, memory, past, rows, width) if known else {}
        read = memory.values.size(-1) + (0 if attention.history is None else attention.history.read_width)
    if combine is not None:
        known = known and attention is not None and is_plain_module(combine) and combine.bias is None
        parts["combine"] = (combine.weight, (width, read + width))
        read = 0
        if fed is not None:
            parts["fed"], read = (fed, (rows, width)), width
    gates = {"weight_ih": (table.size(1) + read,), "weight_hh": (width,), "bias_ih": (), "bias_hh": ()}
    parts |= {name: (cell.weight(name), (3 * width, *columns)) for name, columns in gates.items()}
    if not known or not all(
        is_plain_tensor(one, _TYPES.get(name, table.dtype), *shape) for name, (one, shape) in parts.items()
    ):
        return None
    inputs = {name: one for name, (one, _) in parts.items()}
    if any(
        first.requires_grad or first.any() for name in ("past", "fed") if (first := inputs.pop(name, None)) is not None
    ):
        return None
    if combine is not None:
        inputs["combine"] = combine.weight.roll(width, 1)  # of [c; s] -> of [s; c]
    made = {} if attention is None else convolution(attention.history, attention.score.feature_width, table.dtype)
    return None if made is None else inputs | made


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


def _is_known_attention(attention: Any, memory: Any) -> bool:
    """Whether it is a softmax over the scores of projected keys, perhaps changed by a history, and no more."""
    if not is_plain_module(attention, "softmax") or memory.keys.dim() != 3 or memory.values.dim() != 3:
        return False
    score = attention.score
    additive = score.kernel == "additive" and score.query_map.bias is None and score.v.bias is None
    return (additive or score.kernel == "product") and attention.window is None and memory.intervention is None


def _attended(
    attention: Any, memory: Any, past: Tensor | None, rows: int, width: int
) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """The inputs for attention, with the shapes that they must have."""
    score, keys, values, history = attention.score, memory.keys, memory.values, attention.history
    count, key_width = keys.size(1), keys.size(2) if attention.score.kernel == "additive" else width
    parts: dict[str, tuple[Any, tuple[int, ...]]] = {
        "keys": (keys, (rows, count, key_width)),
        "values": (values, (rows, count, values.size(2))),
        "valid": (memory.valid, (rows, 1, count)),
        "scale": (memory.scale, (rows, 1, 1)),
    }
    if score.kernel == "additive":
        parts |= {"query_weight": (score.query_map.weight, (key_width, width)), "v": (score.v.weight, (1, key_width))}
    if history is not None:
        parts["past"] = (past, (rows, history.channels, count))
    return {name: part for name, part in parts.items() if part[0] is not None or name not in ("valid", "scale")}
