"""Which parts of a model are exactly as they were written, so that a faster form computes the same."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from seq2attn.model.attention import Attention, NoAttention
from seq2attn.model.cells import GRU
from seq2attn.model.decoder import BahdanauDecoder, LuongDecoder, Reverser
from seq2attn.model.encoder import Encoder, Layer
from seq2attn.model.histories import Coverage, Location, LocationCoverage, NoHistory, Shift
from seq2attn.model.scores import Additive, Dot, General, KeyValue, Scaled, ScaledGeneral

PRODUCTS = (Dot, Scaled, General, ScaledGeneral, KeyValue)  # scores s.k of projected keys k
KNOWN = (
    *(Reverser, Encoder, Layer, GRU, BahdanauDecoder, LuongDecoder, Attention, NoAttention, Additive, *PRODUCTS),
    *(Coverage, Location, LocationCoverage, NoHistory, Shift, nn.Linear, nn.Embedding, nn.Dropout, nn.Conv1d),
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


_DUNDER = ("__call__", "__getattr__", "__getattribute__", "__setattr__")


def _attributes() -> dict[type, dict[str, Any]]:
    """The attributes of every known class and of its bases."""
    bases = {base for kind in KNOWN for base in kind.__mro__ if base is not object}
    return {
        base: {name: value for name, value in vars(base).items() if not name.startswith("__") or name in _DUNDER}
        for base in bases
    }


_WRITTEN = _attributes()


def classes_as_written() -> bool:
    """Whether no method of a known class was replaced: neither since this module was imported, nor by a function that was
    written elsewhere before.
    """
    return _attributes() == _WRITTEN and all(
        value.__code__.co_filename == inspect.getfile(kind)
        for kind, attributes in _WRITTEN.items()
        if kind.__module__.startswith("seq2attn.")
        for value in attributes.values()
        if inspect.isfunction(value)
    )


def as_written(*modules: nn.Module) -> bool:
    """Whether these modules, without those inside them, are of known classes, without hooks and methods of their own."""
    return not _has_any_global_hook() and all(  # type: ignore[no-untyped-call]
        type(module) in KNOWN
        and not any(getattr(module, hooks) for hooks in _HOOKS)
        and not any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())
        for module in modules
    )
