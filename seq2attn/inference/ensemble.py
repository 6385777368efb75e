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
    """P(y_t | y_<t, x) is the mean of the models' probabilities, and the weights are the mean of
    theirs.

    The models have the same vocabularies. Memory and state are tuples of those of the models.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models: Any = nn.ModuleList(models)
        self.copies = all(model.copies for model in models)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        encoded = [model.encode(source, lengths) for model in self.models]
        memories, states = zip(*encoded, strict=True)
        return memories, states

    def forward(self, batch: Batch) -> Decoded:
        return average([model(batch) for model in self.models])

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        parts = zip(self.models, state, memory, strict=True)
        stepped = [model.step(tokens, *of_model) for model, *of_model in parts]
        outputs, states = zip(*stepped, strict=True)
        return average(outputs), states


def average(outputs: Sequence[Decoded]) -> Decoded:
    """Return the mean probabilities, as log-probabilities (B, L, V), and the mean weights, which
    are None if a model has none.
    """
    logs = torch.stack([output.logits.log_softmax(dim=2) for output in outputs])  # (M, B, L, V)
    weights = [output.weights for output in outputs if output.weights is not None]
    return Decoded(
        logs.logsumexp(dim=0) - math.log(len(outputs)),
        torch.stack(weights).mean(dim=0) if len(weights) == len(outputs) else None,
    )


def ensemble(predictors: Mapping[str, Predictor]) -> Predictor:
    """Return one predictor for several, by the names of their runs. Raises `Seq2AttnError` if they
    cannot decode together.
    """
    (first, reference), *others = predictors.items()
    for name, predictor in others:
        if symbols_of(predictor) != symbols_of(reference):
            raise Seq2AttnError(
                f"{first} and {name} cannot form an ensemble: they read or write different symbols",
                hint="Train them on the same task and data, with the same model.source_eos.",
            )
    models = [predictor.model for predictor in predictors.values()]
    return replace(reference, model=Ensemble(models))


def symbols_of(predictor: Predictor) -> tuple[Any, ...]:
    """Return what describes the symbols that are read and written: equal for models that can decode
    together.
    """
    task = predictor.task
    return vars(task.source_vocabulary), vars(task.target_vocabulary), predictor.source_eos
