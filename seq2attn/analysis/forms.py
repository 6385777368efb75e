"""Attention as loops over batch, queries and keys, and as products of matrices: equal up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.analysis.result import Analysis, column
from seq2attn.analysis.sampling import seeded_score
from seq2attn.data.batches import generator
from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Attention
from seq2attn.model.scores import Score

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class FormsRow:
    """The largest differences between the two forms, of one score in one precision."""

    score: str
    precision: str
    weights: float = column("in weights", ".1e")
    contexts: float = column("in contexts", ".1e")
    rounding: float = column("rounding", ".1e")
    """bound for rounding errors: machine epsilon x D x the largest component of a key"""
    agree: bool = column("agree")


@torch.no_grad()
def compare_forms(
    scores: Sequence[str], *, batch: int, source: int, target: int, width: int, seed: int
) -> Analysis[FormsRow]:
    """Attend with L random queries to S random keys in both forms, for B sources of different lengths."""
    rows = []
    for name in scores:
        for precision, dtype in PRECISIONS.items():
            score = seeded_score(name, width, seed).to(dtype)
            random = generator(torch.device("cpu"), seed, "forms")
            query = torch.randn(batch, target, width, generator=random, dtype=torch.float64).to(dtype)
            keys = torch.randn(batch, source, width, generator=random, dtype=torch.float64).to(dtype)
            lengths = torch.arange(batch) % source + 1
            attention = Attention(score)
            matrix = attention(query, attention.prepare(keys, valid_mask(lengths, source)))
            assert matrix.weights is not None
            weights, contexts = attend_by_loops(score, query, keys, lengths)
            in_weights = float((matrix.weights - weights).abs().max())
            in_contexts = float((matrix.context - contexts).abs().max())
            rounding = torch.finfo(dtype).eps * width * float(keys.abs().max())
            agree = max(in_weights, in_contexts) <= rounding
            rows.append(FormsRow(name, precision, in_weights, in_contexts, rounding, agree))
    settings = {"batch": batch, "source": source, "target": target, "width": width, "seed": seed}
    return Analysis(settings, tuple(rows))


def attend_by_loops(score: Score, query: Tensor, keys: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """query (B, L, D), keys (B, S, D), lengths (B,) -> weights (B, L, S), contexts (B, L, D): one pair at a time."""
    weights = query.new_zeros(len(query), query.size(1), keys.size(1))
    contexts = query.new_zeros(len(query), query.size(1), score.value_width)
    for b, length in enumerate(lengths.tolist()):
        for t in range(query.size(1)):
            s = query[b : b + 1, t : t + 1]  # (1, 1, D)
            scores = [score(s, score.project(keys[b : b + 1, j : j + 1])).squeeze() for j in range(length)]
            highest = max(scores)
            exponentials = [(one - highest).exp() for one in scores]
            for j, one in enumerate(exponentials):
                weights[b, t, j] = one / sum(exponentials)
                contexts[b, t] += weights[b, t, j] * score.values(keys[b : b + 1, j : j + 1])[0, 0]
    return weights, contexts
