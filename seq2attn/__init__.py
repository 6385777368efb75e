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

import importlib
from typing import Any

__version__ = "0.1.0"
_MODULES = {
    "api": "compare evaluate load train",
    "comparison.results": "Comparison",
    "data.tasks": "Solution StringTask Task",
    "data.vocabulary": "Vocabulary",
    "errors": "Seq2AttnError",
    "inference.answer": "Answer PatchMap",
    "inference.cache": "Cache",
    "inference.results": "Evaluation",
    "inference.trained_model": "TrainedModel new_model patch_map",
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
__all__ = sorted(" ".join(_MODULES.values()).split())  # noqa: PLE0605
"""with their types in `__init__.pyi`"""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
