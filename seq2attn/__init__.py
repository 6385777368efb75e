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
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {name: module for module, name in re.findall(r"from (\S+) import (\w+)", _STUB)}
__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, since most of them import torch."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
