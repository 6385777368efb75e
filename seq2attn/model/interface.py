"""The interface of every architecture: encode a source, then decode one position after another."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from seq2attn.model.intervention import Intervention
from seq2attn.model.resets import Resets

if TYPE_CHECKING:
    from seq2attn.data.batches import Batch


class Decoded(NamedTuple):
    """The model's output at L positions."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""


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
