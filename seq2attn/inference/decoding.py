"""Decoding: a model, or several, read their own output, greedily or with a beam, until they emit
`<eos>`.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.errors import Seq2AttnError, need_count, quoted
from seq2attn.model.interface import Decoded, Model


@dataclass(frozen=True)
class Decoding:
    """The outputs for B sources, K for each, best first, at most T steps: greedily one, with a beam
    search its hypotheses.
    """

    tokens: Tensor
    """(B, K, T) emitted ids; `<eos>` at the end of each output and past it"""
    weights: Tensor | None
    """(B, K, T, S) attention weights, if requested and the model has any"""
    log_probabilities: Tensor
    """(B, K) of a beam search, ln P(Y|X) in nats; -inf where fewer than K hypotheses exist; nan of
    greedy decoding"""
    scores: Tensor
    """(B, K) of a beam search, what hypotheses are ranked by, in descending order; nan of greedy
    decoding"""

    def output(self, row: int, rank: int) -> tuple[list[int], Tensor | None]:
        """Return one of the outputs for one source: its ids, up to the `<eos>`, which it lacks if
        it was cut off; and the weights (T, S) at these steps.
        """
        ids = self.tokens[row, rank].tolist()
        if EOS in ids:
            ids = ids[: ids.index(EOS) + 1]
        return ids, None if self.weights is None else self.weights[row, rank, : len(ids)]


@contextlib.contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """In this context, a model is in evaluation mode and records no gradients; after it, each part
    is in the mode in which its user left it.
    """
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@torch.no_grad()
def greedy_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    *,
    max_steps: int,
    keep_weights: bool = False,
    write: Mapping[int, int] | None = None,
) -> Decoding:
    """Emit at each step the likeliest token that `model.choices` allows, until each of B rows has
    emitted `<eos>`, at most `max_steps` times. Returns a `Decoding` with one output per source.

    source (B, S) ids, right-padded; lengths (B,). keep_weights: return the attention weights, too.
    write: step, from 0 -> the id that all rows emit there in place of the likeliest. Raises
    `Seq2AttnError` if logits are nan in a row that has not ended.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    # (B,) which rows have emitted <eos>, and which had logits that are nan before that
    # (the same tensor at first, which nothing changes in place)
    finished = undefined = torch.zeros_like(lengths, dtype=torch.bool)
    # (B, max_steps), allocated once: growing it at each step fragments memory
    emitted = token.new_full((len(token), max_steps), EOS)
    weights = []
    for position in range(max_steps):
        decoded, state = model.step(token, state, memory)
        largest, token = model.choices(decoded.logits, memory).squeeze(1).max(dim=1)  # (B,) each
        undefined = undefined | (largest.isnan() & ~finished)  # the maximum is nan if one logit is
        if write and position in write:  # the id may be that of `<eos>`, which ends the output
            token = torch.full_like(token, write[position])
        token = token.masked_fill(finished, EOS)  # past an end, whatever is likeliest
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    _need_numbers(undefined)
    kept = torch.cat(weights, dim=1).unsqueeze(1) if weights else None  # (B, 1, T, S)
    # greedy decoding does not compute log-probabilities and scores
    unknown = torch.full((len(token), 1), torch.nan)
    return Decoding(emitted.unsqueeze(1), kept, unknown, unknown)


def _need_numbers(undefined: Tensor) -> None:
    """Raise `Seq2AttnError` if any row of `undefined`, of bool, is True: its logits are nan, and
    none of them is the largest.
    """
    if undefined.any():
        raise Seq2AttnError(
            "the model's logits are nan, so that no symbol is the likeliest",
            hint="Look at hooks and patches, if there are any, and at the weights: a nan in one of "
            "them reaches everything after it.",
            exit_code=1,
        )


# ---- beam search ----


@dataclass(frozen=True)
class BeamSearch:
    """How to search. Hypotheses are ranked by log P(Y|X) / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha (Wu
    et al. 2016, eq. 14).

    |Y| counts the tokens of Y with its `<eos>`.
    """

    width: int = 5
    """K, hypotheses kept per source; 1 is greedy decoding"""
    length_penalty: float = 0.0
    """alpha: 0 ranks by probability, which favours short outputs; 0.6 to 1 is usual in translation
    """

    def __post_init__(self) -> None:
        need_count("beam", self.width)
        if not isinstance(self.length_penalty, Real) or not 0 <= self.length_penalty <= 10:
            raise Seq2AttnError(
                f"length_penalty must be a number from 0 to 10; found {quoted(self.length_penalty)}"
            )

    def score(self, log_probability: Tensor, count: Tensor) -> Tensor:
        """Compute log P(Y|X) / lp(Y); count: the tokens of Y."""
        return log_probability / ((5 + count.to(log_probability)) / 6) ** self.length_penalty


@torch.no_grad()
def beam_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    search: BeamSearch,
    *,
    max_steps: int,
    keep_weights: bool = False,
) -> Decoding:
    """Find the best K hypotheses, K = `search.width`, for source (B, S) ids, right-padded, of
    lengths (B,), as a `Decoding` of outputs of at most `max_steps` tokens. Raises `Seq2AttnError`
    if logits are nan in a hypothesis of the beam. keep_weights: return the attention weights, too.

    A finished hypothesis stays in the beam with its score while fewer than K others are better; the
    search ends when every beam has only finished ones, or after `max_steps`. Of equal scores, the
    better parent and the smaller id come first. With K at least the number of possible outputs
    nothing is ever dropped, and the search is exact.

    The K hypotheses of a source are K rows of the model's batch, (BK, ...). Each step extends all
    of them by each of V symbols, keeps the best K of the KV, and goes on with the rows of their
    parents: the hypotheses that they extend.
    """
    numbers = torch.arange(len(lengths), device=source.device)  # (B,) of the sources
    sources = numbers.repeat_interleave(search.width)  # (BK,) the source of each row
    first_rows = search.width * numbers.unsqueeze(1)  # (B, 1) of the K rows of each source
    memory, state = model.encode(source, lengths)
    memory = model.select(memory, sources)  # stays: hypotheses move among rows of one source
    state = model.select(state, sources)
    # (B, K) ln p of each hypothesis. At first a source has one, which is empty; the others, of
    # probability 0, do not exist yet.
    totals = torch.full((len(lengths), search.width), -torch.inf, device=source.device)
    totals[:, 0] = 0
    emitted = torch.full_like(sources, SOS).unsqueeze(1)  # (BK, 1 + t): <sos>, then t tokens
    weights: list[Tensor] = []  # empty, or one tensor (BK, t, S) of all steps so far

    for _ in range(max_steps):
        # extend each hypothesis by each of V symbols
        decoded, state = model.step(emitted[:, -1], state, memory)
        logs = model.choices(decoded.logits.log_softmax(dim=2), memory)  # (BK, 1, V) ln p
        finished = (emitted == EOS).any(dim=1)  # (BK,)
        extended = totals.view(-1, 1) + _only_end(logs.squeeze(1), finished)  # (BK, V)
        # (BK,) |Y| of the extensions of each hypothesis: its tokens before an <eos>, and one more,
        # the new token or its <eos>. (`emitted` has that many, as it begins with <sos>.)
        counts = (emitted != EOS).sum(dim=1)

        # keep the best K of the KV extensions of each source; stable: of equal scores the first
        scores = search.score(extended, counts.unsqueeze(1)).view(len(totals), -1)  # (B, KV)
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, : search.width]  # (B, K)
        totals = extended.view_as(scores).gather(1, best)  # (B, K)
        symbols = extended.size(1)  # V
        rows = (first_rows + best // symbols).flatten()  # (BK,) of their parents
        tokens = best % symbols  # (B, K)
        emitted = torch.cat([emitted[rows], tokens.view(-1, 1)], dim=1)
        # each hypothesis has the weights of its parent at all steps, this one included
        if keep_weights and decoded.weights is not None:
            weights = [torch.cat([*weights, decoded.weights], dim=1)[rows]]
        # all have ended (each step gives a finished one another <eos>), or do not exist
        if ((tokens == EOS) | totals.isneginf()).all():
            break
        state = model.select(state, rows)

    _need_numbers(totals.isnan())
    tokens = emitted[:, 1:].view(*totals.shape, -1)  # (B, K, T)
    kept = weights[0].view(*tokens.shape, -1) if weights else None  # (B, K, T, S)
    # |Y| of the hypotheses that the last step kept is that of their parents' extensions
    return Decoding(tokens, kept, totals, search.score(totals, counts[rows].view_as(totals)))


def _only_end(logs: Tensor, finished: Tensor) -> Tensor:
    """Return ln p of symbols (N, V) such that finished (N,) hypotheses can go on with `<eos>` only,
    which costs nothing, whatever the model computed.
    """
    only_end = torch.full_like(logs, -torch.inf)
    only_end[:, EOS] = 0.0
    return torch.where(finished.unsqueeze(1), only_end, logs)


# ---- several models that decode together ----


class Ensemble(Model):
    """P(y_t | y_<t, x) is the mean of the models' probabilities, and the weights are the mean of
    theirs.

    The models have the same vocabularies. Memory and state are tuples of those of the models.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models: Any = nn.ModuleList(models)
        self.copies = all(model.copies for model in models)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        encoded = [model.encode(source, lengths) for model in self.models]
        memories, states = zip(*encoded, strict=True)
        return memories, states

    def steps(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        """Let each model decode; return the logarithm of their mean probabilities as logits
        (B, L, V), and their mean weights (B, L, S), or None if one of them has none.
        """
        logs, weights, states = [], [], []
        for model, own_state, own_memory in zip(self.models, state, memory, strict=True):
            decoded, after = model.steps(tokens, own_state, own_memory)
            logs.append(decoded.logits.log_softmax(dim=2))  # (B, L, V) ln p
            if decoded.weights is not None:
                weights.append(decoded.weights)
            states.append(after)
        logits = torch.stack(logs).logsumexp(dim=0) - math.log(len(logs))  # ln of the mean p
        all_attend = len(weights) == len(states)
        mean = torch.stack(weights).mean(dim=0) if all_attend else None  # (B, L, S)
        return Decoded(logits, mean), tuple(states)

    def choices(self, logits: Tensor, memory: Any) -> Tensor:
        for model, of_model in zip(self.models, memory, strict=True):
            logits = model.choices(logits, of_model)
        return logits
