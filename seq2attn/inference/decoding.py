"""Decoding: the model reads its own output, greedily or with a beam, until it emits `<eos>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.errors import Seq2AttnError, is_number, need_count
from seq2attn.model.interface import Model
from seq2attn.text import quoted


@dataclass(frozen=True)
class Decoding:
    """Outputs of B sources, at most T steps: one each, or with a beam search the K best of each,
    best first.
    """

    tokens: Tensor  # (B, T) or (B, K, T) emitted ids; `<eos>` at the end of each output and past it
    weights: (
        Tensor | None
    )  # (B, T, S) or (B, K, T, S) attention weights, if requested and the model has any
    log_probabilities: Tensor | None = None
    """(B, K) nats, natural logarithm of P(Y|X), of a beam search; -inf where fewer than K
    hypotheses exist"""
    scores: Tensor | None = None  # (B, K) what hypotheses are ranked by, in descending order

    @cached_property
    def lengths(self) -> Tensor:
        """(B,) or (B, K): tokens before the `<eos>`; T if there is none."""
        return (self.tokens != EOS).sum(dim=-1)

    @cached_property
    def finished(self) -> Tensor:
        """(B,) or (B, K): True where the model emitted `<eos>`."""
        return (self.tokens == EOS).any(dim=-1)

    def best(self) -> Decoding:
        """The output of each source: of a beam search its first hypothesis."""
        if self.scores is None:
            return self
        return Decoding(self.tokens[:, 0], None if self.weights is None else self.weights[:, 0])


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
    """Emit the likeliest token until each row has emitted `<eos>`, or for `max_steps`.

    source (B, S) ids, right-padded; lengths (B,). `write` has the ids that some positions, from 0,
    emit in place of the likeliest.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    finished = torch.zeros_like(lengths, dtype=torch.bool)
    emitted = token.new_full(
        (len(token), max_steps), EOS
    )  # allocated once: growing it at each step fragments memory
    weights = []
    for position in range(max_steps):
        decoded, state = model.step(token, state, memory)
        token = decoded.logits.squeeze(1).argmax(dim=1)
        if write and position in write:
            token = torch.full_like(token, write[position])
        token = token.masked_fill(finished, EOS)
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    return Decoding(emitted, torch.cat(weights, dim=1) if weights else None)


# ---- beam search ----


@dataclass(frozen=True)
class BeamSearch:
    """How to search. Hypotheses are ranked by log P(Y|X) / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha (Wu
    et al. 2016, eq. 14).

    |Y| counts the tokens of Y with its `<eos>`.
    """

    width: int = 5  # K, hypotheses kept per source; 1 is greedy decoding
    length_penalty: float = 0.0
    """alpha: 0 ranks by probability, which favours short outputs; 0.6 to 1 is usual in translation
    """

    def __post_init__(self) -> None:
        need_count("beam", self.width)
        if not is_number(self.length_penalty, 0, 10):
            raise Seq2AttnError(
                f"length_penalty must be a number from 0 to 10; found {quoted(self.length_penalty)}"
            )

    def score(self, log_probability: Tensor, count: Tensor) -> Tensor:
        """log P(Y|X) / lp(Y); `count`: the tokens of Y."""
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
    """The best hypotheses for source (B, S) ids, right-padded, lengths (B,).

    A finished hypothesis stays in the beam with its score while fewer than K others are better; the
    search ends when every beam has only finished ones, or after `max_steps`. Of equal scores, the
    better parent and the smaller id come first. With K at least the number of possible outputs
    nothing is ever dropped, and the search is exact.
    """
    count, width, device = len(lengths), search.width, source.device
    memory, state = model.encode(source, lengths)
    first = torch.arange(count * width, device=device) // width  # (BK,) each source K times
    memory, state = model.select(memory, first), model.select(state, first)
    totals = torch.full((count, width), -torch.inf, device=device)  # log-probabilities
    totals[:, 0] = 0  # one empty hypothesis; the others do not exist yet
    counts = torch.zeros(count, width, dtype=torch.int64, device=device)  # tokens, with the <eos>
    finished = torch.zeros_like(counts, dtype=torch.bool)
    tokens = torch.full_like(counts, SOS)
    offsets = torch.arange(count, device=device).unsqueeze(1) * width  # (B, 1)
    emitted, weights = (
        tokens.view(-1, 1)[:, :0],
        [],
    )  # (BK, t), and of each step (BK, 1, S), of the hypotheses kept
    for _ in range(max_steps):
        decoded, state = model.step(tokens.flatten(), state, memory)
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        extended = decoded.logits.squeeze(1).log_softmax(dim=1).view(count, width, -1)  # (B, K, V)
        size = extended.size(2)
        only_eos = torch.where(torch.arange(size, device=device) == EOS, 0.0, -torch.inf).to(
            extended
        )  # (V,)
        extended = totals.unsqueeze(2) + torch.where(finished.unsqueeze(2), only_eos, extended)
        counts = counts + ~finished
        scores = search.score(extended, counts.unsqueeze(2)).flatten(1)  # (B, KV)
        chosen = scores.sort(dim=1, descending=True, stable=True).indices[:, :width]  # (B, K)
        parents, tokens = chosen // size, chosen % size
        totals, counts = extended.flatten(1).gather(1, chosen), counts.gather(1, parents)
        finished = finished.gather(1, parents) | (tokens == EOS)
        finished |= totals == -torch.inf  # does not exist: nothing waits for it
        rows = (offsets + parents).flatten()  # (BK,)
        emitted = torch.cat([emitted[rows], tokens.view(-1, 1)], dim=1)
        weights = [torch.cat(weights, dim=1)[rows]] if weights else []
        if finished.all():
            break
        state = model.select(state, rows)
    kept = weights[0].view(count, width, *weights[0].shape[1:]) if weights else None  # (B, K, T, S)
    return Decoding(emitted.view(count, width, -1), kept, totals, search.score(totals, counts))
