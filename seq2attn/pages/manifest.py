"""What a program must know of a model to run its graphs."""

from collections.abc import Sequence
from typing import Any

from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.model.points import places
from seq2attn.pages.functions import force_reason

LONGEST = 500  # symbols of the longest source for which the manifest gives the number of steps
VOCABULARY = ("symbols", "features", "separator", "unknown", "normalise")  # attributes of one


def manifest(predictor: Predictor, names: Sequence[str]) -> dict[str, Any]:
    """Return vocabularies and settings of a model as plain JSON values; `export/card.md` says how
    to use them.

    names: of the graphs, of which those of encoder cells are also listed by layer.
    """
    # encoder_0 -> encoder_0_forward and, if it is bidirectional, encoder_0_backward
    layers: dict[str, list[str]] = {}
    for name in names:
        layer, _, direction = name.rpartition("_")
        if direction in ("forward", "backward"):
            layers.setdefault(layer, []).append(name)
    model = predictor.model
    task = predictor.task
    return {
        "graphs": names,
        "source": _vocabulary(task.source_vocabulary),
        "target": _vocabulary(task.target_vocabulary),
        "pad": PAD,
        "sos": SOS,
        "eos": EOS,
        "source_eos": predictor.source_eos,
        "attends": "attention.weights" in places(model),
        # without `<unk>` a model that copies writes no symbol that its vocabulary lacks
        "copies": model.copies and task.target_vocabulary.unknown,
        "force_reason": force_reason(model),
        # True unless a module that attends does not mask it; other modules lack the attribute
        "mask_padding": all(getattr(part, "mask_padding", True) for part in model.modules()),
        "layers": list(layers.values()),
        # of a source of 1 symbol, 2, ...: after how many steps to give up
        "most_steps": [output_bound(task, length) for length in range(1, LONGEST + 1)],
    }


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    others = {name: getattr(vocabulary, name) for name in VOCABULARY}
    return {"tokens": list(vocabulary.tokens), **others}
