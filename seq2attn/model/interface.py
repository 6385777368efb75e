"""The interface of every architecture: encode a source, then decode one position after another. What may be changed in it:
recurrent states in training (resets), and attention by a person (interventions).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from seq2attn.data.batches import Batch


class Decoded(NamedTuple):
    """The model's output at L positions."""

    logits: Tensor
    """(B, L, V)"""
    weights: Tensor | None
    """(B, L, S) attention weights; None without attention"""


# ---- resets ----
# In training, recurrent states are occasionally replaced by noise, so that a model cannot rely on them.
# Whole states, unlike the single units of recurrent dropout (Semeniuta et al. 2016) and Zoneout (Krueger et al. 2017): a
# count that is spread over many units survives the loss of some, but not of all. Noise, because zeros are the initial state:
# a reset in the middle of a string must not look like its beginning.


@dataclass(frozen=True)
class Reset:
    """The resets of one recurrent layer, or of a decoder, in the order in which it reads."""

    kept: Tensor
    """(B, L) True = the state as it is, False = noise, when the cell reads this position's token"""
    noise: Tensor
    """(B, L, W) uniform in [-1, 1), the range of a hidden state; W is the width of all tensors of the state together"""

    def __call__(self, state: tuple[Tensor, ...], position: int) -> tuple[Tensor, ...]:
        """The state before `position`, tensors (B, D) -> the state after the reset."""
        kept = self.kept[:, position].unsqueeze(1)  # (B, 1)
        widths = [part.size(1) for part in state]
        noise = torch.split(self.noise[:, position], widths, dim=1)
        return tuple(torch.where(kept, part, other) for part, other in zip(state, noise, strict=True))


@dataclass(frozen=True)
class Resets:
    """The resets of one batch; empty where no state is reset."""

    forward: tuple[Reset, ...] = ()
    backward: tuple[Reset, ...] = ()
    """of each layer of the encoder, bottom first, in its two directions"""
    decoder: tuple[Reset, ...] = ()
    """one, of all layers together"""


NO_RESETS = Resets()


def layer_resets(
    random: torch.Generator, tokens: Tensor, width: int, layers: int, share: float, first: bool = True
) -> tuple[Reset, ...]:
    """Reset each state with probability `share`, for layers with states of this width that read tokens (B, L). All layers
    are reset at the same places. Nothing is drawn if the share is 0.

    first: the initial state too, so that positions cannot be recognised by their distance from the start.
    """
    if share == 0:
        return ()
    device, (rows, steps) = random.device, tokens.shape
    kept = torch.rand(rows, steps, generator=random, device=device) >= share
    if not first:
        kept |= torch.arange(steps, device=device) == 0
    noise = 2 * torch.rand(rows, steps, layers * width, generator=random, device=device) - 1
    return tuple(Reset(kept, part) for part in noise.chunk(layers, dim=2))


# ---- interventions ----


class Intervention(NamedTuple):
    """What is changed at one output position of B strings; `Model.intervene` puts it into their memory.

    Scores are divided by the temperature; banned keys are left out of the softmax, as padding is; then weights change
    places, and some are set. The context, and what a history remembers, follow from the changed weights. The Transformer
    is changed in every head of every layer of its cross-attention.
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
    order: Tensor | None = None
    """(B, 1, S) the position whose weight each key gets; None: its own"""

    def for_heads(self) -> Intervention:
        """The same with (B, 1, 1, ...) in place of (B, 1, ...), for scores (B, H, 1, S)."""
        return tree_map_only(Tensor, lambda part: part.unsqueeze(1), self)

    def allowed(self, valid: Tensor) -> Tensor:
        """valid (B, 1, S), the memory's mask -> (B, 1, S), the keys that may be attended to."""
        return (valid if self.valid is None else self.valid) & ~self.banned

    def set_weights(self, weights: Tensor) -> Tensor:
        """The weights (B, 1, S) with some set, and the others scaled to sum to what those leave of 1.

        Where the others are all 0 they stay 0. A row in which none is set is unchanged, whatever its sum.
        """
        if self.order is not None:
            weights = weights.gather(-1, self.order.expand_as(weights))
        others = weights.masked_fill(self.forced, 0.0)
        left = 1 - self.weights.masked_fill(~self.forced, 0.0).sum(dim=-1, keepdim=True)  # (B, 1, 1)
        least = torch.finfo(weights.dtype).tiny
        others = others * (left.clamp(min=0) / others.sum(dim=-1, keepdim=True).clamp(min=least))
        changed = torch.where(self.forced, self.weights, others)
        return torch.where(self.forced.any(dim=-1, keepdim=True), changed, weights)


# ---- models ----


class Model(nn.Module):
    """An encoder-decoder. Results do not depend on padding (unless attention does not mask it).

    Memory and state are nested tuples of tensors whose first dimension is B; callers do not look inside.
    """

    copies: bool = False
    """whether its `<unk>` stands for a symbol of the source that the target's vocabulary lacks"""

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
        return tree_map_only(Tensor, lambda part: part.index_select(0, rows) if part.dim() else part, state)


# ---- parameters ----

PARTS = (  # patterns of parameter names; the first match counts
    (r"encoder\.embedding|source_embedding", "encoder embedding"),
    (r"encoder\.layers\.", "encoder cells"),
    (r"initial_state", "initial state"),
    (r"decoder\.attention|.*\.(self_attn|multihead_attn)", "attention"),
    (r"decoder\.embedding|target_embedding", "decoder embedding"),
    (r"decoder\.cell", "decoder cells"),
    (r"decoder\.combine", "attentional vector"),
    (r"(encoder|decoder)(\.\d|_norm)", "feed-forward and norms"),
    (r"(decoder\.)?output", "output layer"),
    (r"", "other parts"),  # of a plug-in's
)


def parameter_ledger(model: nn.Module) -> dict[str, int]:
    """Parameters by part, attention separately (0 without attention), and their total.

    Every parameter is in exactly one part; parts that a model does not have are left out.
    """
    ledger = {label: 0 for _, label in PARTS}
    for name, parameter in model.named_parameters():
        label = next(label for pattern, label in PARTS if re.match(pattern, name))
        ledger[label] += parameter.numel()
    ledger = {label: count for label, count in ledger.items() if count or label == "attention"}
    ledger["total"] = sum(ledger.values())
    return ledger
