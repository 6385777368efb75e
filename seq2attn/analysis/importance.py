"""Does attention matter? Accuracy when a trained model attends with other weights than its own.

Jain & Wallace (2019) permute weights; Wiegreffe & Pinter (2019) ask whether uniform weights, or those of another seed, do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2attn.analysis.result import Analysis, column
from seq2attn.data.batches import generator
from seq2attn.data.padding import valid_mask
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.ensemble import symbols_of
from seq2attn.inference.interventions import UNCHANGED, Changes
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Intervention


@dataclass(frozen=True)
class ImportanceRow:
    """The strings of one length, decoded with one kind of weights."""

    weights: str = column("weights")
    length: int | None = column("length", ",")
    exact_match: float = column("exact match", ".3f")
    low: float | None = column("low", ".3f")
    """ends of the 95 % interval over strings"""
    high: float | None = column("high", ".3f")


@dataclass(frozen=True)
class OtherWeights(Changes):
    """permuted: each step's weights are shuffled over the source. uniform: 1 / S on each of its S positions. frozen: the
    weights with which `other` decodes the same string.
    """

    kind: str = "uniform"
    other: Predictor | None = None
    seed: int = 0

    def during(self, source: Tensor, lengths: Tensor, dtype: torch.dtype) -> Callable[[int], Intervention]:
        plain = self.at(0, lengths, source.size(1), dtype)
        valid = valid_mask(lengths, source.size(1)).unsqueeze(1)  # (B, 1, S)
        if self.kind == "permuted":
            random = generator(source.device, self.seed, "permuted weights", source.size(1))
            keys = (torch.rand(valid.shape, generator=random, device=source.device) for _ in itertools.count())
            return lambda _: plain._replace(order=next(keys).masked_fill(~valid, 2.0).argsort(dim=2))  # padding stays
        weights: Tensor | None = (valid / lengths.view(-1, 1, 1)).to(dtype)  # (B, 1, S)
        if self.other is not None:
            weights = self.other.decode(source, lengths, keep_weights=True).weights  # (B, T, S)
        if weights is None:
            raise Seq2AttnError("the run named with --frozen has no attention (its score is `none`)")
        rows = torch.split(weights, 1, dim=1)
        return lambda step: plain._replace(forced=torch.ones_like(valid), weights=rows[min(step, len(rows) - 1)])


def attention_importance(
    predictor: Predictor, measure: Callable[[Predictor], Evaluation], *, other: Predictor | None = None, seed: int = 0
) -> Analysis[ImportanceRow]:
    """Exact match as `measure` finds it, with the model's own weights and with others. Raises `Seq2AttnError` for a model
    without attention, and for another model, whose weights are used, that reads or writes different symbols.
    """
    if other is not None and symbols_of(other) != symbols_of(predictor):
        raise Seq2AttnError("the two runs read or write different symbols", hint="Name a run on the same task.")
    changes = {"unchanged": UNCHANGED}
    changes |= {kind: OtherWeights(kind=kind, seed=seed) for kind in ("permuted", "uniform")}
    changes |= {"frozen": OtherWeights(kind="frozen", other=other)} if other else {}
    rows = [
        ImportanceRow(kind, row.length, row.value, row.low, row.high)
        for kind, change in changes.items()
        for row in measure(replace(predictor, changes=change)).by_length("exact_match")
    ]
    return Analysis({"seed": seed}, tuple(rows))
