"""seq2attn: a laboratory bench for attention in recurrent sequence-to-sequence models.

In Python:

    import seq2attn

    run = seq2attn.train("configs/scaled.yaml", ["training.steps=500"])
    model = seq2attn.load(run)
    answer = model.predict("hello")
    print(answer.output, answer.weights.shape)
    seq2attn.evaluate(run, lengths=[5, 10])

Importing this module does not import torch. A user's mistake raises `seq2attn.Seq2AttnError`. See
docs/python.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2attn.api import compare, evaluate, load, train
    from seq2attn.comparison.results import Comparison
    from seq2attn.data.tasks import Solution, StringTask, Task
    from seq2attn.data.vocabulary import Vocabulary
    from seq2attn.errors import Seq2AttnError
    from seq2attn.inference.answer import Answer
    from seq2attn.inference.cache import Cache
    from seq2attn.inference.patching import PatchMap, patch_map
    from seq2attn.inference.results import Evaluation
    from seq2attn.inference.trained_model import TrainedModel, new_model
    from seq2attn.model.cells import Cell
    from seq2attn.model.decoder import Decoder
    from seq2attn.model.encoder import InitialState
    from seq2attn.model.histories import History
    from seq2attn.model.normalisers import Normaliser
    from seq2attn.model.points import Point, hooked
    from seq2attn.model.scores import Score
    from seq2attn.model.windows import View, Window
    from seq2attn.registry import register
    from seq2attn.runs.run import Run

__version__ = "0.1.0"
_MODULES = {
    "api": "compare evaluate load train",
    "comparison.results": "Comparison",
    "data.tasks": "Solution StringTask Task",
    "data.vocabulary": "Vocabulary",
    "errors": "Seq2AttnError",
    "inference.answer": "Answer",
    "inference.cache": "Cache",
    "inference.patching": "PatchMap patch_map",
    "inference.results": "Evaluation",
    "inference.trained_model": "TrainedModel new_model",
    "model.cells": "Cell",
    "model.decoder": "Decoder",
    "model.encoder": "InitialState",
    "model.histories": "History",
    "model.normalisers": "Normaliser",
    "model.points": "Point hooked",
    "model.scores": "Score",
    "model.windows": "View Window",
    "registry": "register",
    "runs.run": "Run",
}
__all__ = [
    "Answer",
    "Cache",
    "Cell",
    "Comparison",
    "Decoder",
    "Evaluation",
    "History",
    "InitialState",
    "Normaliser",
    "PatchMap",
    "Point",
    "Run",
    "Score",
    "Seq2AttnError",
    "Solution",
    "StringTask",
    "Task",
    "TrainedModel",
    "View",
    "Vocabulary",
    "Window",
    "compare",
    "evaluate",
    "hooked",
    "load",
    "new_model",
    "patch_map",
    "register",
    "train",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
