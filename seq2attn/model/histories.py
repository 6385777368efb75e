"""Histories: how attention depends on its own past weights. They combine with every score.

A history has C numbers per key, (B, C, S), which are passed from step to step. Its features enter
the score through `Score.with_features`; or it makes the scores (`scores`) or the weights
(`combine`) itself. It may use the keys (`prepare`) and the query.

Shapes: B strings of a batch, S source positions, padding included. alpha_t are the weights of step
t, alpha_{t-1} those of the step before.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.parts import HISTORIES


class AttentionStep(NamedTuple):
    """L steps of attention, as a history sees them, with L = 1, and a score that asks for it."""

    query: Tensor
    """(B, L, query_width)"""
    past: Any
    """(B, C, S) as `begin` or the last step's `update` returned it"""
    prepared: Any
    """what `prepare` returned"""
    valid: Tensor
    """(B, 1, S) the real tokens"""
    allowed: Tensor
    """(B, L, S) the keys that may be attended to: valid, and inside the window"""
    first: Any = 0
    """the output position of the first query; in an exported graph a tensor ()"""


class History(nn.Module):
    """How attention depends on its past.

    Every history is constructed as `History(query_width, key_width, feature_width, **options)`,
    where feature_width is the width of the features that the score expects. A history of your own
    overrides some of these methods.
    """

    registry = HISTORIES
    channels = 1
    """C, numbers for each key"""
    extra_width = 0
    """how many numbers it adds to each context"""
    makes_weights = False
    """True if it makes the weights itself, whatever the normaliser"""
    sums_to_one = True
    """True if the weights of `combine` sum to 1 where the normaliser's do; False: to 1 at most"""
    signed = False
    """True if the weights of `combine` may be below 0; they may then sum to anything"""

    def __init__(self, query_width: int, key_width: int, feature_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.feature_width = feature_width

    def prepare(self, keys: Tensor) -> Any | None:
        """Compute what depends on the keys (B, S, key_width) alone, once per sequence.

        Returns tensors whose first dimension is B, perhaps in tuples. The default: None.
        """
        return None

    def begin(self, values: Tensor) -> Tensor | None:
        """Return the past (B, C, S) of the first step, of the dtype of values (B, S, Dv).

        The default: zeros.
        """
        return values.new_zeros(len(values), self.channels, values.size(1))

    def forward(self, step: AttentionStep) -> Tensor | None:
        """Compute each key's features (B, 1, S, feature_width) for the score. The default: None."""
        return None

    def scores(self, step: AttentionStep) -> Tensor | None:
        """Compute scores (B, 1, S) to use in place of the score function's. The default: None."""
        return None

    def combine(self, weights: Tensor, logits: Tensor, step: AttentionStep) -> Tensor:
        """Compute the weights to attend with (B, 1, S). The default: the normaliser's, `weights`.

        weights (B, 1, S) are 0 where a key is not allowed; logits (B, 1, S) are what the normaliser
        was given.
        """
        return weights

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        """Return the past (B, C, S) after a step with weights (B, 1, S). The default: these."""
        return weights

    def extra_context(self, weights: Tensor, step: AttentionStep) -> Tensor:
        """Compute what a step with weights (B, 1, S) adds to the context: (B, 1, extra_width).

        The default: nothing.
        """
        return weights[..., :0]


class NoHistory(History):
    """`none`: attention knows nothing of its past weights, and changes nothing."""

    channels = 0

    def begin(self, values: Tensor) -> None:
        return None

    def update(self, weights: Tensor, step: AttentionStep) -> Any:
        return step.past


class Location(History):
    """`location`: U (F * alpha_{t-1}), features of a convolution over the previous weights
    (Chorowski et al. 2015, eq. 8 and 9).

    filters: number of filters; kernel: their width, odd.
    """

    def __init__(self, *widths: int, filters: int = 8, kernel: int = 5) -> None:
        super().__init__(*widths)
        self.convolution = nn.Conv1d(
            self.channels, filters, kernel, padding=kernel // 2, bias=False
        )
        self.map = nn.Linear(filters, self.feature_width, bias=False)

    def forward(self, step: AttentionStep) -> Tensor:
        located = self.convolution(step.past)  # (B, filters, S)
        return self.map(located.mT).unsqueeze(1)  # (B, S, filters) -> (B, 1, S, feature_width)


class Coverage(History):
    """`coverage`: w C_t, C_t the sum of all past weights (See et al. 2017, eq. 10 and 11)."""

    def __init__(self, *widths: int) -> None:
        super().__init__(*widths)
        self.map = nn.Linear(1, self.feature_width, bias=False)

    def forward(self, step: AttentionStep) -> Tensor:
        return self.map(step.past.mT).unsqueeze(1)  # (B, S, 1) -> (B, 1, S, feature_width)

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        return step.past + weights


class LocationCoverage(Location):
    """`location_coverage`: a convolution over both the previous weights and the sum of all past
    ones, as in many speech synthesis models (the sum alone: Shen et al. 2018, section 2.2).
    """

    channels = 2

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        return torch.cat([weights, step.past[:, 1:] + weights], dim=1)


class Shift(History):
    """`shift`: the previous weights, moved around the source by a learned distance and sharpened
    (Graves et al. 2014, eq. 8 and 9), and how often what is read now was read before.

    moved_j = sum_d p_d alpha_{t-1, (j-d) mod n}, d from -reach to reach, p a learned distribution,
    n the source's length: what leaves the source at one end enters it at the other. In the first
    step, where there is nothing to move, and where a window has cut off more than half of it, moved
    is the softmax of the scores: content decides where to begin, and has no influence afterwards.
    alpha_t = moved^g / sum_j moved_j^g, g >= 1 learned. Unlike in Graves et al., p and g do not
    depend on the query.

    rereading: the context ends with sum_j alpha_tj C_tj, C_t the sum of all past weights: 0 in the
        first pass, 1 in the second.
    evaluation_power: in evaluation, the power of weights that have moved is this times g.
    """

    channels = 2
    """of `past`: the previous weights, and the sum of all past ones"""
    makes_weights = True
    speed = 8.0
    """p = softmax(speed * logits): they change this many times as fast as other parameters"""

    def __init__(
        self, *widths: int, reach: int = 2, rereading: bool = True, evaluation_power: float = 1.0
    ) -> None:
        """Make p, uniform at first, and g; reach: the largest distance of a move."""
        super().__init__(*widths)
        self.reach = reach
        self.evaluation_power = evaluation_power
        self.extra_width = 1 if rereading else 0  # of the context
        self.logits = nn.Parameter(torch.zeros(2 * reach + 1))  # of p, from d = -reach
        self.power = nn.Parameter(torch.tensor(0.0))  # g = 1 + softplus(power)

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        """Return the weights of this step, and the sum C of all up to it: (B, 2, S)."""
        return torch.cat([weights, step.past[:, 1:2] + weights], dim=1)

    def combine(self, weights: Tensor, logits: Tensor, step: AttentionStep) -> Tensor:
        """Compute alpha_t (B, 1, S): the previous weights, moved around the source, or `weights`
        where none have moved, sharpened by the power g; in evaluation, what has moved is first
        sharpened by `evaluation_power`, too.

        weights: the softmax of the scores.
        """
        # (B, 1, 1) n; positions are taken modulo n, which must not be 0
        lengths = step.valid.sum(dim=2, keepdim=True).clamp(min=1)
        moved = self.moved(step, lengths).masked_fill(~step.allowed, 0.0)  # (B, 1, S)
        # moved weights sum to 1; in the first step, which follows zeros, to 0; to less than 1/2
        # where a window has cut off most of them
        has_moved = moved.sum(dim=2, keepdim=True) > 0.5  # (B, 1, 1)
        if not self.training:
            moved = moved**self.evaluation_power
        mixed = torch.where(has_moved, moved, weights)
        sharp = mixed ** (1 + F.softplus(self.power))  # to the power of g
        # a row without allowed keys stays 0: it is divided by the smallest number, not by 0
        return sharp / sharp.sum(dim=2, keepdim=True).clamp(min=torch.finfo(sharp.dtype).tiny)

    def moved(self, step: AttentionStep, lengths: Tensor) -> Tensor:
        """Move the previous weights around sources of lengths (B, 1, 1): (B, 1, S)."""
        # the part of each key's weight that leaves it by each distance
        leaving = self.distribution(step, lengths) * step.past[:, :1]  # (B, 2 reach + 1, S)
        return arrived(leaving, lengths)

    def distribution(self, step: AttentionStep, lengths: Tensor) -> Tensor:
        """Compute p over the distances from -reach to reach: one for all keys, (2 reach + 1, 1), or
        one for each key, (B, 2 reach + 1, S).
        """
        return torch.softmax(self.speed * self.logits, dim=0).unsqueeze(1)

    def extra_context(self, weights: Tensor, step: AttentionStep) -> Tensor:
        return (weights * step.past[:, 1:2]).sum(dim=2, keepdim=True)


class ShiftByKey(Shift):
    """`shift_by_key`: `shift`, with a distribution over distances for each key, which depends on
    what is read there.

    moved_i = sum_d p_(i-d)(d) alpha_{t-1, i-d}, around the source as in `shift`: the weight leaves
    key j by the distances of p_j = softmax(4 (b + W h_j + (F * [alpha_{t-1}; C_t;
    alpha_{t-2}])_j)), h_j the encoder's state, F a convolution around the source, C_t the sum of
    all past weights. b, W and F are 0 at first: p is uniform. Content chooses among a few
    distances; it cannot scatter attention. p ignores the query.

    kernel: the width of the convolution, odd.
    rereading: the context ends with 8 sum_j alpha_tj (1 - alpha_{t-1,j}) C_tj: staying is not
        reading again.
    evaluation_power: 4, since blurred weights have gradients that tell distances apart (soft in
        training, hard afterwards, as in Raffel et al. 2017), but would go on blurring among equal
        keys, whose distances depend on the weights alone.
    """

    channels = 3
    """of `past`: the two of `shift`, and the weights of the step before the previous one"""
    speed = 4.0
    returning = 8.0
    """of rereading: where attention ends on a key read before, <eos> must outweigh its letter"""

    def __init__(
        self,
        *widths: int,
        reach: int = 3,
        kernel: int = 7,
        rereading: bool = True,
        evaluation_power: float = 4.0,
    ) -> None:
        """Make b, as `Shift` does, W and F, all 0 at first; reach: the largest distance of a move.
        The docstring of the class describes the other options.
        """
        super().__init__(
            *widths,
            reach=reach,
            rereading=rereading,
            evaluation_power=evaluation_power,
        )
        distances = len(self.logits)  # 2 reach + 1; the logits are b in the docstring of the class
        # W: what a key adds to the logit of each distance
        self.by_key = nn.Parameter(torch.zeros(distances, self.key_width))
        # F: what the past weights around a key add to it
        self.by_past = nn.Parameter(torch.zeros(distances, self.channels, kernel))

    def prepare(self, keys: Tensor) -> Tensor:
        """Return b + W h_j (B, 2 reach + 1, S)."""
        return self.logits.unsqueeze(1) + self.by_key @ keys.mT  # (B, 2 reach + 1, S)

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        """Return what `shift` does, and the weights of the step before: (B, 3, S)."""
        return torch.cat([super().update(weights, step), step.past[:, :1]], dim=1)

    def distribution(self, step: AttentionStep, lengths: Tensor) -> Tensor:
        # the past weights, continued beyond both ends of the source by half a kernel
        around = wrapped(step.past, lengths, self.by_past.size(2) // 2)
        moves = F.conv1d(around, self.by_past)  # (B, 2 reach + 1, S)
        return torch.softmax(self.speed * (step.prepared + moves), dim=1)

    def extra_context(self, weights: Tensor, step: AttentionStep) -> Tensor:
        return self.returning * super().extra_context(weights * (1 - step.past[:, :1]), step)


def arrived(leaving: Tensor, lengths: Tensor) -> Tensor:
    """Add up what arrives at each key i, sum_d leaving_(d, i-d): (B, 1, S).

    leaving (B, 2 reach + 1, S): what leaves each key by each distance, from -reach to reach;
    lengths (B, 1, 1): of the sources; what moves past one end arrives at the other. In padding the
    sums mean nothing: the caller masks them.
    """
    reach = leaving.size(1) // 2
    positions = torch.arange(leaving.size(2), device=leaving.device)  # (S,)
    distances = torch.arange(-reach, reach + 1, device=leaving.device).unsqueeze(1)
    # (B, 2 reach + 1, S) from which key each distance leads to each position
    origins = (positions - distances) % lengths
    return leaving.gather(2, origins).sum(dim=1, keepdim=True)


def wrapped(values: Tensor, lengths: Tensor, reach: int) -> Tensor:
    """Continue values (B, C, S) of sources of lengths (B, 1, 1) by `reach` positions beyond both
    ends, for a convolution around each source: (B, C, S + 2 reach). Before its first value stand
    its last ones; behind its last one, in place of padding too, it begins again.

    >>> wrapped(torch.tensor([[[1, 2, 3, 4]]]), torch.tensor([[[4]]]), reach=1)
    tensor([[[4, 1, 2, 3, 4, 1]]])
    """
    positions = torch.arange(-reach, values.size(2) + reach, device=values.device)
    index = positions % lengths  # (B, 1, S + 2 reach)
    return values.gather(2, index.expand(-1, values.size(1), -1))
