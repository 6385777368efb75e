"""Losses: what training minimises, computed from the model's outputs and the right ones.

Shapes: B strings of a batch, L output positions, S source positions, V symbols of the target.
"""

import inspect
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batches import Batch
from seq2attn.data.vocabulary import PAD
from seq2attn.model.interface import Decoded
from seq2attn.parts import LOSSES
from seq2attn.registry import Registry


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
