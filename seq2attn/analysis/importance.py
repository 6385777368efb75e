"""Does attention matter? Accuracy when a trained model attends with other weights than its own.

Jain & Wallace (2019) permute weights; Wiegreffe & Pinter (2019) ask whether uniform weights, or
those of another seed, do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2attn.analysis import Analysis
from seq2attn.data.batches import generator, valid_mask
from seq2attn.display.table import Column, Number, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.changes import UNCHANGED, Changes
from seq2attn.inference.predictor import Predictor, symbols_of
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.model.points import At, Hook


def attention_importance(
    trained: TrainedModel, other: TrainedModel | None, *, seed: int, **options: Any
) -> Analysis:
    """Measure exact match with the model's own weights, `unchanged`, then with others: `permuted`,
    at each step over the source's positions; `uniform`; and, if there is an `other` model,
    `frozen`, those of that model. There is a row for each of these and each length of the strings,
    with a 95 % interval.

    The columns of the table: the kind of `weights`, the `length` of the sources, and `exact_match`,
    the share of the strings whose output is right, with the ends of its interval.

    seed: of the strings and permutations. options: others of `TrainedModel.evaluate`.

    Raises `Seq2AttnError` if one of the models has no attention, and if the two read or write
    different symbols.
    """
    settings = {"run": trained.run.name, "seed": seed}
    changes = {
        "unchanged": UNCHANGED,
        "permuted": OtherWeights(hook=partial(permuted, seed=seed)),
        "uniform": OtherWeights(hook=uniform),
    }
    if other is not None:
        if symbols_of(other.predictor) != symbols_of(trained.predictor):
            raise Seq2AttnError(
                "the two runs read or write different symbols", hint="Name a run on the same task."
            )
        settings["frozen_to"] = other.run.name
        changes["frozen"] = OtherWeights(hook=partial(frozen, other=other.predictor))

    rows = []
    for kind, change in changes.items():
        # (a model without attention has no weights to replace: `evaluate` raises)
        changed = replace(trained, predictor=replace(trained.predictor, changes=change))
        for row in changed.evaluate(seed=seed, **options).by_length("exact_match"):
            rows.append([kind, row.length, row.value, row.low, row.high])
    columns = [Column("weights"), *map(Number, ("length", "exact match", "low", "high"))]
    return Analysis(settings, Table(columns, rows))


@dataclass(frozen=True, kw_only=True)
class OtherWeights(Changes):
    """Other attention weights in place of the model's own."""

    hook: Callable[[Tensor, Tensor], Hook]
    """source (B, S) and lengths (B,) -> the hook of `attention.weights`"""

    def of_attention(self, source: Tensor, lengths: Tensor) -> dict[str, Hook]:
        return {"attention.weights": self.hook(source, lengths)}


def uniform(source: Tensor, lengths: Tensor) -> Hook:
    """Return a hook that gives 1 / S to each of the S real positions of a source."""
    valid = valid_mask(lengths, source.size(1)).unsqueeze(1)  # (B, 1, S)
    shares = valid / lengths.view(-1, 1, 1)  # (B, 1, S)
    return lambda weights, _: _each_head(shares.to(weights), weights)


def permuted(source: Tensor, lengths: Tensor, seed: int) -> Hook:
    """Return a hook that shuffles each step's weights over the real positions of its source, in the
    same order in every head. source (B, S), right-padded, of lengths (B,).

    An order depends on seed, step, S and the row in the batch alone, so that a step that is
    computed again has the same.
    """
    valid = valid_mask(lengths, source.size(1)).unsqueeze(1)  # (B, 1, S)

    def hook(weights: Tensor, at: At) -> Tensor:
        """Shuffle the weights (B, L, S) or (B, heads, L, S) of L steps of the output, of which
        `at.first` is the number of the first.
        """
        orders = []
        for step in range(at.first, at.first + weights.size(-2)):
            random = generator(source.device, seed, "permuted weights", source.size(1), step)
            numbers = torch.rand(valid.shape, generator=random, device=source.device)
            # numbers are below 1: with 2, padding is sorted behind all real positions
            orders.append(numbers.masked_fill(~valid, 2.0).argsort(dim=2))  # (B, 1, S)
        order = torch.cat(orders, dim=1)  # (B, L, S)
        return weights.gather(-1, _each_head(order, weights))

    return hook


def frozen(source: Tensor, lengths: Tensor, other: Predictor) -> Hook:
    """Return a hook that sets, at each step, the weights with which `other` decodes the same
    strings, source (B, S) of lengths (B,); beyond the end of its output, those of its last step.
    Raises `Seq2AttnError` if it has no attention.
    """
    # (B, 1, T, S), as `other` has no beam
    decoded = other.decode(source, lengths, keep_weights=True).weights
    if decoded is None:
        raise Seq2AttnError("the run named with --frozen has no attention (its score is `none`)")
    kept = decoded.squeeze(1)  # (B, T, S)

    def hook(weights: Tensor, at: At) -> Tensor:
        # the weights are those of L steps, the first of which is `at.first`
        steps = torch.arange(at.first, at.first + weights.size(-2), device=kept.device)  # (L,)
        rows = kept[:, steps.clamp(max=kept.size(1) - 1)]  # (B, L, S)
        return _each_head(rows.to(weights), weights)

    return hook


def _each_head(rows: Tensor, weights: Tensor) -> Tensor:
    """Expand rows (B, L, S) to the shape of weights (B, L, S) or (B, heads, L, S)."""
    if weights.dim() == 4:
        rows = rows.unsqueeze(1)  # (B, 1, L, S)
    return rows.expand_as(weights)
