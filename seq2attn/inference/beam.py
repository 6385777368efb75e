"""Beam search: the outputs that a model finds likeliest, by keeping several at each step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.vocabulary import EOS, SOS
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.greedy import Decoding
from seq2attn.model.interface import Model


@dataclass(frozen=True)
class BeamSearch:
    """How to search. Hypotheses are ranked by log P(Y|X) / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14).

    |Y| counts the tokens of Y with its `<eos>`.
    """

    width: int = 5
    """K, hypotheses kept per source; 1 is greedy decoding"""
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

    tokens: Tensor
    """(B, K, T) ids; `<eos>` at the end of each hypothesis and past it"""
    lengths: Tensor
    """(B, K) tokens before the `<eos>`; T if there is none"""
    finished: Tensor
    """(B, K) True where the hypothesis ends with `<eos>`"""
    log_probabilities: Tensor
    """(B, K) nats, natural logarithm of P(Y|X); -inf where fewer than K hypotheses exist"""
    scores: Tensor
    """(B, K) what they are ranked by, in descending order"""
    weights: Tensor | None
    """(B, K, T, S) attention weights, if requested and the model has any"""

    def best(self) -> Decoding:
        """The first hypothesis of each source."""
        weights = None if self.weights is None else self.weights[:, 0]
        return Decoding(self.tokens[:, 0], self.lengths[:, 0], self.finished[:, 0], weights)


@dataclass
class _Beam:
    """The hypotheses after some steps. Their tokens are kept as a tree: per step, which parent each one extends."""

    log_probabilities: Tensor  # (B, K)
    counts: Tensor  # (B, K) tokens, with the <eos>
    finished: Tensor  # (B, K)
    steps: list[tuple[Tensor, Tensor, Tensor | None]]  # parents (B, K), tokens (B, K), the parents' weights (B, K, S)


@torch.no_grad()
def beam_decode(
    model: Model, source: Tensor, lengths: Tensor, search: BeamSearch, *, max_steps: int, keep_weights: bool = False
) -> BeamDecoding:
    """The best hypotheses for source (B, S) ids, right-padded, lengths (B,).

    A finished hypothesis stays in the beam with its score while fewer than K others are better; the search ends when every
    beam has only finished ones, or after `max_steps`. Of equal scores, the better parent and the smaller id come first. With
    K at least the number of possible outputs nothing is ever dropped, and the search is exact.
    """
    count, width = len(lengths), search.width
    memory, state = model.encode(source, lengths)
    first = torch.arange(count * width, device=source.device) // width  # (BK,) each source K times
    memory, state = model.select(memory, first), model.select(state, first)
    token = torch.full((count * width,), SOS, device=source.device)
    beam = _start(count, width, source.device)
    offsets = torch.arange(count, device=source.device).unsqueeze(1) * width  # (B, 1)
    for _ in range(max_steps):
        decoded, state = model.step(token, state, memory)
        log_probabilities = decoded.logits.squeeze(1).log_softmax(dim=1).view(count, width, -1)  # (B, K, V)
        weights = decoded.weights if keep_weights else None
        _extend(beam, search, log_probabilities, None if weights is None else weights.view(count, width, -1))
        if beam.finished.all():
            break
        parents, tokens, _ = beam.steps[-1]
        state = model.select(state, (offsets + parents).flatten())
        token = tokens.flatten()
    return _result(beam, search)


def _start(count: int, width: int, device: torch.device) -> _Beam:
    """One empty hypothesis per source; the others do not exist yet."""
    log_probabilities = torch.full((count, width), -torch.inf, device=device)
    log_probabilities[:, 0] = 0
    counts = torch.zeros(count, width, dtype=torch.int64, device=device)
    return _Beam(log_probabilities, counts, torch.zeros_like(counts, dtype=torch.bool), [])


def _extend(beam: _Beam, search: BeamSearch, log_probabilities: Tensor, weights: Tensor | None) -> None:
    """Extend each hypothesis by each token, log_probabilities (B, K, V), and keep the best K; finished ones stay."""
    ended = beam.finished.unsqueeze(2)  # (B, K, 1)
    is_eos = torch.arange(log_probabilities.size(2), device=ended.device) == EOS  # (V,)
    unchanged = torch.where(is_eos, 0.0, -torch.inf).to(log_probabilities)
    totals = beam.log_probabilities.unsqueeze(2) + torch.where(ended, unchanged, log_probabilities)  # (B, K, V)
    counts = beam.counts + ~beam.finished  # (B, K)
    scores = search.score(totals, counts.unsqueeze(2).expand_as(totals)).flatten(1)  # (B, KV)
    chosen = scores.sort(dim=1, descending=True, stable=True).indices[:, : beam.counts.size(1)]  # (B, K)
    parents, tokens = chosen // log_probabilities.size(2), chosen % log_probabilities.size(2)
    beam.log_probabilities = totals.flatten(1).gather(1, chosen)
    beam.counts = counts.gather(1, parents)
    beam.finished = beam.finished.gather(1, parents) | (tokens == EOS)
    beam.finished |= beam.log_probabilities == -torch.inf  # does not exist: nothing waits for it
    kept = None if weights is None else weights.gather(1, parents.unsqueeze(2).expand(-1, -1, weights.size(2)))
    beam.steps.append((parents, tokens, kept))


def _result(beam: _Beam, search: BeamSearch) -> BeamDecoding:
    """Follow each hypothesis from its last token back to its first."""
    count, width = beam.counts.shape
    place = torch.arange(width, device=beam.counts.device).expand(count, width)  # (B, K)
    tokens, weights = [], []
    for parents, written, kept in reversed(beam.steps):
        tokens.append(written.gather(1, place))
        if kept is not None:
            weights.append(kept.gather(1, place.unsqueeze(2).expand(-1, -1, kept.size(2))))
        place = parents.gather(1, place)
    stacked = torch.stack(tokens[::-1], dim=2)  # (B, K, T)
    return BeamDecoding(
        tokens=stacked,
        lengths=(stacked != EOS).int().cumprod(dim=2).sum(dim=2),
        finished=(stacked == EOS).any(dim=2),
        log_probabilities=beam.log_probabilities,
        scores=search.score(beam.log_probabilities, beam.counts),
        weights=torch.stack(weights[::-1], dim=2) if weights else None,
    )
