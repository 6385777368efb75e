"""Greedy decoding: the model runs on its own output until its own `<eos>`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.model.interface import Decoded, Model

ROWS = 1024  # strings decoded together at most
CELLS = 2**24  # source tokens x steps x strings whose weights are kept together at most: 64 MiB
# Source tokens decoded together at most, except for a single string, so that what a step works on fits a processor's cache.
TOKENS_ON_CPU, TOKENS = 2**13, 2**20


@dataclass(frozen=True)
class GreedyDecoding:
    """The model's output for a batch of B strings, at most T steps."""

    tokens: Tensor
    """(B, T) emitted ids; `<eos>` at the end of each row and past it"""
    lengths: Tensor
    """(B,) tokens before the `<eos>`; T where none was emitted"""
    finished: Tensor
    """(B,) True where the model emitted `<eos>`"""
    weights: Tensor | None
    """(B, T, S) attention weights, if asked for and the model has any"""


@torch.no_grad()
def greedy_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    *,
    max_steps: int,
    keep_weights: bool = False,
    watch: Callable[[int, Decoded], None] | None = None,
) -> GreedyDecoding:
    """Emit the likeliest token until each row has emitted `<eos>`, or for `max_steps`.

    source (B, S) ids, right-padded; lengths (B,). `watch` is called with each output position, from 0, and its result.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    finished = torch.zeros_like(lengths, dtype=torch.bool)
    emitted = token.new_full((len(token), max_steps), EOS)  # allocated once: growing it each step fragments memory
    weights = []
    for position in range(max_steps):
        decoded, state = model.step(token, state, memory)
        if watch is not None:
            watch(position, decoded)
        token = decoded.logits.squeeze(1).argmax(dim=1).masked_fill(finished, EOS)
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    return GreedyDecoding(
        tokens=emitted,
        lengths=(emitted != EOS).int().cumprod(dim=1).sum(dim=1),
        finished=finished,
        weights=torch.cat(weights, dim=1) if weights else None,
    )


def rows_at_once(device: torch.device, source_length: int, steps: int | None = None) -> int:
    """How many strings of one length are decoded together, so that memory stays bounded; steps: if weights are kept."""
    tokens = TOKENS_ON_CPU if device.type == "cpu" else TOKENS
    kept = ROWS if steps is None else CELLS // (source_length * steps)
    return max(1, min(ROWS, tokens // source_length, kept))
