"""A run's model in a folder: graphs, manifest, config, weights, and a card that says how to use them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import save

from seq2attn.pages.graphs import OPSET, Exported, export_graphs
from seq2attn.pages.manifest import manifest
from seq2attn.runs.files import json_text, write_atomically
from seq2attn.runs.loading import Trained, load_trained
from seq2attn.runs.run import Run

CARD = """\
---
library_name: onnx
tags: [seq2seq, attention]
---

# {name}

A sequence-to-sequence model, trained by seq2attn: task `{task}`, score `{score}`, {parameters:,} parameters, {step:,} steps.
`config.json` has every setting, `model.safetensors` the weights under seq2attn's names.

seq2attn itself loads the run, not this folder, which is for programs without it.

## Graphs

ONNX, opset {opset}, one string at a time, of any length; `manifest.json` has the type and shape of each input and output.
Loops are not part of the graphs. Each input `state.*` takes what the last call returned as `state.*.next`; each input
`memory.*` takes what `prepare` returned.

{graphs}

## How to run it

1. Source: the ids of the string's symbols (`manifest.json`: `source.tokens`){eos}. Bring the string to Unicode's normal
   form `source.normalise` first (nfc, nfd, or none), and split it at `source.separator`; if that is empty, into characters.
{encode}{prepare}. Call `prepare` with `source` (1, S), `valid` (1, S), true: a real token{states}, as far as it has
   these inputs. It returns `memory.*`, and the decoder's first `state.*`; first states that it does not return are in
   `first.step`.
{last}. Call `step` with `token` (at first `<sos>`, {sos}), the state, the memory and, if it has these inputs:
   `change.valid` (1, 1, S): which positions may be attended to; this model was trained with {mask}.
   `change.banned` and `change.forced` (1, 1, S): false. `change.weights` (1, 1, S): 0. `change.temperature` (1, 1, 1): 1.
   The likeliest symbol is the largest of `logits` (1, 1, V); feed it to the next step, until it is `<eos>`, {eos_id}.
   `weights` (1, 1, S) is the attention. The output is the symbols with `target.separator` between them; if `target.split`
   is true, a symbol of two characters that begins with ◌ continues the one before it, without ◌ and separator. Unless
   `target.normalise` is none, bring the output to normal form C.
   Give up after `most_steps[N - 1]` steps for N symbols.

To intervene: `change.banned` leaves a position out of the softmax; where `change.forced` is true the weight is that of
`change.weights`, and the others share what is left of 1; scores are divided by `change.temperature`.
"""
RECURRENT = """\
2. Encoder: for each layer in `layers`, for each of its graphs: begin with the state in `first`, and call it for one position
   after another, with `input` the token's id (1,), or in a layer above the first the outputs (1, W) of the layer below, of
   its directions side by side, forward first. A `backward` graph reads the real tokens from the last to the first. Keep
   `output` by position, and the state after the last call for a real token, of a layer in two directions the backward one's.
"""


def write_folder(folder: Path, run: Run, checkpoint: str = "best") -> None:
    """Export a run's model to a folder, which is made. Raises `Seq2AttnError` as `export_graphs` does."""
    trained = load_trained(run, checkpoint, "cpu")
    model, config = trained.predictor.model, run.config()
    exported = export_graphs(model)
    described = manifest(trained.predictor, exported)
    folder.mkdir(parents=True, exist_ok=True)
    write_graphs(folder, exported, described)
    write_atomically(folder / "config.json", json_text(config.model_dump(mode="json"), indent=2).encode())
    write_atomically(folder / "README.md", _card(run, trained, exported, described).encode())
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(folder / "model.safetensors", save(tensors, {"format": "pt"}))


def write_graphs(folder: Path, exported: Exported, described: dict[str, Any]) -> None:
    """The graphs, and the manifest that describes them."""
    for graph in exported.graphs:
        write_atomically(folder / f"{graph.graph.name}.onnx", graph.SerializeToString())
    text = json_text({"format": 1, "graphs": _signatures(exported), **described})
    write_atomically(folder / "manifest.json", text.encode())


def _signatures(exported: Exported) -> dict[str, Any]:
    return {
        graph.graph.name: {
            "file": f"{graph.graph.name}.onnx",
            "inputs": {value.name: _shape(value) for value in graph.graph.input},
            "outputs": {value.name: _shape(value) for value in graph.graph.output},
            "types": {value.name: _type(value) for value in (*graph.graph.input, *graph.graph.output)},
        }
        for graph in exported.graphs
    }


def _shape(value: Any) -> list[int | str]:
    """Sizes, or what a free one is called."""
    sizes = value.type.tensor_type.shape.dim
    return [one.dim_value if one.HasField("dim_value") else one.dim_param for one in sizes]


def _type(value: Any) -> str:
    """As NumPy calls it, such as float32 or int64."""
    import onnx

    return str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _card(run: Run, trained: Trained, exported: Exported, described: dict[str, Any]) -> str:
    config = run.config()
    signatures = _signatures(exported).items()
    rows = [f"- `{name}.onnx`: {_names(parts['inputs'])} → {_names(parts['outputs'])}" for name, parts in signatures]
    recurrent = bool(described["layers"])
    return CARD.format(
        name=run.name,
        task=config.task.name,
        score=config.score_name,
        parameters=sum(one.numel() for one in trained.predictor.model.parameters()),
        step=trained.step,
        opset=OPSET,
        graphs="\n".join(rows),
        eos=f", then `<eos>`, {described['eos']}" if described["source_eos"] else "",
        encode=RECURRENT if recurrent else "",
        prepare=3 if recurrent else 2,
        last=4 if recurrent else 3,
        sos=described["sos"],
        eos_id=described["eos"],
        mask="padding masked: true for real tokens"
        if described["mask_padding"]
        else "padding not masked: true everywhere",
        states=", the outputs as `states` (1, S, W), and the last states, layer by layer, as `final.*`"
        if recurrent
        else "",
    )
