"""The interface of every architecture: encode a source, then decode one position after another. And
losses: what training minimises, computed from the outputs and the right ones.

Shapes: B strings of a batch, S source positions, padding included, L output positions, V symbols of
the target, D the width of a state.
"""

import inspect
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.data.vocabulary import EOS, PAD, UNK
from seq2attn.parts import LOSSES
from seq2attn.registry import Registry
from seq2attn.torch_private import tree_map


class Decoded(NamedTuple):
    """The model's output at L positions, in float32 at least, whatever the model's dtype."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""
    states: Tensor | None = None
    """(B, L, D) `decoder.state` of the top layer, h of an LSTM, where a loss asks for it"""


Numbers = TypeVar("Numbers", Tensor, Tensor | None)


def at_least_float32(numbers: Numbers) -> Numbers:
    """Return a tensor in float32 if its dtype is a shorter one, as under autocast."""
    if numbers is not None and numbers.dtype in (torch.bfloat16, torch.float16):
        return numbers.float()
    return numbers


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

        def of_rows(part: Any) -> Any:
            # anything but a tensor is a number or None
            return part.index_select(0, rows) if isinstance(part, Tensor) else part

        return tree_map(of_rows, state)


# ---- losses ----


class Loss(ABC):
    """One term of what training minimises: the sum of all, each times its weight.

    It has no parameters and keeps nothing between calls. The constructor takes the options as
    keywords.
    """

    registry: ClassVar[Registry] = LOSSES
    needs_attention = False
    """True if it reads `decoded.weights`"""
    needs_alignment = False
    """True if it reads `batch.alignment`"""

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight

    @abstractmethod
    def forward(self, decoded: Decoded, batch: Batch) -> Tensor:
        """Compute the loss, (), of logits (B, L, V) and attention weights (B, L, S); both are
        undefined where `batch.decoder_output` (B, L) is `<pad>`, 0.

        A parameter named `step` gets the number of the training step, from 0; one named `states`
        the states (B, L, D) with which the decoder begins its steps.
        """

    @cached_property
    def asks(self) -> list[str]:
        """Which of `step` and `states` `forward` has as parameters."""
        parameters = inspect.signature(self.forward).parameters
        return [name for name in ("step", "states") if name in parameters]


class CrossEntropy(Loss):
    """`cross_entropy`, in nats per real output token (`<eos>` counted).

    With label smoothing e, the target distribution is 1 - e on the right token, plus e / V on each
    of the V tokens (Szegedy et al. 2016, section 7).
    """

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.0) -> None:
        super().__init__(weight=weight)
        self.label_smoothing = label_smoothing

    def forward(self, decoded: Decoded, batch: Batch) -> Tensor:
        return F.cross_entropy(
            decoded.logits.flatten(0, 1),
            batch.decoder_output.flatten(),
            ignore_index=PAD,
            label_smoothing=self.label_smoothing,
        )


class Coverage(Loss):
    """`coverage`: sum_j min(alpha_tj, C_tj), C_t the sum of the weights before t, per real output
    token (See et al. 2017, eq. 12).

    This is the weight spent on positions attended to before: 0 if no position is attended to twice.
    """

    needs_attention = True

    def forward(self, decoded: Decoded, batch: Batch) -> Tensor:
        weights = decoded.weights
        assert weights is not None
        covered = weights.cumsum(dim=1) - weights  # (B, L, S) C_t
        repeated = torch.minimum(weights, covered).sum(dim=2)  # (B, L)
        real = batch.decoder_output != PAD
        return repeated.where(real, 0).sum() / real.sum()


class AttentiveGuidance(Loss):
    """`attentive_guidance`: -log alpha_t,a(t), a(t) the source position that the task aligns output
    t with, per aligned output (Hupkes et al. 2018).

    This is the cross-entropy of the weights with the alignment. A weight of 0 counts as the
    smallest positive number.
    """

    needs_attention = True
    needs_alignment = True

    def forward(self, decoded: Decoded, batch: Batch) -> Tensor:
        """Average -log of the weight at the aligned position, over the outputs that have one: ()
        in nats; 0 if none has.
        """
        weights, alignment = decoded.weights, batch.alignment
        assert weights is not None
        assert alignment is not None, "attentive_guidance needs batch.alignment"
        aligned = alignment >= 0  # (B, L); -1 stands for no position
        index = alignment.clamp(min=0).unsqueeze(2)  # (B, L, 1) an index even where there is none
        attended = weights.gather(2, index).squeeze(2)  # (B, L)
        surprise = -attended.clamp(min=torch.finfo(weights.dtype).tiny).log()
        # if no output is aligned, 0 / 1
        return surprise.where(aligned, 0).sum() / aligned.sum().clamp(min=1)
