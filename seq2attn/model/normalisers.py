"""Normalisers, from scores to weights, with the one mask of the project; and windows: which keys a
query may attend to (Luong et al. 2015, section 3.2). Both combine with every score.

Shapes: B strings of a batch, L queries, one for each output position, S source positions, padding
included. Scores are (..., S): (B, L, S), or (B, H, L, S) of heads.
"""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.points import Point
from seq2attn.parts import NORMALISERS, WINDOWS


class Normaliser(nn.Module):
    """A function from scores to weights. Every normaliser is constructed as
    `Normaliser(**options)`, and defines `normalise`.
    """

    registry = NORMALISERS
    sums_to_one = True
    """True if the weights of a row with an allowed key sum to 1"""
    signed = False
    """True if weights may be below 0"""

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        """Compute weights (..., S) over the valid entries of the last dimension.

        They are exactly 0 where not valid; a row without valid entries is all zeros, with zero
        gradients.

        scores: (..., S).
        valid: broadcasts to scores; True = may be attended to.
        """
        invalid = ~valid
        # the lowest finite number: a row of -inf alone would give nan
        filled = scores.masked_fill(invalid, torch.finfo(scores.dtype).min)
        return self.normalise(filled).masked_fill(invalid, 0.0)

    @abstractmethod
    def normalise(self, scores: Tensor) -> Tensor:
        """Compute weights (..., S) from scores (..., S); not below 0, unless `signed`.

        What is not valid has the lowest score of the dtype; `forward` makes its weight 0.
        """


class Softmax(Normaliser):
    """`softmax`: alpha_j = exp(e_j) / sum_i exp(e_i) (Bahdanau et al. 2015, eq. 6). Every weight is
    above 0.
    """

    def normalise(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1)


class Sparsemax(Normaliser):
    """`sparsemax`: alpha_j = max(0, e_j - tau), tau such that they sum to 1: the point of the
    simplex that is nearest to the scores. Keys that score low have the weight 0 (Martins &
    Astudillo 2016, eq. 2 and 3, algorithm 1).
    """

    def normalise(self, scores: Tensor) -> Tensor:
        scores = below_largest(scores)
        ordered, sums, counts = _ordered(scores)
        has_weight = 1 + counts * ordered > sums  # (..., S) largest score first
        support = has_weight.sum(dim=-1, keepdim=True)  # (..., 1) how many
        threshold = (sums.gather(-1, support - 1) - 1) / support  # tau
        return (scores - threshold).clamp(min=0)


class Entmax15(Normaliser):
    """`entmax15`: alpha_j = max(0, e_j / 2 - tau)^2, tau such that they sum to 1: entmax with alpha
    = 1.5, between softmax and sparsemax (Peters et al. 2019, eq. 13, algorithm 2).
    """

    def normalise(self, scores: Tensor) -> Tensor:
        """Find how many of the largest scores have weight, then tau, then the weights (..., S)."""
        scores = below_largest(scores / 2)
        ordered, sums, counts = _ordered(scores)
        means = sums / counts  # of the largest 1, 2, ..., S keys
        # sum of (score - mean)^2 over these keys
        squares = ordered.square().cumsum(dim=-1) - counts * means.square()
        # If exactly these keys have weight, their (score - tau)^2 sum to 1. That sum is squares +
        # counts (mean - tau)^2, so that tau = mean - sqrt(left).
        left = (1 - squares) / counts
        # the last of these keys has weight if tau is not above its score: (..., S), largest first
        has_weight = means - left.clamp(min=0).sqrt() <= ordered
        support = has_weight.sum(dim=-1, keepdim=True)  # (..., 1) how many
        # (`left` is above 0 at the last key with weight, so needs no clamp)
        threshold = means.gather(-1, support - 1) - left.gather(-1, support - 1).sqrt()  # tau
        return (scores - threshold).clamp(min=0).square()


class Sigmoid(Normaliser):
    """`sigmoid`: alpha_j = sigmoid(e_j - ln n), n the number of allowed keys (Ramapuram et al.
    2024, eq. 3, with their bias b = -ln n). Keys do not compete: a row sums to anything from 0 to
    n. With scores near 0 it sums to about 1.
    """

    sums_to_one = False

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        return super().forward(scores - log_count(valid, scores), valid)

    def normalise(self, scores: Tensor) -> Tensor:
        return torch.sigmoid(scores)


masked_softmax = Softmax()
"""the softmax of everything that has no other normaliser"""


def below_largest(scores: Tensor) -> Tensor:
    """Subtract the largest score of a row from scores (..., S), and clamp to -2 from below.

    Neither changes a weight of sparsemax and entmax, which look at differences, and give 0 to what
    lies more than 1 below the largest; nor a gradient, with the largest taken for a constant. It
    keeps their sums small, so that rounding does not matter.
    """
    return (scores - scores.amax(dim=-1, keepdim=True).detach()).clamp(min=-2)


def _ordered(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort scores (..., S), largest first: also their running sums (..., S), and 1 to S (S,)."""
    ordered = scores.sort(dim=-1, descending=True).values
    counts = torch.arange(1, scores.size(-1) + 1, device=scores.device)
    return ordered, ordered.cumsum(dim=-1), counts


def log_count(allowed: Tensor, scores: Tensor) -> Tensor:
    """Compute ln n, n the number of allowed keys of each query, at least 1: (..., S) -> (..., 1).

    scores: of the dtype that is wanted.
    """
    return allowed.sum(dim=-1, keepdim=True).clamp(min=1).to(scores.dtype).log()


# ---- windows ----


class View(NamedTuple):
    """The window of L queries: which keys each may attend to, and how much."""

    allowed: Tensor
    """(B, L, S) True = inside the window"""
    factor: Tensor | None = None
    """(B, L, S) the weights inside are multiplied by this; None: 1"""


class Window(nn.Module):
    """Which keys a query may attend to. Positions count from 0; a window is cut off at the edges of
    the source; weights outside it are 0.

    Every window is constructed as `Window(query_width, source_eos, **options)`.

    source_eos: True if the source's last token is `<eos>`, not a character.
    """

    registry = WINDOWS

    def __init__(self, query_width: int, source_eos: bool, *, radius: int = 2) -> None:
        super().__init__()
        self.query_width = query_width
        self.source_eos = source_eos
        self.radius = radius
        """R, positions to each side of the centre"""
        self.centres = Point("centre")

    @abstractmethod
    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        """Return the window of each query (B, L, query_width).

        lengths: (B,) the real tokens of each source.
        width: S, including padding. (The caller excludes padding from the window.)
        first: the output position of the first of the L queries; in an exported graph a tensor ().
        """

    def inside(self, centre: Tensor, width: int) -> Tensor:
        """Return (B, L, S): True within R positions of centre (B, L, 1)."""
        centre = self.centres(centre)
        return (torch.arange(width, device=centre.device) - centre).abs() <= self.radius


class LocalM(Window):
    """`local_m`: p_t = t (Luong et al. 2015: "monotonic alignment"), or n-1-t of a source of n
    characters.

    centre: `monotonic`, or `reversed`: counted from the end of the source, the correct position for
    reversal.
    """

    def __init__(
        self, query_width: int, source_eos: bool, *, radius: int = 2, centre: str = "monotonic"
    ) -> None:
        super().__init__(query_width, source_eos, radius=radius)
        self.reversed = centre == "reversed"

    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        rows, steps = query.shape[:2]
        centre = (torch.arange(steps, device=query.device) + first).view(1, -1, 1)  # (1, L, 1) t
        if self.reversed:
            characters = (lengths - int(self.source_eos)).view(-1, 1, 1)  # (B, 1, 1) n
            centre = characters - 1 - centre  # (B, L, 1)
        return View(self.inside(centre, width).expand(rows, -1, -1))


class LocalP(Window):
    """`local_p`: p_t = (S-1) sigmoid(v_p . tanh(W_p s_t)), learned; the weights inside the window
    are multiplied by exp(-(j - p_t)^2 / (2 sigma^2)), sigma = R/2 (Luong et al. 2015, eq. 9 and
    10).

    Weights are not normalised again, as published: a row sums to 1 at most. Gradients reach the
    centre through the Gaussian.
    """

    def __init__(self, query_width: int, source_eos: bool, *, radius: int = 2) -> None:
        super().__init__(query_width, source_eos, radius=radius)
        self.map = nn.Linear(query_width, query_width, bias=False)  # W_p
        self.v = nn.Linear(query_width, 1, bias=False)  # v_p

    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        relative = torch.sigmoid(self.v(torch.tanh(self.map(query))))  # (B, L, 1)
        centre = (lengths - 1).view(-1, 1, 1) * relative
        distance = torch.arange(width, device=centre.device) - centre  # (B, L, S)
        factor = gaussian(distance, self.radius)
        return View(self.inside(centre, width), factor)


def gaussian(distance: Tensor, radius: int) -> Tensor:
    """Return by what a window of this radius multiplies the weights of keys at this distance from
    its centre.
    """
    return torch.exp(-2 * (distance / radius).square())  # 1 / (2 sigma^2) = 2 / R^2
