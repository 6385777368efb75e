"""`recurrence` and `attentive_recurrence` by the kernels in C: the same numbers but for rounding, sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import Field, Kernels
from seq2attn.kernels.packing import Packing
from seq2attn.model.masks import additive_mask
from seq2attn.model.scores import Score
from seq2attn.model.scores.additive import Additive
from seq2attn.model.scores.multiplicative import MultiplicativeScore

if TYPE_CHECKING:
    from seq2attn.model.attention import Memory
    from seq2attn.model.recurrence import GRUWeights


def compiled_gru(
    kernels: Kernels, tokens: Tensor, weights: GRUWeights, state: Tensor, packing: Packing
) -> tuple[Tensor, Tensor]:
    """As `gru_recurrence`."""
    results: tuple[Tensor, Tensor] = _CompiledRecurrence.apply(  # type: ignore[no-untyped-call]
        kernels, packing, packing.pack(tokens), *weights, state, *[None] * 6
    )
    return results


def compiled_attentive_gru(
    kernels: Kernels,
    tokens: Tensor,
    weights: GRUWeights,
    state: Tensor,
    packing: Packing,
    score: Score,
    memory: Memory,
) -> tuple[Tensor, Tensor]:
    """As `attentive_gru_recurrence`, of a score that `is_compiled`."""
    mask = None if memory.valid is None else additive_mask(memory.valid, memory.values.dtype)
    additive = (score.query_map.weight, score.v.weight.squeeze(0)) if isinstance(score, Additive) else (None, None)
    results: tuple[Tensor, Tensor] = _CompiledRecurrence.apply(  # type: ignore[no-untyped-call]
        kernels,
        packing,
        packing.pack(tokens),
        *weights,
        state,
        memory.keys / 2 if isinstance(score, Additive) else memory.keys,  # the additive score doubles its keys
        memory.values,
        mask,
        memory.scale,
        *additive,
    )
    return results


def is_compiled(score: Score, memory: Memory, weights: GRUWeights, state: Tensor) -> bool:
    """Whether the kernels know how this score is computed: as `additive` is, or as a product with projected keys.

    One that is derived from those and does it in a way of its own they do not know, nor what is of another shape than
    keys (B, S, D or D_a), values (B, S, Dv), valid (B, 1, S), and a GRU that reads E + Dv numbers.
    """
    keys, values, valid = memory.keys, memory.values, memory.valid
    if isinstance(score, MultiplicativeScore):
        own = (type(score).forward, type(score).stepwise) != (MultiplicativeScore.forward, MultiplicativeScore.stepwise)
        width = state.size(1)
    else:
        own = type(score) is not Additive
        width = score.feature_width
    rows, count = len(state), keys.size(1) if keys.dim() > 1 else 0
    fits = (
        keys.shape == (rows, count, width)
        and values.shape == (rows, count, weights.weight_ih.size(1) - weights.embedding.size(1))
        and (valid is None or valid.shape == (rows, 1, count))
        and keys.dtype == values.dtype == state.dtype
    )
    return fits and not own


class _CompiledRecurrence(torch.autograd.Function):
    """-> states (B, L, D) and each row's last one (B, D), or with attention [s; c] (N, D + Dv) and weights (B, L, S)."""

    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        packing: Packing,
        tokens: Tensor,
        embedding: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        state: Tensor,
        keys: Tensor | None,
        values: Tensor | None,
        mask: Tensor | None,
        scale: Tensor | None,
        query_weight: Tensor | None,
        v: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        (rows, width), count = state.shape, tokens.size(0)
        fields: dict[str, Field] = {
            "steps": packing.steps,
            "rows": rows,
            "width": width,
            "vocabulary": embedding.size(0),
            "embedding_width": embedding.size(1),
            "sizes": packing.counts,
            "offsets": packing.offsets,
            "tokens": tokens,
            "embedding": embedding,
            "weight_ih": weight_ih,
            "weight_hh": weight_hh,
            "bias_ih": bias_ih,
            "bias_hh": bias_hh,
            "initial": state,
            "gates": state.new_empty(count, 4 * width),
        }
        if keys is None or values is None:
            states, weights = state.new_empty(rows, packing.steps, width), None
            fields |= {"states": states, "state_stride": packing.steps * width, "step_stride": width}
        else:
            context_width = values.size(2)
            states = state.new_empty(count, width + context_width)
            weights = state.new_zeros(rows, packing.steps, keys.size(1))
            fields |= {
                "states": states,
                "state_stride": width + context_width,
                "key_count": keys.size(1),
                "key_width": keys.size(2),
                "context_width": context_width,
                "keys": keys,
                "values": values,
                "mask": mask,
                "scale": scale,
                "weights": weights,
                "query_weight": query_weight,
                "v": v,
                "queries": None if v is None else state.new_empty(count, v.size(0)),
            }
        fields = {name: field.contiguous() if isinstance(field, Tensor) else field for name, field in fields.items()}
        kernels.forward(**fields)
        ctx.kernels, ctx.packing = kernels, packing
        ctx.numbers = {name: field for name, field in fields.items() if not isinstance(field, Tensor)}
        tensors = {name: field for name, field in fields.items() if isinstance(field, Tensor)}
        ctx.names = list(tensors)
        ctx.save_for_backward(*tensors.values())
        ctx.set_materialize_grads(False)
        return states, states[:, -1].clone() if weights is None else weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor | None, grad_other: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        states, state = tensors["states"], tensors["initial"]
        grads = torch.zeros_like(states)  # to which the steps add
        if grad_states is not None:
            grads.copy_(grad_states)
        wanted = ["embedding", "weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        gradients: dict[str, Field] = {"grad_states": grads}
        if ctx.needs_input_grad[8]:
            wanted.append("initial")
        if "weights" in tensors:
            wanted += ["keys", "values"]
            gradients["grad_weights"] = None if grad_other is None else grad_other.contiguous()
        elif grad_other is not None:
            grads[ctx.packing.last] += grad_other
        if "v" in tensors:
            wanted += ["query_weight", "v"]
        sizes = [tensors[name].numel() for name in wanted]
        parts = state.new_zeros(sum(sizes)).split_with_sizes(sizes)  # one buffer: an allocation each would cost more
        gradients |= {f"grad_{name}": part for name, part in zip(wanted, parts, strict=True)}
        ctx.kernels.backward(**ctx.numbers, **tensors, **gradients)
        found: list[Any] = [
            part.view_as(tensors[name]) if isinstance(part := gradients.get(f"grad_{name}"), Tensor) else None
            for name in (*_OF_INPUTS, *_OF_ATTENTION)
        ]
        return None, None, None, *found


_OF_INPUTS = ("embedding", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "initial")
_OF_ATTENTION = ("keys", "values", "mask", "scale", "query_weight", "v")
