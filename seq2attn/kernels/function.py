"""The recurrences in C as differentiable functions of tensors. What they are given was checked by `recurrence`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2attn.kernels.binding import Field, Kernels
from seq2attn.kernels.packing import Packing


def gru(
    kernels: Kernels, tokens: Tensor, weights: tuple[Tensor, ...], state: Tensor, packing: Packing
) -> tuple[Tensor, Tensor]:
    """Outputs (B, L, D) and each row's last one (B, D).

    tokens (B, L); weights: embedding (V, E), weight_ih (3D, E), weight_hh (3D, D), bias_ih and bias_hh (3D,); state (B, D).
    Where a row takes no part it keeps its last output; gradients do not pass there.
    """
    results: tuple[Tensor, Tensor] = _Recurrence.apply(  # type: ignore[no-untyped-call]
        kernels, packing, packing.pack(tokens), *weights, state, *[None] * 6
    )
    return results


def attentive_gru(
    kernels: Kernels,
    tokens: Tensor,
    weights: tuple[Tensor, ...],
    state: Tensor,
    packing: Packing,
    score: Any,
    memory: Any,
) -> tuple[Tensor, Tensor]:
    """Outputs beside contexts (B, L, D + Dv) and attention weights (B, L, S); weight_ih is (3D, E + Dv)."""
    mask = None
    if memory.valid is not None:  # to be added to the scores
        lowest = torch.finfo(memory.values.dtype).min
        mask = torch.zeros(memory.valid.shape, dtype=memory.values.dtype).masked_fill_(~memory.valid, lowest)
    additive = (score.query_map.weight, score.v.weight.squeeze(0)) if score.kernel == "additive" else (None, None)
    features, attended = _Recurrence.apply(  # type: ignore[no-untyped-call]
        kernels,
        packing,
        packing.pack(tokens),
        *weights,
        state,
        memory.keys,
        memory.values,
        mask,
        memory.scale,
        *additive,
    )
    return packing.unpack(features), attended


class _Recurrence(torch.autograd.Function):
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
            "sizes": packing.sizes,
            "offsets": packing.offsets,
            "tokens": tokens,
            "embedding": embedding,
            "weight_ih": weight_ih,
            "weight_hh": weight_hh,
            "bias_ih": bias_ih,
            "bias_hh": bias_hh,
            "initial": state,
            "gates": state.new_empty(count, 4 * width),
            "befores": state.new_empty(count, width),
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
                "keys": keys.size(1),
                "key_width": keys.size(2),
                "context_width": context_width,
                "projected": keys,
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
    def backward(ctx: Any, grad_states: Tensor | None, grad_other: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; unlike once_differentiable this cannot be missed
            raise RuntimeError("gradients of the compiled recurrence have no gradients; set SEQ2ATTN_KERNELS=off for them")
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        states, state = tensors["states"], tensors["initial"]
        grads = torch.zeros_like(states)  # to which the steps add
        if grad_states is not None:
            grads.copy_(grad_states)
        gradients: dict[str, Field] = {
            "grad_states": grads,
            "grad_gates": torch.empty_like(tensors["gates"]),
            "grad_initial": torch.zeros_like(state) if ctx.needs_input_grad[8] else None,
        }
        wanted = ["embedding", "weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        if "weights" in tensors:
            wanted += ["projected", "values", "scores"]
            gradients["grad_weights"] = None if grad_other is None else grad_other.contiguous()
        elif grad_other is not None:
            grads[ctx.packing.last] += grad_other
        if "v" in tensors:
            wanted += ["query_weight", "v", "queries"]
        gradients |= {
            f"grad_{name}": torch.zeros_like(tensors["weights" if name == "scores" else name]) for name in wanted
        }
        ctx.kernels.backward(**ctx.numbers, **tensors, **gradients)
        of_inputs = ("embedding", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "initial")
        of_attention = ("projected", "values", "mask", "scale", "query_weight", "v")
        found: list[Any] = [gradients.get(f"grad_{name}") for name in (*of_inputs, *of_attention)]
        return None, None, None, *found
