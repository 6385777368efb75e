"""The plain loop: a GRU encoder-decoder with attention as in a textbook, without any optimisation.

The benchmarks compare seq2attn with it, and the tests use it as a reference for losses and gradients. Its parameters have
the same names as those of seq2attn's `Reverser`, so one model's `state_dict` loads into the other.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SCORES = ("dot", "scaled", "general", "scaled_general", "additive")


class PlainScore(nn.Module):
    """e(s, h) for one query against all keys: s (B, D), h (B, S, D) -> (B, S)."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.name, self.width = name, width
        if "general" in name:
            self.map = nn.Linear(width, width, bias=False)
        if name == "additive":
            self.query_map = nn.Linear(width, width, bias=False)
            self.key_map = nn.Linear(width, width, bias=False)
            self.v = nn.Linear(width, 1, bias=False)

    def project(self, h: Tensor) -> Tensor:
        """The part that depends on the keys alone, computed once per sequence, as in a textbook."""
        if "general" in self.name:
            return self.map(h)
        return self.key_map(h) if self.name == "additive" else h

    def forward(self, s: Tensor, keys: Tensor) -> Tensor:
        if self.name == "additive":
            return self.v(torch.tanh(self.query_map(s).unsqueeze(1) + keys)).squeeze(2)
        scores = torch.bmm(keys, s.unsqueeze(2)).squeeze(2)
        return scores / math.sqrt(self.width) if "scaled" in self.name else scores


class PlainAttention(nn.Module):
    def __init__(self, score: str, width: int) -> None:
        super().__init__()
        self.score = PlainScore(score, width)

    def forward(self, s: Tensor, keys: Tensor, h: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """-> context (B, D), weights (B, S)"""
        scores = self.score(s, keys).masked_fill(~valid, -torch.inf)
        weights = torch.softmax(scores, dim=1)
        return torch.bmm(weights.unsqueeze(1), h).squeeze(1), weights


class PlainEncoder(nn.Module):
    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.gru = nn.GRU(embedding, hidden, batch_first=True)


class PlainDecoder(nn.Module):
    """One step at a time: `bahdanau` attends, then steps; `luong` steps, then attends."""

    def __init__(
        self, vocabulary: int, embedding: int, hidden: int, score: str, arrangement: str, feeding: bool
    ) -> None:
        super().__init__()
        self.arrangement, self.feeding = arrangement, feeding
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.attention = PlainAttention(score, hidden)
        if arrangement == "bahdanau":
            self.cell = nn.GRUCell(embedding + hidden, hidden)
            self.output = nn.Linear(2 * hidden, vocabulary)
        else:
            self.gru = nn.GRU(embedding + hidden * feeding, hidden, batch_first=True)
            self.combine = nn.Linear(2 * hidden, hidden, bias=False)
            self.output = nn.Linear(hidden, vocabulary)

    def step(
        self, token: Tensor, s: Tensor, fed: Tensor, keys: Tensor, h: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """token (B,), s (B, D) -> logits (B, V), next s, next attentional vector, weights (B, S)."""
        embedded = self.embedding(token)
        if self.arrangement == "bahdanau":
            context, weights = self.attention(s, keys, h, valid)
            s = self.cell(torch.cat([embedded, context], dim=1), s)
            return self.output(torch.cat([s, context], dim=1)), s, fed, weights
        inputs = torch.cat([embedded, fed], dim=1) if self.feeding else embedded
        s = self.gru(inputs.unsqueeze(1), s.unsqueeze(0))[0].squeeze(1)
        context, weights = self.attention(s, keys, h, valid)
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
    ) -> None:
        super().__init__()
        self.encoder = PlainEncoder(vocabulary, embedding, hidden)
        self.decoder = PlainDecoder(vocabulary, embedding, hidden, score, arrangement, feeding)

    def forward(self, source: Tensor, lengths: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        """source (B, S), decoder_input (B, L) -> logits (B, L, V), weights (B, L, S)."""
        h, _ = self.encoder.gru(self.encoder.embedding(source))  # (B, S, D)
        valid = torch.arange(source.size(1), device=source.device) < lengths.unsqueeze(1)  # (B, S)
        keys = self.decoder.attention.score.project(h)
        s = fed = torch.zeros_like(h[:, 0])
        logits, weights = [], []
        for t in range(decoder_input.size(1)):
            step_logits, s, fed, w = self.decoder.step(decoder_input[:, t], s, fed, keys, h, valid)
            logits.append(step_logits)
            weights.append(w)
        return torch.stack(logits, dim=1), torch.stack(weights, dim=1)


class PlainTraining:
    """The training step of the plain model: cross-entropy over real tokens, Adam, clipping by norm."""

    def __init__(self, model: PlainReverser, clip_norm: float = 1.0) -> None:
        self.model, self.clip_norm = model, clip_norm
        self.optimiser = torch.optim.Adam(model.parameters())

    def step(
        self, source: Tensor, lengths: Tensor, decoder_input: Tensor, decoder_output: Tensor, rate: float
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
