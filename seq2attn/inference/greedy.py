"""Greedy decoding: the model reads its own output until it emits `<eos>`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.intervention import Intervention

MAX_ROWS = 1024  # strings decoded together
MAX_WEIGHTS = 2**24  # attention weights kept together: 64 MiB
# Source tokens decoded together, except for a single string; self-attention needs memory for the square of a length.
MAX_TOKENS_ON_CPU, MAX_TOKENS_OF_SELF_ATTENTION, MAX_TOKENS = 2**17, 2**13, 2**20


@dataclass(frozen=True)
class Decoding:
    """Outputs of B strings, at most T steps."""

    tokens: Tensor  # (B, T) emitted ids; `<eos>` at the end of each row and past it
    lengths: Tensor  # (B,) tokens before the `<eos>`; T if there is none
    finished: Tensor  # (B,) True where the model emitted `<eos>`
    weights: Tensor | None  # (B, T, S) attention weights, if requested and the model has any


@torch.no_grad()
def greedy_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    *,
    max_steps: int,
    keep_weights: bool = False,
    watch: Callable[[int, Decoded], None] | None = None,
    intervene: Callable[[int], Intervention] | None = None,
    write: Mapping[int, int] | None = None,
) -> Decoding:
    """Emit the likeliest token until each row has emitted `<eos>`, or for `max_steps`.

    source (B, S) ids, right-padded; lengths (B,). `watch` is called with each output position, from 0, and its result.
    `intervene` gives the intervention of each position; `write` the ids that some emit in place of the likeliest.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    finished = torch.zeros_like(lengths, dtype=torch.bool)
    emitted = token.new_full((len(token), max_steps), EOS)  # allocated once: growing it at each step fragments memory
    weights = []
    for position in range(max_steps):
        if intervene is not None:
            memory = model.intervene(memory, intervene(position))
        decoded, state = model.step(token, state, memory)
        if watch is not None:
            watch(position, decoded)
        token = decoded.logits.squeeze(1).argmax(dim=1)
        if write is not None and position in write:
            token = torch.full_like(token, write[position])
        token = token.masked_fill(finished, EOS)
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    return Decoding(
        tokens=emitted,
        lengths=(emitted != EOS).int().cumprod(dim=1).sum(dim=1),
        finished=finished,
        weights=torch.cat(weights, dim=1) if weights else None,
    )


def rows_at_once(
    model: nn.Module, device: torch.device, source_length: int, steps: int | None = None, *, width: int = 1
) -> int:
    """How many strings of one length to decode together, to bound memory.

    steps: the longest output, if weights are kept; width: hypotheses of each string.
    """
    tokens = MAX_TOKENS
    if device.type == "cpu":
        attends_to_itself = any(isinstance(part, nn.TransformerEncoderLayer) for part in model.modules())
        tokens = MAX_TOKENS_OF_SELF_ATTENTION if attends_to_itself else MAX_TOKENS_ON_CPU
    kept = MAX_ROWS if steps is None else MAX_WEIGHTS // (source_length * steps)
    return max(1, min(MAX_ROWS, tokens // source_length, kept) // width)
