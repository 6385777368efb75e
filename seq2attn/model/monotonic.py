"""Histories whose attention only advances, or does so at first: for outputs in the order of their
sources.

Shapes: B strings of a batch, S source positions, padding included. alpha_t are the weights of step
t (B, 1, S), s_t is its query.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.model.histories import AttentionStep, History


class Gaussian(History):
    """`gaussian`: a mixture of K Gaussians over positions j = 1, ..., S, whose means only advance
    (Graves 2013, eq. 46-51).

    e_j = ln sum_k a_k exp(-b_k (kappa_{t,k} - j)^2), kappa_t = kappa_{t-1} + c, kappa_0 = 0; a, b,
    c = exp(W s_t + d): these take the place of the scores, whose softmax is the mixture, normalised
    over the allowed keys (in the paper it is not). What the keys contain has no influence.

    components: K
    """

    def __init__(self, *widths: int, components: int = 5) -> None:
        super().__init__(*widths)

        self.channels = components  # kappa, the same at every key
        self.map = nn.Linear(self.query_width, 3 * components)

    def _mixture(self, step: AttentionStep) -> tuple[Tensor, Tensor, Tensor]:
        """Compute ln a, b and kappa, (B, K, 1) each."""
        mapped = self.map(step.query).mT  # (B, 3K, 1)
        share, precision, advance = mapped.chunk(3, dim=1)  # ln a, ln b, ln c
        before = step.past[:, :, :1]  # (B, K, 1) kappa, which stands at every key
        return share, precision.exp(), before + advance.exp()

    def scores(self, step: AttentionStep) -> Tensor:
        """Compute e (B, 1, S)."""
        share, precision, means = self._mixture(step)
        positions = torch.arange(1, step.past.size(2) + 1, device=means.device)  # (S,)
        logs = share - precision * (positions - means).square()  # (B, K, S)
        return torch.logsumexp(logs, dim=1, keepdim=True)  # (B, 1, S)

    def update(self, weights: Tensor, step: AttentionStep) -> Tensor:
        """Return kappa, the same at every key: (B, K, S)."""
        _, _, means = self._mixture(step)  # once more: nothing is kept between the calls
        return means.expand_as(step.past)


class FromFirst(History):
    """A history that begins at the first key: alpha_0 is 1 there."""

    def begin(self, values: Tensor) -> Tensor:
        """Return alpha_0 (B, 1, S)."""
        first = torch.arange(values.size(1), device=values.device) == 0  # (S,)
        return first.to(values.dtype).expand(len(values), 1, -1)


class DynamicConvolution(FromFirst):
    """`dynamic_convolution`: what the weights were, not what the keys contain (Battenberg et al.
    2020, section 3.2, eq. 8).

    e_j = v.tanh(U (F * alpha_{t-1})_j + T (G(s_t) * alpha_{t-1})_j + b) + ln (P * alpha_{t-1})_j
    take the place of the scores. The filters F are learned; G(s_t) = V tanh(W s_t + c) depend on
    the query. P, a beta-binomial distribution over 0 to 10 positions forwards, of mean 1, says
    where attention goes at first. alpha_0 is 1 at the first key.

    filters: number of filters, of F and of G; kernel: their width, odd.
    """

    floor = 1e-6
    """of P * alpha_{t-1}, where there would be nothing"""

    def __init__(self, *widths: int, filters: int = 8, kernel: int = 21) -> None:
        """Make P, and the learned maps; each comment is a letter of the equation of the class, e_j
        = v.tanh(U (F * alpha_{t-1})_j + T (G(s_t) * alpha_{t-1})_j + b) + ln (P * alpha_{t-1})_j
        with G(s_t) = V tanh(W s_t + c).
        """
        super().__init__(*widths)
        self.prior = beta_binomial(10, 0.1, 0.9)  # P, as in the paper
        self.static = nn.Linear(kernel, filters, bias=False)  # F
        width = self.query_width
        self.hidden = nn.Linear(width, width)  # W, c
        self.dynamic = nn.Linear(width, kernel * filters, bias=False)  # V
        self.map = nn.Linear(2 * filters, width)  # [U T], b
        self.v = nn.Linear(width, 1, bias=False)

    def scores(self, step: AttentionStep) -> Tensor:
        """Compute e (B, 1, S): what filters make of the previous weights around each key, plus the
        logarithm of what P moves there.
        """
        past = step.past  # (B, 1, S) alpha_{t-1}
        kernel = self.static.in_features
        # the weights around each key: a convolution whose filters pick one neighbour each
        pick = torch.eye(kernel, dtype=past.dtype, device=past.device).unsqueeze(1)
        near = F.conv1d(past, pick, padding=kernel // 2).mT  # (B, S, kernel)

        hidden = torch.tanh(self.hidden(step.query))  # (B, 1, D)
        filters = self.dynamic(hidden).view(len(past), kernel, -1)  # (B, kernel, filters) G(s_t)
        located = torch.cat([self.static(near), near @ filters], dim=2)  # (B, S, 2 filters)
        energies = self.v(torch.tanh(self.map(located))).mT  # (B, 1, S)

        # reversed, since conv1d does not flip its filter: the last number is P of staying
        prior = torch.tensor(self.prior[::-1], dtype=past.dtype).view(1, 1, -1)
        prior = prior.to(past.device, non_blocking=True)  # without waiting for a GPU
        padded = F.pad(past, (len(self.prior) - 1, 0))  # weight arrives only from keys before
        ahead = F.conv1d(padded, prior)  # (B, 1, S) P * alpha_{t-1}
        return energies + ahead.clamp(min=self.floor).log()


class Monotonic(FromFirst):
    """`monotonic`: from where the last step stopped, each key is passed or, with probability p_j,
    attended to. The weights are the expected alignment (Raffel et al. 2017, section 2.3), in
    training and afterwards:

    alpha_{t,j} = p_j sum_{k <= j} alpha_{t-1,k} prod_{k <= l < j} (1 - p_l), p = sigmoid(e + r), r
    learned, alpha_0 = 1 at the first key. What passes every key is lost: rows sum to 1 at most.
    Each string takes S x S numbers a step; nothing is divided, so nothing overflows.

    bias: r at first: below 0, so that attention gets far enough to learn; noise: the standard
    deviation of what is added to e + r in training, so that p becomes 0 or 1.
    """

    makes_weights = True
    sums_to_one = False

    def __init__(self, *widths: int, bias: float = -1.0, noise: float = 1.0) -> None:
        super().__init__(*widths)
        self.bias = nn.Parameter(torch.tensor(bias))  # r
        self.noise = noise

    def combine(self, weights: Tensor, logits: Tensor, step: AttentionStep) -> Tensor:
        """Compute alpha_t (B, 1, S) from alpha_{t-1}, `step.past`, and the scores e, `logits`; the
        normaliser's `weights` have no influence.
        """
        logits = logits + self.bias  # (B, 1, S) e + r
        if self.training and self.noise:
            logits = logits + self.noise * torch.randn_like(logits)
        forbidden = ~step.allowed  # keys that are always passed: p = 0
        stop = torch.sigmoid(logits).masked_fill(forbidden, 0.0)  # (B, 1, S) p
        passed = F.logsigmoid(-logits).masked_fill(forbidden, 0.0)  # (B, 1, S) ln (1 - p)

        # ln of the product over l = k, ..., j - 1, a row for each k and a column for each j. In a
        # running sum along row k, what column j adds is `passed` of the key before it, j - 1.
        before = F.pad(passed[..., :-1], (1, 0))  # (B, 1, S) ln (1 - p) of the key before
        later = before.new_ones(before.size(2), before.size(2)).triu(1)  # (S, S) 1 where j > k
        logs = (before * later).cumsum(dim=2)  # (B, S, S)
        # (B, S, S) the probability that, from k, attention passes all keys before j
        reached = logs.exp().triu()  # 0 where j < k: it never goes back
        return stop * (step.past @ reached)


def beta_binomial(largest: int, a: float, b: float) -> list[float]:
    """Return the beta-binomial probabilities of 0, 1, ..., `largest` heads in `largest` throws of a
    coin whose own probability of heads is drawn from the distribution Beta(a, b).
    """
    shares = [1.0]  # the probabilities up to a factor
    for heads in range(largest):
        tails = largest - heads - 1  # of one more head
        ratio = (tails + 1) * (heads + a) / ((heads + 1) * (tails + b))
        shares.append(shares[-1] * ratio)
    return [share / sum(shares) for share in shares]
