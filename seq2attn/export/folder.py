"""The functions of a model as ONNX graphs, by PyTorch's exporter, and the folder of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from seq2attn.display.console import json_text
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.files import write_atomically
from seq2attn.inference.decoding import measuring
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function
from seq2attn.pages.manifest import manifest
from seq2attn.pages.tracing import (
    Run,
    Traced,
    are_close,
    at_other_lengths,
    exporting,
    first_difference,
    line_of,
    trace_model,
)
from seq2attn.torch_private import tree_map

if TYPE_CHECKING:
    import onnx

OPSET = 18


def export_graphs(model: Model) -> list[onnx.ModelProto]:
    """Export the functions of a model as graphs with the weights that they need.

    model: on the CPU.

    Raises `Seq2AttnError` if packages are missing, and as `trace_model` does.
    """
    try:
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
        for one, function, message in at_other_lengths(model, traced):
            _compare(graphs[function.name], one.module, function, message)
    return list(graphs.values())


def _compare(
    graph: onnx.ModelProto, module: fx.GraphModule, function: Function, message: str
) -> None:
    """Run an ONNX graph by the reference interpreter of onnx, and raise `ValueError` unless it
    computes what a function of the model does for its example inputs.

    module: what the graph was translated from; run beside it, it tells the first operation that
        differs.
    message: of the error.
    """
    from onnx import reference

    class GatherElements(reference.op_run.OpRun):  # onnx's own takes no negative axis
        def _run(self, data: Any, indices: Any, axis: int = 0) -> Any:
            return (np.take_along_axis(data, indices, axis),)

    evaluator = reference.ReferenceEvaluator(graph, new_ops=[GatherElements])
    inputs = tree_map(Tensor.numpy, function.inputs)
    try:
        made: Any = evaluator.run(None, inputs, intermediate=True)  # every value, by its name
    except Exception as error:  # NumPy's, of shapes that do not fit
        if is_out_of_memory(error):
            raise
        raise ValueError(f"{message}: {error}") from error
    found = {}
    for name, value in made.items():
        array = np.asarray(value)
        if array.dtype != object:  # object: a list of tensors, which cannot be compared
            found[name] = torch.from_numpy(array)
    expected = function.call(function.inputs)
    outputs = zip(expected, graph.graph.output, strict=True)
    results = {name: found[output.name] for name, output in outputs}
    if not are_close(results, expected):
        # the exporter names values as the program's nodes, by which these are compared
        raise ValueError(message + first_difference(Run(module, function.inputs), found))


def _translated(traced: Traced) -> onnx.ModelProto:
    """Translate one graph. An output with the name of an input is called `NAME.next`, since ONNX
    names each tensor once.
    """
    function, program, _, outputs = traced
    inputs = function.inputs
    if any(node.target in DECOMPOSITIONS for node in program.graph.nodes):  # else it is wasted time
        program = program.run_decompositions(DECOMPOSITIONS)
    try:
        exported: Any = torch.onnx.export(
            program,
            input_names=list(inputs),
            output_names=[f"{name}.next" if name in inputs else name for name in outputs],
            opset_version=OPSET,
            optimize=False,
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(_untranslated(error, program)) from None
    _optimise(exported.model)
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
    return f"the exporter has no translation for {named[1]}{next(lines, '')}"


def _optimise(model: Any) -> None:
    """Fold constants, but not weights: those stay as they are, under the names that they have in
    the model.

    model: an `onnx_ir.Model`. The exporter's own `optimize` also rewrites: that takes fifteen times
    as long, and drops x + 1e-8.
    """
    from onnx_ir.passes import Sequential, common
    from onnxscript.optimizer import fold_constants

    weights = [(value, value.const_value) for value in model.graph.initializers.values()]
    for value, _ in weights:
        value.const_value = None  # the passes take them for unknown
    common.InlinePass()(model)
    fold_constants(model, output_size_limit=64)  # larger ones are mostly zeros
    Sequential(
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedOpsetsPass(),
        common.ClearMetadataAndDocStringPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    )(model)
    for value, tensor in weights:
        value.const_value = tensor
        value.name = value.name.removeprefix("model.")


# ---- a folder for other programs ----


def write_folder(folder: Path, trained: TrainedModel) -> None:
    """Write a model to a folder, which is made if need be: its graphs as `.onnx` files; a manifest
    with its run, config, vocabularies and settings; and README.md, which explains how to run them.

    Raises `Seq2AttnError` as `export_graphs` does.
    """
    graphs = export_graphs(trained.predictor.model)
    folder.mkdir(parents=True, exist_ok=True)
    write_graphs(folder, graphs, {
        "run": trained.run.name,
        "step": trained.step,
        "config": trained.config.model_dump(mode="json"),
        **manifest(trained.predictor, [graph.graph.name for graph in graphs]),
    })  # fmt: skip
    card = files("seq2attn.export") / "card.md"  # the same text for every model
    write_atomically(folder / "README.md", card.read_bytes())


def write_graphs(
    folder: Path, graphs: Sequence[onnx.ModelProto], described: dict[str, Any]
) -> None:
    """Write graphs, and the manifest that describes them."""
    for graph in graphs:
        write_atomically(folder / f"{graph.graph.name}.onnx", graph.SerializeToString())
    write_atomically(folder / "manifest.json", json_text({"format": 1, **described}).encode())


# ---- operations that the exporter lacks, in terms of others ----


def _sort(x: Tensor, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """Sort in a stable way: of equal values, ONNX's TopK takes the earlier one first.

    Returns values and indices, as `torch.sort` does.
    """
    return x.topk(x.size(dim), dim, largest=descending)


def _searchsorted(ends: Tensor, values: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    """Count the sorted `ends` below each value, or with `right` at most equal to it."""
    compare = torch.le if right else torch.lt
    return compare(ends.unsqueeze(-2), values.unsqueeze(-1)).sum(dim=-1)


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute `torch.logcumsumexp`. The exporter's own takes the logarithm of 0 where all
    exponentials are 0.
    """
    x = x.movedim(dim, -1)  # (..., S)
    size = x.size(-1)
    before = torch.ones(size, size, dtype=torch.bool).tril()
    # (..., S, S) -> (..., S); -1e30: -inf minus itself would be NaN
    sums = torch.where(before, x.unsqueeze(-2), -1e30).logsumexp(dim=-1)
    return sums.movedim(-1, dim)


aten = torch.ops.aten
DECOMPOSITIONS: Any = {
    aten.sort.stable: _sort,
    aten.argsort.stable: lambda x, **options: _sort(x, **options).indices,
    aten.searchsorted.Tensor: _searchsorted,
    aten.logcumsumexp.default: _logcumsumexp,
}
