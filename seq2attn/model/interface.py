"""The interface of every architecture: encode a source, then decode one position after another."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.resets import Resets

if TYPE_CHECKING:
    from seq2attn.data.batches import Batch


class Decoded(NamedTuple):
    """The model's output at L positions."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""


class Intervention(NamedTuple):
    """What is changed at one output position of B strings; `Model.intervene` puts it into their memory.

    Scores are divided by the temperature; banned keys are left out of the softmax, as padding is; then the weights of some
    keys are set. The context, and what a history remembers, follow from the changed weights. The Transformer is changed in
    every head of every layer of its cross-attention.
    """

    banned: Tensor
    """(B, 1, S) True = the key may not be attended to"""
    forced: Tensor
    """(B, 1, S) True = the key's weight is set, whether or not it is banned, padding or outside the window"""
    weights: Tensor
    """(B, 1, S) the weights to set, from 0 to 1; others are not read"""
    temperature: Tensor
    """(B, 1, 1) positive; below 1 attention is sharper, above 1 it is flatter"""
    valid: Tensor | None = None
    """(B, 1, S) takes the place of the padding mask; None: the mask of the memory"""

    def for_heads(self) -> Intervention:
        """The same with (B, 1, 1, ...) in place of (B, 1, ...), for scores (B, H, 1, S)."""
        valid = None if self.valid is None else self.valid.unsqueeze(1)
        banned, forced, weights, temperature = (part.unsqueeze(1) for part in self[:4])
        return Intervention(banned, forced, weights, temperature, valid)

    def allowed(self, valid: Tensor | None) -> Tensor:
        """valid (B, 1, S), the memory's mask, None: all keys -> (B, 1, S), the keys that may be attended to."""
        valid = valid if self.valid is None else self.valid
        return ~self.banned if valid is None else valid & ~self.banned

    def set_weights(self, weights: Tensor) -> Tensor:
        """The weights (B, 1, S) with some set, and the others scaled to sum to what those leave of 1.

        Where the others are all 0 they stay 0. A row in which none is set is unchanged, whatever its sum.
        """
        others = weights.masked_fill(self.forced, 0.0)
        left = 1 - self.weights.masked_fill(~self.forced, 0.0).sum(dim=-1, keepdim=True)  # (B, 1, 1)
        least = torch.finfo(weights.dtype).tiny
        others = others * (left.clamp(min=0) / others.sum(dim=-1, keepdim=True).clamp(min=least))
        changed = torch.where(self.forced, self.weights, others)
        return torch.where(self.forced.any(dim=-1, keepdim=True), changed, weights)


class Model(nn.Module):
    """An encoder-decoder. Results do not depend on padding (unless attention does not mask it).

    Memory and state are nested tuples of tensors whose first dimension is B; callers do not look inside.
    """

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        """source (B, S), right-padded, lengths (B,) -> memory, what the decoder attends to, and its first state."""

    @abstractmethod
    def forward(self, batch: Batch, resets: Resets | None = None) -> Decoded:
        """Teacher forcing: the logits (B, L, V) and weights (B, L, S) of a batch; past a row's end they are undefined.

        resets: of the recurrent states, in training; None: none.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """One output position: the last tokens (B,) -> logits (B, 1, V), weights (B, 1, S), and the next state."""

    def intervene(self, memory: Any, intervention: Intervention) -> Any:
        """The memory with which the next `step` attends as changed by `intervention`. Without attention: no change."""
        return memory._replace(intervention=intervention)

    def select(self, state: Any, rows: Tensor) -> Any:
        """Memory or state of these rows (b,), which may repeat, as in beam search."""
        if isinstance(state, Tensor):
            return state if state.dim() == 0 else state.index_select(0, rows)
        if isinstance(state, tuple):
            parts = (self.select(part, rows) for part in state)
            return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
        return state
