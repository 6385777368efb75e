"""A run's model in a folder: graphs, the manifest that describes them, and how to use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.display.console import json_text
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.pages import asset
from seq2attn.pages.graphs import Exported, export_graphs
from seq2attn.runs.files import write_atomically

LONGEST = 500  # tokens of a source for which the number of steps is given
VOCABULARY = ("symbols", "features", "separator", "unknown", "normalise", "split")


def write_folder(folder: Path, trained: TrainedModel) -> None:
    """Export a model to a folder, which is made. Raises `Seq2AttnError` as `export_graphs` does."""
    exported = export_graphs(trained.predictor.model)
    about = {
        "run": trained.run.name,
        "step": trained.step,
        "config": trained.config.model_dump(mode="json"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_graphs(folder, exported, about | manifest(trained.predictor, exported))
    write_atomically(folder / "README.md", asset("card.md").encode())


def write_graphs(folder: Path, exported: Exported, described: dict[str, Any]) -> None:
    """The graphs, and the manifest that describes them."""
    for graph in exported.graphs:
        write_atomically(folder / f"{graph.graph.name}.onnx", graph.SerializeToString())
    write_atomically(folder / "manifest.json", json_text({"format": 1, **described}).encode())


def manifest(predictor: Predictor, exported: Exported) -> dict[str, Any]:
    """What a program needs to know to run the graphs, as plain JSON values: their inputs and
    outputs, vocabularies, first states, and the loops around them. `card.md` says what to do with
    them.
    """
    names = [part.name for part in exported.functions]
    layers = sorted({name.rsplit("_", 1)[0] for name in names if name.startswith("encoder_")})
    graphs = {
        model.graph.name: {
            side: [value.name for value in getattr(model.graph, side)]
            for side in ("input", "output")
        }
        for model in exported.graphs
    }
    attention = getattr(getattr(predictor.model, "decoder", None), "attention", None)
    return {
        "graphs": graphs,
        "source": _vocabulary(predictor.task.source_vocabulary),
        "target": _vocabulary(predictor.task.target_vocabulary),
        "pad": PAD,
        "sos": SOS,
        "eos": EOS,
        "source_eos": predictor.source_eos,
        "attends": "weights" in graphs["step"]["output"],
        "mask_padding": bool(getattr(attention, "mask_padding", True)),
        "layers": [[name for name in names if name.startswith(f"{layer}_")] for layer in layers],
        "first": {
            part.name: {name: _plain(one) for name, one in part.first.items()}
            for part in exported.functions
        },
        "most_steps": [output_bound(predictor.task, length) for length in range(1, LONGEST + 1)],
    }


def _plain(tensor: Tensor) -> dict[str, Any]:
    """Type, shape and values in row-major order."""
    return {"type": "float", "shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    tokens = list(vocabulary.tokens)
    return {"tokens": tokens, **{name: getattr(vocabulary, name) for name in VOCABULARY}}
