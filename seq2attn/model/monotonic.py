"""Attention that only advances, or does so at first, for outputs in the order of their sources:
three histories, and `hard_monotonic`, a decoder that writes each symbol from one source position,
and whose loss sums over these positions.

Shapes: B strings of a batch, S source positions, padding included, L output positions, V symbols of
the target, D the width of the decoder's state, Dv of a value. alpha_t are the weights of step t
(B, 1, S), s_t is its query.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.vocabulary import PAD
from seq2attn.model.attention import Attends, Attention, Memory
from seq2attn.model.cells import Cells, State
from seq2attn.model.decoder import Decoder, DecoderState, Step
from seq2attn.model.histories import AttentionStep, History
from seq2attn.model.interface import Decoded, at_least_float32
from seq2attn.model.points import Point


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


# ---- exact hard attention ----

NEVER = -1e30
"""stands for the logarithm of 0: differences of two are finite"""
FIXED = (
    "`hard_monotonic` computes its weights from all alignments so far; "
    "`attention.transition` can be changed"
)
"""why a hook cannot replace `attention.weights`"""


class HardMonotonicDecoder(Decoder):
    """`hard_monotonic`: exact hard attention, monotonic and of first order (Wu & Cotterell 2019),
    or of order 0 (Wu, Shapiro & Cotterell 2018).

    Symbol y_t is written at one source position a_t. With s_t = cell(emb(y_{t-1}), s_{t-1}) and
    attention weights w_t:
    emission    e_t(j, v) = softmax_v(W_o tanh(V [s_t; h_j] + b_V) + b_o)
    transition  A_t(i, j) = w_tj / (w_ti + ... + w_tS) for j >= i, else 0
                order 0: w_tj / (w_t1 + ... + w_tS)
    prior       p_t(j) = P(a_t = j | y_<t) = sum_i q_{t-1}(i) A_t(i, j)
                q_0 is 1 at the first position
    logits      log P(y_t = v | y_<t) = log sum_j p_t(j) e_t(j, v)
    posterior   q_t(j) = P(a_t = j | y_<=t) = p_t(j) e_t(j, y_t) / P(y_t | y_<t)

    The sum of log P(y_t | y_<t) over t is the logarithm of the exact marginal over all alignments
    (the forward algorithm): cross-entropy is the exact negative log-likelihood, and label smoothing
    smooths the marginal. After a token that word dropout replaced by `<pad>`, q = p, since it says
    nothing about the position. The weights of an answer are p_t. Keys to which attention gives the
    weight 0 (outside a window, banned) count as 1e-38, so that one can always be reached; padding
    counts as 0.
    """

    needs_attention = True

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attends,
        cells: Cells,
        *,
        order: int = 1,
    ) -> None:
        """Make the cell and V, and give the points of attention the names that they have here.

        order: 1: attention moves on from its last position; 0: it does not depend on where it was.
        """
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=cells.width)
        self.order = order
        self.cell = cells.stack(embedding)
        # the columns of V for s, and those for h
        self.combine_state = nn.Linear(cells.width, cells.width)
        self.combine_value = nn.Linear(attention.value_width, cells.width, bias=False)
        # What hooks know as `attention.weights` is p here. What attention itself computes, w, makes
        # the transitions, so it gets their name.
        self.weights = Point("attention.weights", "step", "source", fixed=FIXED)
        for part in attention.modules():
            if isinstance(part, Attention):  # one, or one for each head
                part.weights.name = "transition"
                part.context.fixed = "`hard_monotonic` reads no context"

    def begin(self, first: State, memory: Memory) -> DecoderState:
        """Return the state before the first output position. Its `joint` (B, S, V) is log (p e) of
        the position before that: whatever symbol was there, it counts as written at the first
        source position, as q_0 says.
        """
        rows, width = memory.values.shape[:2]
        first_key = at_least_float32(memory.values).new_zeros(rows, 1, self.output.out_features)
        # (B, S, V) log 1 at the first position, about log 0 at the others
        joint = F.pad(first_key, (0, 0, 0, width - 1), value=NEVER)
        return super().begin(first, memory)._replace(joint=joint)

    def at_once(self, state: DecoderState) -> bool:
        """Return False if attention has a history, which needs the position before, and if there
        are no gradients to record: one by one saves the memory of (B, L, S, V).
        """
        return state.past is None and torch.is_grad_enabled()

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the tokens (B, L) themselves: `advance` needs them, and embeds them."""
        return tokens

    def advance(self, tokens: Tensor, state: DecoderState, memory: Memory) -> Step:
        """Compute L positions from the token before each, (B, L), `<sos>` for the first of a
        string: the state after them, logits (B, L, V), in place of features, and weights p_t
        (B, L, S). States do not depend on alignments: only `_priors` is a loop.

        log_w, log_e and log_p are logarithms of w, e and p in the docstring of the class.
        """
        # the base class embeds; `embed` of this one returns the tokens as they are
        states, cell = self.cell(super().embed(tokens), state.cell)  # (B, L, D)
        attended = self.attention(states, memory, state.past, state.position)
        weights = at_least_float32(attended.weights)  # (B, L, S)
        assert weights is not None

        # A real key never counts as 0, even if it is banned, so that some key can always be
        # reached. Padding does, unless it is not masked, or a hook gave it weight.
        log_w = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()  # (B, L, S)
        log_w = log_w.masked_fill((weights == 0) & ~memory.valid, NEVER)

        log_e = self._log_emissions(states, memory.values)  # (B, L, S, V)
        log_p = self._priors(log_w, log_e, tokens, state.joint)  # (B, L, S)
        log_joint = log_p.unsqueeze(3) + log_e  # (B, L, S, V) of p e

        # The next call's posterior needs log (p e) of the token written at the last position, which
        # is known only then: a column of log_joint. Nothing writes <pad>, which only stands in
        # place of a token that word dropout removed; then q = p, so its column, the first, is
        # log p.
        of_pad = log_p[:, -1].unsqueeze(2)  # (B, S, 1)
        last = torch.cat([of_pad, log_joint[:, -1, :, PAD + 1 :]], dim=2)  # (B, S, V)
        position = state.position + tokens.size(1)
        after = DecoderState(cell, position, attended.past, joint=last)
        return after, log_joint.logsumexp(dim=2), self.weights(log_p.exp())

    def decode(self, features: Tensor, weights: Tensor | None, memory: Memory) -> Decoded:
        """Return what `advance` has computed: logits (B, L, V) and weights (B, L, S)."""
        return Decoded(features, weights)

    def _log_emissions(self, states: Tensor, values: Tensor) -> Tensor:
        """Compute log e (B, L, S, V), the emissions e_t(j, v) of the class, from states s
        (B, L, D) and values h (B, S, Dv).
        """
        of_states = self.combine_state(states).unsqueeze(2)  # (B, L, 1, D)
        of_values = self.combine_value(values).unsqueeze(1)  # (B, 1, S, D)
        mixed = self.dropout(torch.tanh(of_states + of_values))  # (B, L, S, D)
        logits = at_least_float32(self.output(mixed))
        return logits.log_softmax(dim=3)

    def _priors(
        self,
        log_w: Tensor,
        log_e: Tensor,
        tokens: Tensor,
        joint: Tensor | None,
    ) -> Tensor:
        """Compute log p (B, L, S), the prior p_t(j) of the class, from log w (B, L, S), w the
        attention weights, and log e (B, L, S, V), what each source position would write.

        tokens (B, L): the one before each output position. joint (B, S, V): log (p e) of the output
        position before this call, at which the first of these tokens was written. Of order 0, the
        prior needs neither.
        """
        if self.order == 0:
            return log_w.log_softmax(dim=2)
        assert joint is not None
        onward = log_w.flip(2).logcumsumexp(dim=2).flip(2)  # (B, L, S) log (w_ti + ... + w_tS)
        index = tokens.view(*tokens.shape, 1, 1).expand(-1, -1, log_w.size(2), 1)  # (B, L, S, 1)
        # what position t wrote, y_t, is the token before position t + 1
        written = log_e[:, :-1].gather(3, index[:, 1:]).squeeze(3)  # (B, L - 1, S) log e_t(j, y_t)
        # <pad> is a token that word dropout removed, and says nothing about the position: q = p
        written = written.masked_fill(tokens[:, 1:, None] == PAD, 0)  # log 1

        before = joint.gather(2, index[:, 0]).squeeze(2)  # (B, S) log (p e) of the token before
        priors: list[Tensor] = []
        for position in range(tokens.size(1)):
            if position:
                before = priors[-1] + written[:, position - 1]
            posterior = before.log_softmax(dim=1)  # log q: where the known token was written
            # p(j) = w_j times the sum over i <= j of q(i) / (w_i + ... + w_S)
            sums = (posterior - onward[:, position]).logcumsumexp(dim=1)
            priors.append(log_w[:, position] + sums)
        return torch.stack(priors, dim=1)
