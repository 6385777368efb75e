"""Does attention matter? Accuracy when a trained model attends with other weights than its own.

Jain & Wallace (2019) permute weights; Wiegreffe & Pinter (2019) ask whether uniform weights, or
those of another seed, do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2attn.analysis.result import Analysis, column
from seq2attn.data.batches import generator
from seq2attn.data.padding import valid_mask
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.changes import UNCHANGED, Changes
from seq2attn.inference.ensemble import symbols_of
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
from seq2attn.model.points import Hook, Point, points


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
    """permuted: each step's weights are shuffled over the source. uniform: 1 / S on each of its S
    positions. frozen: the weights with which `other` decodes the same string.
    """

    kind: str = "uniform"
    other: Predictor | None = None
    seed: int = 0

    of_model = True

    def hooks(self, model: Model, source: Tensor, lengths: Tensor) -> dict[Point, Hook]:
        known = points(model)
        if "attention.weights" not in known:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        return dict.fromkeys(known["attention.weights"], self._hook(source, lengths))

    def _hook(self, source: Tensor, lengths: Tensor) -> Hook:
        valid = valid_mask(lengths, source.size(1)).unsqueeze(1)  # (B, 1, S)
        if self.kind == "permuted":
            return self._permuted(valid)
        if self.other is None:
            return lambda weights, _: (
                (valid / lengths.view(-1, 1, 1)).to(weights).expand_as(weights)
            )
        frozen = self.other.decode(source, lengths, keep_weights=True).weights  # (B, T, S)
        if frozen is None:
            raise Seq2AttnError(
                "the run named with --frozen has no attention (its score is `none`)"
            )

        def hook(weights: Tensor, first: int) -> Tensor:
            steps = torch.arange(first, first + weights.size(-2), device=weights.device)
            rows = frozen[:, steps.clamp(max=frozen.size(1) - 1)]  # (B, L, S)
            return (
                rows.to(weights)
                .view(len(rows), *[1] * (weights.dim() - 3), *rows.shape[1:])
                .expand_as(weights)
            )

        return hook

    def _permuted(self, valid: Tensor) -> Hook:
        """Each step's weights in an order of its own, the same in every head; padding stays where
        it is.
        """
        random = generator(valid.device, self.seed, "permuted weights", valid.size(2))
        orders: list[Tensor] = []  # (B, 1, S) of each step

        def hook(weights: Tensor, first: int) -> Tensor:
            last = first + weights.size(-2)
            while len(orders) < last:
                keys = torch.rand(valid.shape, generator=random, device=valid.device)
                orders.append(keys.masked_fill(~valid, 2.0).argsort(dim=2))
            order = torch.cat(orders[first:last], dim=1)  # (B, L, S)
            order = order.view(len(order), *[1] * (weights.dim() - 3), *order.shape[1:])
            return weights.gather(-1, order.expand_as(weights))

        return hook


def attention_importance(
    predictor: Predictor,
    measure: Callable[[Predictor], Evaluation],
    *,
    other: Predictor | None = None,
    seed: int = 0,
) -> Analysis[ImportanceRow]:
    """Exact match as `measure` finds it, with the model's own weights and with others. Raises
    `Seq2AttnError` for a model without attention, and for another model, whose weights are used,
    that reads or writes different symbols.
    """
    if other is not None and symbols_of(other) != symbols_of(predictor):
        raise Seq2AttnError(
            "the two runs read or write different symbols", hint="Name a run on the same task."
        )
    changes = {"unchanged": UNCHANGED}
    changes |= {kind: OtherWeights(kind=kind, seed=seed) for kind in ("permuted", "uniform")}
    changes |= {"frozen": OtherWeights(kind="frozen", other=other)} if other else {}
    rows = [
        ImportanceRow(kind, row.length, row.value, row.low, row.high)
        for kind, change in changes.items()
        for row in measure(replace(predictor, changes=change)).by_length("exact_match")
    ]
    return Analysis({"seed": seed}, tuple(rows))
