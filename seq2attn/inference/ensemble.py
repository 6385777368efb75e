"""An ensemble: several models that decode together, each step from the average of their
probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.predictor import Predictor
from seq2attn.model.interface import Decoded, Model


class Ensemble(Model):
    """P(y_t | y_<t, x) = the mean of the models' probabilities; the weights shown are the mean of
    theirs.

    The models have the same vocabularies. Memory and state are tuples of the models' own.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self._members = list(models)  # the same, with their type
        self.copies = all(model.copies for model in models)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        encoded = [model.encode(source, lengths) for model in self._members]
        return tuple(memory for memory, _ in encoded), tuple(state for _, state in encoded)

    def forward(self, batch: Batch) -> Decoded:
        return average([model(batch) for model in self._members])

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        stepped = [
            model.step(tokens, *parts)
            for model, *parts in zip(self._members, state, memory, strict=True)
        ]
        return average([decoded for decoded, _ in stepped]), tuple(after for _, after in stepped)


def average(parts: Sequence[Decoded]) -> Decoded:
    """The mean probabilities, as log-probabilities (B, L, V), and the mean weights; None if one
    model has none.
    """
    log_probabilities = torch.stack(
        [part.logits.log_softmax(dim=2) for part in parts]
    )  # (M, B, L, V)
    weights = [part.weights for part in parts if part.weights is not None]
    return Decoded(
        log_probabilities.logsumexp(dim=0) - math.log(len(parts)),
        torch.stack(weights).mean(dim=0) if len(weights) == len(parts) else None,
    )


def ensemble(predictors: Mapping[str, Predictor]) -> Predictor:
    """One predictor of several, by the names of their runs. Raises `Seq2AttnError` if they cannot
    decode together.
    """
    (first, reference), *others = predictors.items()
    for name, predictor in others:
        if symbols_of(predictor) != symbols_of(reference):
            raise Seq2AttnError(
                f"{first} and {name} cannot form an ensemble: they read or write different symbols",
                hint="Train them on the same task and data, with the same model.source_eos.",
            )
    return replace(
        reference, model=Ensemble([predictor.model for predictor in predictors.values()])
    )


def symbols_of(predictor: Predictor) -> tuple[Any, ...]:
    """What it reads and writes; equal for models that can decode together."""
    task = predictor.task
    return vars(task.source_vocabulary), vars(task.target_vocabulary), predictor.source_eos
