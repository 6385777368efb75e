"""What a program needs to know to run a model's graphs: vocabularies, first states, and the loops around the graphs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.pages.graphs import Exported

LONGEST = 500  # tokens of a source for which the number of steps is given


def manifest(predictor: Predictor, exported: Exported) -> dict[str, Any]:
    """Plain JSON values; see `CARD` in `seq2attn.pages.folder` for what to do with them."""
    names = [part.name for part in exported.functions]
    layers = sorted({name.rsplit("_", 1)[0] for name in names if name.startswith("encoder_")})
    attention = getattr(getattr(predictor.model, "decoder", None), "attention", None)
    return {
        "source": _vocabulary(predictor.task.source_vocabulary),
        "target": _vocabulary(predictor.task.target_vocabulary),
        "pad": PAD,
        "sos": SOS,
        "eos": EOS,
        "source_eos": predictor.source_eos,
        "attends": "weights" in [value.name for value in exported.graphs[-1].graph.output],
        "mask_padding": bool(getattr(attention, "mask_padding", True)),
        "layers": [[name for name in names if name.startswith(f"{layer}_")] for layer in layers],
        "first": {
            part.name: {name: plain_tensor(one) for name, one in part.first.items()} for part in exported.functions
        },
        "most_steps": [output_bound(predictor.task, length) for length in range(1, LONGEST + 1)],
    }


def plain_tensor(tensor: Tensor) -> dict[str, Any]:
    """Type, shape and values in row-major order."""
    return {"type": "float", "shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "tokens": [vocabulary.symbol(index) for index in range(len(vocabulary))],
        "symbols": list(vocabulary.symbols),
        "features": None if vocabulary.features is None else list(vocabulary.features),
        "separator": vocabulary.separator,
        "unknown": vocabulary.unknown,
        "normalise": vocabulary.normalise,
        "split": vocabulary.split,
    }
