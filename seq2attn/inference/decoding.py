"""Decoding: the model reads its own output, greedily or with a beam, until it emits `<eos>`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.errors import Seq2AttnError
from seq2attn.model.interface import Decoded, Intervention, Model

MAX_ROWS = 1024  # strings decoded together
MAX_WEIGHTS = 2**24  # attention weights kept together: 64 MiB
# Source tokens decoded together, except for a single string; self-attention needs memory for the square of a length.
MAX_TOKENS_ON_CPU, MAX_TOKENS_OF_SELF_ATTENTION, MAX_TOKENS = 2**17, 2**13, 2**20


@dataclass(frozen=True)
class Decoding:
    """Outputs of B strings, at most T steps."""

    tokens: Tensor  # (B, T) emitted ids; `<eos>` at the end of each row and past it
    lengths: Tensor  # (B,) tokens before the `<eos>`; T if there is none
    finished: Tensor  # (B,) True where the model emitted `<eos>`
    weights: Tensor | None  # (B, T, S) attention weights, if requested and the model has any


@torch.no_grad()
def greedy_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    *,
    max_steps: int,
    keep_weights: bool = False,
    watch: Callable[[Decoded], None] | None = None,
    intervene: Callable[[int], Intervention] | None = None,
    write: Mapping[int, int] | None = None,
) -> Decoding:
    """Emit the likeliest token until each row has emitted `<eos>`, or for `max_steps`.

    source (B, S) ids, right-padded; lengths (B,). `watch` is called with the result of each step. `intervene` gives the
    intervention of each output position, from 0; `write` the ids that some positions emit in place of the likeliest.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    finished = torch.zeros_like(lengths, dtype=torch.bool)
    emitted = token.new_full((len(token), max_steps), EOS)  # allocated once: growing it at each step fragments memory
    weights = []
    for position in range(max_steps):
        if intervene is not None:
            memory = model.intervene(memory, intervene(position))
        decoded, state = model.step(token, state, memory)
        if watch is not None:
            watch(decoded)
        token = decoded.logits.squeeze(1).argmax(dim=1)
        if write is not None and position in write:
            token = torch.full_like(token, write[position])
        token = token.masked_fill(finished, EOS)
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    return Decoding(emitted, _lengths(emitted), finished, torch.cat(weights, dim=1) if weights else None)


def _lengths(tokens: Tensor) -> Tensor:
    """tokens (..., T) -> (...), how many stand before the `<eos>`."""
    return (tokens != EOS).int().cumprod(dim=-1).sum(dim=-1)


def rows_at_once(
    model: nn.Module, device: torch.device, source_length: int, steps: int | None = None, *, width: int = 1
) -> int:
    """How many strings of one length to decode together, to bound memory.

    steps: the longest output, if weights are kept; width: hypotheses of each string.
    """
    tokens = MAX_TOKENS
    if device.type == "cpu":
        attends_to_itself = any(isinstance(part, nn.TransformerEncoderLayer) for part in model.modules())
        tokens = MAX_TOKENS_OF_SELF_ATTENTION if attends_to_itself else MAX_TOKENS_ON_CPU
    kept = MAX_ROWS if steps is None else MAX_WEIGHTS // (source_length * steps)
    return max(1, min(MAX_ROWS, tokens // source_length, kept) // width)


# ---- beam search ----


@dataclass(frozen=True)
class BeamSearch:
    """How to search. Hypotheses are ranked by log P(Y|X) / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14).

    |Y| counts the tokens of Y with its `<eos>`.
    """

    width: int = 5  # K, hypotheses kept per source; 1 is greedy decoding
    length_penalty: float = 0.0
    """alpha: 0 ranks by probability, which favours short outputs; 0.6 to 1 is usual in translation"""

    def __post_init__(self) -> None:
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 1:
            raise Seq2AttnError(f"a beam keeps 1 or more hypotheses, found {self.width!r}")

    def score(self, log_probability: Tensor, count: Tensor) -> Tensor:
        """log P(Y|X) / lp(Y); log_probability and `count`, the tokens of Y, have equal shapes."""
        return log_probability / ((5 + count.to(log_probability)) / 6) ** self.length_penalty


@dataclass(frozen=True)
class BeamDecoding:
    """The K best hypotheses of B sources, best first, of at most T steps each."""

    tokens: Tensor  # (B, K, T) ids; `<eos>` at the end of each hypothesis and past it
    lengths: Tensor  # (B, K) tokens before the `<eos>`; T if there is none
    finished: Tensor  # (B, K) True where the hypothesis ends with `<eos>`
    log_probabilities: Tensor  # (B, K) nats, natural logarithm of P(Y|X); -inf where fewer than K hypotheses exist
    scores: Tensor  # (B, K) what they are ranked by, in descending order
    weights: Tensor | None  # (B, K, T, S) attention weights, if requested and the model has any

    def best(self) -> Decoding:
        """The first hypothesis of each source."""
        weights = None if self.weights is None else self.weights[:, 0]
        return Decoding(self.tokens[:, 0], self.lengths[:, 0], self.finished[:, 0], weights)


@torch.no_grad()
def beam_decode(
    model: Model, source: Tensor, lengths: Tensor, search: BeamSearch, *, max_steps: int, keep_weights: bool = False
) -> BeamDecoding:
    """The best hypotheses for source (B, S) ids, right-padded, lengths (B,).

    A finished hypothesis stays in the beam with its score while fewer than K others are better; the search ends when every
    beam has only finished ones, or after `max_steps`. Of equal scores, the better parent and the smaller id come first. With
    K at least the number of possible outputs nothing is ever dropped, and the search is exact.
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
    steps: list[tuple[Tensor, Tensor, Tensor | None]] = []  # parents (B, K), tokens (B, K), the parents' weights
    for _ in range(max_steps):
        decoded, state = model.step(tokens.flatten(), state, memory)
        extended = decoded.logits.squeeze(1).log_softmax(dim=1).view(count, width, -1)  # (B, K, V)
        size = extended.size(2)
        only_eos = torch.where(torch.arange(size, device=device) == EOS, 0.0, -torch.inf).to(extended)  # (V,)
        extended = totals.unsqueeze(2) + torch.where(finished.unsqueeze(2), only_eos, extended)
        counts = counts + ~finished
        scores = search.score(extended, counts.unsqueeze(2).expand_as(extended)).flatten(1)  # (B, KV)
        chosen = scores.sort(dim=1, descending=True, stable=True).indices[:, :width]  # (B, K)
        parents, tokens = chosen // size, chosen % size
        totals, counts = extended.flatten(1).gather(1, chosen), counts.gather(1, parents)
        finished = finished.gather(1, parents) | (tokens == EOS)
        finished |= totals == -torch.inf  # does not exist: nothing waits for it
        weights = decoded.weights.view(count, width, -1) if keep_weights and decoded.weights is not None else None
        steps.append((parents, tokens, None if weights is None else _at(weights, parents)))
        if finished.all():
            break
        state = model.select(state, (offsets + parents).flatten())
    return _followed_back(steps, totals, search.score(totals, counts))


def _at(weights: Tensor, places: Tensor) -> Tensor:
    """weights (B, K, S) of the hypotheses `places` (B, K)."""
    return weights.gather(1, places.unsqueeze(2).expand(-1, -1, weights.size(2)))


def _followed_back(
    steps: list[tuple[Tensor, Tensor, Tensor | None]], log_probabilities: Tensor, scores: Tensor
) -> BeamDecoding:
    """Follow each hypothesis from its last token back to its first."""
    place = torch.arange(scores.size(1), device=scores.device).expand_as(scores)  # (B, K)
    tokens, weights = [], []
    for parents, written, kept in reversed(steps):
        tokens.append(written.gather(1, place))
        if kept is not None:
            weights.append(_at(kept, place))
        place = parents.gather(1, place)
    stacked = torch.stack(tokens[::-1], dim=2)  # (B, K, T)
    kept = torch.stack(weights[::-1], dim=2) if weights else None
    finished = (stacked == EOS).any(dim=2)
    return BeamDecoding(stacked, _lengths(stacked), finished, log_probabilities, scores, kept)
