"""The interface of every architecture: encode a source, then decode one position after another."""

from abc import abstractmethod
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from seq2attn.data.batches import Batch


class Decoded(NamedTuple):
    """The model's output at L positions."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""


class Model(nn.Module):
    """An encoder-decoder. Results do not depend on padding (unless attention does not mask it).

    Memory and state are nested tuples of tensors whose first dimension is B, and of numbers;
    callers do not look inside.
    """

    copies = False
    """True if its `<unk>` stands for a symbol of the source that the target's vocabulary lacks"""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        """Encode source (B, S), right-padded, lengths (B,): memory, what the decoder attends to,
        and its first state.
        """

    @abstractmethod
    def steps(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """Decode the L positions after tokens (B, L): logits (B, L, V), weights (B, L, S), and the
        state after them.
        """

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """Decode one position, after the last tokens (B,)."""
        return self.steps(tokens.unsqueeze(1), state, memory)

    def forward(self, batch: Batch) -> Decoded:
        """Decode with teacher forcing: logits (B, L, V) and weights (B, L, S); past a row's end
        they are undefined.
        """
        memory, state = self.encode(batch.source, batch.source_lengths)
        return self.steps(batch.decoder_input, state, memory)[0]

    def select(self, state: Any, rows: Tensor) -> Any:
        """Return the memory or state of these rows (b,), which may repeat, as in beam search."""
        return tree_map_only(Tensor, lambda tensor: tensor.index_select(0, rows), state)
