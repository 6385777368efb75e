"""The model of a run in a folder: graphs, the manifest that describes them, and how to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.display.console import json_text
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.model.points import points
from seq2attn.pages import asset
from seq2attn.pages.functions import force_reason
from seq2attn.pages.graphs import export_graphs
from seq2attn.runs.files import write_atomically

if TYPE_CHECKING:
    import onnx

LONGEST = 500  # tokens of a source for which the number of steps is given
VOCABULARY = ("symbols", "features", "separator", "unknown", "normalise")


def write_folder(folder: Path, trained: TrainedModel) -> None:
    """Export a model to a new folder. Raises `Seq2AttnError` as `export_graphs` does."""
    graphs = export_graphs(trained.predictor.model)
    folder.mkdir(parents=True, exist_ok=True)
    write_graphs(folder, graphs, {
        "run": trained.run.name,
        "step": trained.step,
        "config": trained.config.model_dump(mode="json"),
        **manifest(trained.predictor, graphs),
    })  # fmt: skip
    write_atomically(folder / "README.md", asset("card.md").encode())


def write_graphs(
    folder: Path, graphs: Sequence[onnx.ModelProto], described: dict[str, Any]
) -> None:
    """Write graphs, and the manifest that describes them."""
    for graph in graphs:
        write_atomically(folder / f"{graph.graph.name}.onnx", graph.SerializeToString())
    write_atomically(folder / "manifest.json", json_text({"format": 1, **described}).encode())


def manifest(predictor: Predictor, graphs: Sequence[onnx.ModelProto]) -> dict[str, Any]:
    """Return what a program must know to run the graphs, as plain JSON values. `card.md` says how
    to use it.
    """
    names = [graph.graph.name for graph in graphs]
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
        "attends": "attention.weights" in points(model),
        "force_reason": force_reason(model),
        "mask_padding": all(getattr(part, "mask_padding", True) for part in model.modules()),
        "layers": list(layers.values()),
        "most_steps": [output_bound(task, length) for length in range(1, LONGEST + 1)],
    }


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    others = {name: getattr(vocabulary, name) for name in VOCABULARY}
    return {"tokens": list(vocabulary.tokens), **others}
