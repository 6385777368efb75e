"""The plain loop: a GRU encoder-decoder with attention as in a textbook, without any optimisation.

The benchmarks compare seq2attn with it, and the tests use it as a reference for losses and
gradients. Its parameters have the same names as those of seq2attn's `Reverser`, so one model's
`state_dict` loads into the other.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SCORES = ("dot", "scaled", "general", "scaled_general", "additive")


class PlainScore(nn.Module):
    """e(s, h) for one query against all keys: s (B, D), h (B, S, Dv) -> (B, S); `hidden` is the
    width inside `additive`.
    """

    def __init__(self, name: str, width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.name, self.width = name, width
        if "general" in name:
            self.map = nn.Linear(key_width, width, bias=False)
        if name == "additive":
            self.query_map = nn.Linear(width, hidden, bias=False)
            self.key_map = nn.Linear(key_width, hidden, bias=False)
            self.v = nn.Linear(hidden, 1, bias=False)

    def project(self, h: Tensor) -> Tensor:
        """The part that depends on the keys alone, computed once per sequence, as in a textbook."""
        if "general" in self.name:
            return self.map(h)
        return self.key_map(h) if self.name == "additive" else h

    def forward(self, s: Tensor, keys: Tensor, features: Tensor | None) -> Tensor:
        """features (B, S, hidden), or (B, S, 1) if scores are products: what a history adds."""
        if self.name == "additive":
            total = self.query_map(s).unsqueeze(1) + keys
            return self.v(torch.tanh(total if features is None else total + features)).squeeze(2)
        scores = torch.bmm(keys, s.unsqueeze(2)).squeeze(2)
        scores = scores / math.sqrt(self.width) if "scaled" in self.name else scores
        return scores if features is None else scores + features.squeeze(2)


class PlainLocation(nn.Module):
    """Features of the previous weights (B, S): (B, S, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 8, 5, padding=2, bias=False)
        self.map = nn.Linear(8, width, bias=False)

    def forward(self, last: Tensor) -> Tensor:
        return self.map(self.convolution(last.unsqueeze(1)).transpose(1, 2))


class PlainShift(nn.Module):
    """The weights (B, S): the previous ones, moved and sharpened; in the first step, those of the
    softmax, sharpened.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(5))
        self.power = nn.Parameter(torch.zeros(()))

    def forward(self, softmax: Tensor, last: Tensor, valid: Tensor, *, first: bool) -> Tensor:
        moved = softmax
        if not first:
            p = torch.softmax(8 * self.logits, dim=0)
            lengths, places = (
                valid.sum(dim=1, keepdim=True),
                torch.arange(valid.size(1), device=valid.device),
            )
            moved = (
                sum(p[d + 2] * last.gather(1, (places - d) % lengths) for d in range(-2, 3)) * valid
            )
        sharp = moved ** (1 + F.softplus(self.power))
        return sharp / sharp.sum(dim=1, keepdim=True)


class PlainAttention(nn.Module):
    def __init__(self, score: str, width: int, key_width: int, hidden: int, history: str) -> None:
        super().__init__()
        self.score = PlainScore(score, width, key_width, hidden)
        if history == "location":
            self.history = PlainLocation(hidden if score == "additive" else 1)
        elif history == "shift":
            self.history = PlainShift()
        self.name = history

    def forward(
        self, s: Tensor, keys: Tensor, h: Tensor, valid: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """-> context (B, Dv) or, with `shift`, (B, Dv + 1), weights (B, S), which are appended to
        `past`
        """
        last = past[-1] if past else torch.zeros_like(keys[:, :, 0])
        features = self.history(last) if self.name == "location" else None
        scores = self.score(s, keys, features).masked_fill(~valid, -torch.inf)
        weights = torch.softmax(scores, dim=1)
        if self.name == "shift":
            weights = self.history(weights, last, valid, first=not past)
        context = torch.bmm(weights.unsqueeze(1), h).squeeze(1)
        if self.name == "shift":
            read = (
                (weights * sum(past)).sum(dim=1, keepdim=True)
                if past
                else torch.zeros_like(context[:, :1])
            )
            context = torch.cat([context, read], dim=1)
        past.append(weights)
        return context, weights


class PlainEncoder(nn.Module):
    def __init__(
        self, vocabulary: int, embedding: int, hidden: int, *, bidirectional: bool
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, hidden, batch_first=True, bidirectional=bidirectional)

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        embedded = self.embedding(source)
        if not self.gru.bidirectional:
            return self.gru(embedded)[0]
        packed = pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        return pad_packed_sequence(
            self.gru(packed)[0], batch_first=True, total_length=source.size(1)
        )[0]


class PlainDecoder(nn.Module):
    """One step at a time: `bahdanau` attends, then steps; `luong` steps, then attends."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        attention: PlainAttention,
        context: int,
        arrangement: str,
        feeding: bool,
    ) -> None:
        super().__init__()
        self.arrangement, self.feeding = arrangement, feeding
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.attention = attention
        if arrangement == "bahdanau":
            self.cell = nn.GRUCell(embedding + context, hidden)
            self.output = nn.Linear(hidden + context, vocabulary)
        else:
            self.gru = nn.GRU(embedding + hidden * feeding, hidden, batch_first=True)
            self.combine = nn.Linear(context + hidden, hidden, bias=False)
            self.output = nn.Linear(hidden, vocabulary)

    def step(
        self,
        token: Tensor,
        s: Tensor,
        fed: Tensor,
        keys: Tensor,
        h: Tensor,
        valid: Tensor,
        past: list[Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """token (B,), s (B, D) -> logits (B, V), next s and attentional vector, weights (B, S)."""
        embedded = self.embedding(token)
        if self.arrangement == "bahdanau":
            context, weights = self.attention(s, keys, h, valid, past)
            s = self.cell(torch.cat([embedded, context], dim=1), s)
            return self.output(torch.cat([s, context], dim=1)), s, fed, weights
        inputs = torch.cat([embedded, fed], dim=1) if self.feeding else embedded
        s = self.gru(inputs.unsqueeze(1), s.unsqueeze(0))[0].squeeze(1)
        context, weights = self.attention(s, keys, h, valid, past)
        fed = torch.tanh(self.combine(torch.cat([context, s], dim=1)))
        return self.output(fed), s, fed, weights


class PlainReverser(nn.Module):
    """Encoder, zero initial state, decoder; padding masked."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        score: str,
        arrangement: str = "bahdanau",
        feeding: bool = False,
        *,
        bidirectional: bool = False,
        history: str = "none",
        score_width: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = PlainEncoder(vocabulary, embedding, hidden, bidirectional=bidirectional)
        self.hidden, values = hidden, hidden * (1 + bidirectional)
        attention = PlainAttention(score, hidden, values, score_width or hidden, history)
        context = values + (history == "shift")
        self.decoder = PlainDecoder(
            vocabulary, embedding, hidden, attention, context, arrangement, feeding
        )

    def forward(
        self, source: Tensor, lengths: Tensor, decoder_input: Tensor
    ) -> tuple[Tensor, Tensor]:
        """source (B, S), decoder_input (B, L) -> logits (B, L, V), weights (B, L, S)."""
        h = self.encoder(source, lengths)  # (B, S, Dv)
        valid = torch.arange(source.size(1), device=source.device) < lengths.unsqueeze(1)  # (B, S)
        keys = self.decoder.attention.score.project(h)
        s = fed = torch.zeros_like(h[:, 0, : self.hidden])
        logits, weights = [], []
        for t in range(decoder_input.size(1)):
            step_logits, s, fed, _ = self.decoder.step(
                decoder_input[:, t], s, fed, keys, h, valid, weights
            )
            logits.append(step_logits)
        return torch.stack(logits, dim=1), torch.stack(weights, dim=1)


class PlainTraining:
    """Train the plain model one step: cross-entropy of real tokens, Adam, clipping by norm."""

    def __init__(self, model: PlainReverser, clip_norm: float = 1.0) -> None:
        self.model, self.clip_norm = model, clip_norm
        self.optimiser = torch.optim.Adam(model.parameters())

    def step(
        self,
        source: Tensor,
        lengths: Tensor,
        decoder_input: Tensor,
        decoder_output: Tensor,
        rate: float,
    ) -> float:
        logits, _ = self.model(source, lengths, decoder_input)
        loss = F.cross_entropy(logits.flatten(0, 1), decoder_output.flatten(), ignore_index=0)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        return loss.item()
