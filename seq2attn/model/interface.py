"""The interface of every architecture: encode a source, then decode one position after another.

Shapes: B strings of a batch, S source positions, padding included, L output positions, V symbols of
the target, D the width of a state.
"""

from abc import abstractmethod
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.data.vocabulary import EOS, UNK


class Decoded(NamedTuple):
    """The model's output at L positions, in float32 at least, whatever the model's dtype."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""
    states: Tensor | None = None
    """(B, L, D) `decoder.state` of the top layer, h of an LSTM, where a loss asks for it"""


HALF = (torch.bfloat16, torch.float16)
Numbers = TypeVar("Numbers", Tensor, Tensor | None)


def at_least_float32(numbers: Numbers) -> Numbers:
    """Return a tensor in float32 if its dtype is a shorter one, as under autocast."""
    return numbers.float() if numbers is not None and numbers.dtype in HALF else numbers


class Model(nn.Module):
    """An encoder-decoder. Results do not depend on padding (unless attention does not mask it).

    Memory and state are nested tuples of tensors whose first dimension is B, and of numbers;
    callers do not look inside.
    """

    copies = False
    """True if its `<unk>` stands for a symbol of the source that the target's vocabulary lacks"""
    unknown = False
    """True if the target's vocabulary has an `<unk>`"""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        """Encode source (B, S) ids, right-padded; lengths: (B,) real tokens. Returns the memory,
        which the decoder attends to, and the decoder's first state.
        """

    @abstractmethod
    def steps(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """Decode L positions: logits (B, L, V), weights (B, L, S), and the state after them.

        tokens (B, L): for each position the token before it, `<sos>` for the first of a string.
        """

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """Decode one position, after the last tokens (B,)."""
        return self.steps(tokens.unsqueeze(1), state, memory)

    def choices(self, logits: Tensor, memory: Any) -> Tensor:
        """Return logits, or log-probabilities, (B, L, V) with -inf for what no output may have:
        `<pad>`, `<sos>`, and `<unk>` unless a symbol of the source is copied in its place.

        Decoding chooses from these; losses and the probabilities of outputs are computed from the
        logits as they are.
        """
        ids = torch.arange(logits.size(-1), device=logits.device)  # (V,)
        never = ids < EOS  # `<pad>` and `<sos>`, the ids before it
        if self.unknown:
            never = never | (ids == UNK) & ~self.has_copyable(memory)
        return logits.masked_fill(never, -torch.inf)

    def has_copyable(self, memory: Any) -> Tensor:
        """Return which sources have a symbol that the target's vocabulary lacks, and that an output
        `<unk>` may copy: bool (B, 1, 1), or () for all alike. The default: () `copies`.
        """
        return torch.tensor(self.copies)

    def forward(self, batch: Batch) -> Decoded:
        """Decode with teacher forcing: logits (B, L, V) and weights (B, L, S), which past the end
        of a row's target are undefined.
        """
        memory, state = self.encode(batch.source, batch.source_lengths)
        return self.steps(batch.decoder_input, state, memory)[0]

    def select(self, state: Any, rows: Tensor) -> Any:
        """Return the memory or state of these rows of the batch (b,), which may repeat: beam search
        goes on from the best hypotheses, perhaps from one of them several times.
        """
        if isinstance(state, Tensor):
            return state.index_select(0, rows)
        if isinstance(state, dict):
            return {name: self.select(part, rows) for name, part in state.items()}
        if isinstance(state, list | tuple):
            make = getattr(state, "_make", type(state))  # a NamedTuple takes no list
            return make([self.select(part, rows) for part in state])
        return state  # a number, or None
