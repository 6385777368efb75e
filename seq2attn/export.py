"""A model as a folder of ONNX graphs, by PyTorch's exporter, for programs without seq2attn."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.export import ExportedProgram

from seq2attn.errors import Seq2AttnError
from seq2attn.files import write_atomically, write_json
from seq2attn.inference.decoding import measuring
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, manifest
from seq2attn.pages.tracing import (
    Traced,
    are_close,
    at_other_lengths,
    exporting,
    line_of,
    trace_model,
)
from seq2attn.torch_private import tree_map

if TYPE_CHECKING:
    import onnx

OPSET = 18


def export_graphs(model: Model) -> list[onnx.ModelProto]:
    """Export the functions of a model, such as `prepare` and `step`, as graphs with the weights
    that they need, in the order in which the functions are called.

    model: on the CPU.

    Raises `Seq2AttnError` if packages are missing, if PyTorch cannot trace a function or translate
    its graph, and if a graph gives other results than its function at another source length.
    """
    try:  # only to see whether the packages are there
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Seq2AttnError(
            f"exporting a model needs the package {error.name}",
            hint='Install it: pip install "seq2attn[export]"',
        ) from None
    traced = trace_model(model)
    with measuring(model), exporting("torch cannot translate this model into ONNX"):
        graphs = {one.function.name: _translated(one) for one in traced}
        # the same functions with example inputs of other lengths than those of the tracing
        for _, function, message in at_other_lengths(model, traced):
            if not are_close(
                _results(graphs[function.name], function), function.call(function.inputs)
            ):
                raise ValueError(message)
    return list(graphs.values())


def _results(graph: onnx.ModelProto, function: Function) -> list[Tensor]:
    """Run an ONNX graph on the example inputs of a function of the model, by the reference
    interpreter of onnx. Return its outputs, in order.
    """
    from onnx import reference

    # in place of onnx's own, which takes no negative axis
    class GatherElements(reference.op_run.OpRun):
        def _run(self, data: Any, indices: Any, axis: int = 0) -> Any:
            return (np.take_along_axis(data, indices, axis),)

    evaluator = reference.ReferenceEvaluator(graph, new_ops=[GatherElements])
    made: Any = evaluator.run(None, tree_map(Tensor.numpy, function.inputs))
    # copied, since torch takes no array with negative strides, such as a flipped one
    return [torch.from_numpy(np.array(array)) for array in made]


def _translated(traced: Traced) -> onnx.ModelProto:
    """Translate a traced graph into ONNX. An output with the name of an input, such as a state, is
    called `NAME.next`, since ONNX names each tensor once.

    Raises `ValueError` if the exporter has no translation for an operation.
    """
    from onnx_ir.passes import Sequential, common

    function, program, _, outputs = traced
    inputs = function.inputs
    # decompose only if need be, since it takes time
    if any(node.target in DECOMPOSITIONS for node in program.graph.nodes):
        program = program.run_decompositions(DECOMPOSITIONS)
    try:
        exported: Any = torch.onnx.export(
            program,
            input_names=list(inputs),
            output_names=[f"{name}.next" if name in inputs else name for name in outputs],
            opset_version=OPSET,
            optimize=False,  # optimising takes long, and drops the addition in x + 1e-8
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(_untranslated(error, program)) from None
    Sequential(
        common.ClearMetadataAndDocStringPass(),  # lines of Python, with their folders
        common.OutputFixPass(),
        common.NameFixPass(),  # an operation may have the name of an output
    )(exported.model)
    graph: onnx.ModelProto = exported.model_proto
    graph.graph.name = function.name
    graph.producer_name = "seq2attn"
    return graph


def _untranslated(error: Exception, program: ExportedProgram) -> str:
    """Say which operation the exporter has no translation for, and where it is called."""
    reason = str(error.__cause__ or error)
    named = re.search(r"target=torch\.ops\.\w+\.(\w+)", reason)
    if not named:
        return reason.splitlines()[0]
    lines = (line_of(node) for node in program.graph.nodes if named[1] in str(node.target))
    return f"the exporter has no translation for {named[1]}{next(lines)}"


# ---- a folder for other programs ----


def write_folder(folder: Path, trained: TrainedModel) -> None:
    """Write a model to a folder, which is made if need be: its graphs as `NAME.onnx`; manifest.json
    with its run, config, vocabularies and settings; and README.md, which explains how to run them.

    Raises `Seq2AttnError` if the model cannot be exported, as `export_graphs` says, or a file
    cannot be written.
    """
    graphs = export_graphs(trained.predictor.model)
    described = {
        "format": 1,
        "run": trained.run.name,
        "step": trained.step,
        "config": trained.config.model_dump(mode="json"),
        **manifest(trained.predictor, [graph.graph.name for graph in graphs]),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for graph in graphs:
        write_atomically(folder / f"{graph.graph.name}.onnx", graph.SerializeToString())
    write_json(folder / "manifest.json", described)
    card = files("seq2attn") / "export.md"  # the same text for every model
    write_atomically(folder / "README.md", card.read_bytes())


# ---- what the exporter translates wrongly, in terms of other operations ----


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute `torch.logcumsumexp`: along `dim`, the logarithm of the sum of exp(x) up to each
    place. The exporter's own takes the logarithm of 0 where all exponentials are rounded to 0.
    """
    x = x.movedim(dim, -1)  # (..., S)
    size = x.size(-1)
    before = torch.ones(size, size, dtype=torch.bool).tril()  # (S, S) column <= row
    # (..., S, S) -> (..., S); -1e30, not -inf: -inf minus itself would be NaN
    sums = torch.where(before, x.unsqueeze(-2), -1e30).logsumexp(dim=-1)
    return sums.movedim(-1, dim)


DECOMPOSITIONS: Any = {torch.ops.aten.logcumsumexp.default: _logcumsumexp}
