"""`hard_monotonic`: each symbol is written from one source position; the loss sums over them.

Shapes: B strings of a batch, S source positions, L output positions, V symbols of the target, D the
width of the decoder's state, Dv of a value.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.vocabulary import PAD
from seq2attn.model.attention import Attends, Attention, Memory
from seq2attn.model.cells import Cells, State
from seq2attn.model.decoder import Decoder, DecoderState, Step
from seq2attn.model.interface import Decoded, at_least_float32
from seq2attn.model.points import Point

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
    emission    e_t(j, v) = softmax_v(W_o tanh(V [s_t; h_j]) + b)
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
        """Return the state before the first output position. Whatever symbol came before, it counts
        as written at the first source position: q_0.
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
