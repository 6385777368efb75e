"""The functions of a model as ONNX graphs, by PyTorch's exporter, and the manifest that describes
them.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2attn.config.schema import Config
from seq2attn.data.tasks import StringTask, Task
from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary
from seq2attn.display.console import json_text
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.files import write_atomically
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.trained_model import TrainedModel
from seq2attn.model.interface import Model
from seq2attn.model.points import places
from seq2attn.pages import asset
from seq2attn.pages.functions import Function, Tensors, force_reason, functions, right_answer
from seq2attn.plugins import foreign_parts
from seq2attn.torch_private import tree_map

if TYPE_CHECKING:
    import onnx

OPSET = 18
EXAMPLES = ((5, 2), (6, 2), (5, 3))
"""source tokens and output positions of the examples that are traced: a dimension whose size
differs between them may have any size"""
CHECKED_LENGTHS = (1, 4, 9, 30)
"""lengths of the sources on which a graph is compared with the function that it was made from; the
last one is for tasks only"""
LONGEST = 500  # tokens of a source for which the number of steps is given
VOCABULARY = ("symbols", "features", "separator", "unknown", "normalise")


def export_graphs(model: Model) -> list[onnx.ModelProto]:
    """Export the functions of a model as graphs with the weights that they need.

    model: on the CPU; it is put into evaluation mode.

    Raises `Seq2AttnError` if packages are missing, and for a model that PyTorch cannot export.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Seq2AttnError(
            f"exporting a model needs the package {error.name}",
            hint='Install it: pip install "seq2attn[export]"',
        ) from None
    model.eval()
    rule = "Parts of plug-ins must be traceable by torch.export, without Python branches on values."
    hint = rule if foreign_parts() else None
    with _exporting("torch cannot export this model", hint):
        examples = [functions(model, _source(length), steps) for length, steps in EXAMPLES]
        graphs = [_export(model, *same) for same in zip(*examples, strict=True)]
        for length in CHECKED_LENGTHS[:-1]:
            checked = functions(model, _source(length), EXAMPLES[0][1])
            for function, graph in zip(checked, graphs, strict=True):
                if not _agrees(graph, function):
                    raise ValueError(
                        f"of a source of length {length}, {function.name} gives other numbers: "
                        "a part keeps something of one source, or uses its length in Python"
                    )
    return graphs


def _source(length: int) -> Tensor:
    return (torch.arange(length) % 2 + EOS).unsqueeze(0)  # (1, S); the first symbol is EOS + 1


def export_training(config: Config, task: Task) -> list[onnx.ModelProto]:
    """Export the first weights, the drawing of a batch and a training step as graphs.

    Raises `Seq2AttnError` for a model or a task that PyTorch cannot export.
    """
    from seq2attn.pages.training import training_functions

    failure = f"the page cannot train {config.score_name}: torch cannot export a training step"
    hint = "`seq2attn train` trains it, and `seq2attn page` shows the run."
    with _exporting(failure, hint):
        return [_export(nn.Module(), part) for part in training_functions(config, task)]


def export_answer(task: Task) -> onnx.ModelProto | None:
    """Export the rule of a task as a graph. Return None for a task that has none, or whose graph
    gives other answers than the task.
    """
    if not isinstance(task, StringTask):
        return None
    with contextlib.suppress(Seq2AttnError), _exporting("torch cannot export this rule", None):
        examples = [right_answer(task, length) for length, _ in EXAMPLES]
        graph = _export(nn.Module(), *examples)
        if all(_agrees(graph, right_answer(task, length)) for length in CHECKED_LENGTHS):
            return graph
    return None


def _agrees(graph: onnx.ModelProto, function: Function) -> bool:
    """Return whether a graph computes what a function does for its example inputs.

    The tolerance is wide, since the logarithm of a small probability magnifies rounding.
    """
    from onnx import reference

    class GatherElements(reference.op_run.OpRun):  # onnx's own takes no negative axis
        def _run(self, data: Any, indices: Any, axis: int = 0) -> Any:
            return (np.take_along_axis(data, indices, axis),)

    evaluator = reference.ReferenceEvaluator(graph, new_ops=[GatherElements])
    inputs = tree_map(Tensor.numpy, function.inputs)
    expected = function.call(function.inputs).values()
    try:
        for output, tensor in zip(evaluator.run(None, inputs), expected, strict=True):
            relative = 0.02 if tensor.is_floating_point() else 0.0
            torch.testing.assert_close(torch.from_numpy(output), tensor, rtol=relative, atol=0.02)
    except Exception as error:  # a difference, or NumPy's of shapes that do not fit
        if is_out_of_memory(error):
            raise
        return False
    return True


@contextlib.contextmanager
def _exporting(failure: str, hint: str | None) -> Iterator[None]:
    """Turn an exception into a `Seq2AttnError`: `failure`, and the first line of torch's reason.

    Meanwhile, no gradients are computed, and torch's remarks on its own internals are suppressed.
    """
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        cause = error.__cause__ or error  # the message of torch's exporter is about itself
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        raise Seq2AttnError(f"{failure}: {lines[0][:300]}", hint=hint) from error
    finally:
        logging.disable(level)


class _Traced(nn.Module):
    """A function as a module that has the parameters of the model."""

    def __init__(self, model: nn.Module, function: Function) -> None:
        super().__init__()
        self.model = model
        self.function = function
        self.eval()

    def forward(self, tensors: Tensors) -> Tensors:
        # copies, so that equal tensors keep their own names
        return tree_map(torch.clone, self.function.call(tensors))


def _export(model: nn.Module, function: Function, *others: Function) -> onnx.ModelProto:
    """Export one function. An output with the name of an input is called `NAME.next`, since a graph
    names each tensor once.

    others: the same function with examples of other sizes.
    """
    inputs = function.inputs
    outputs = function.call(inputs)
    dynamic = {}
    for name in inputs:
        shapes = [example.inputs[name].shape for example in (function, *others)]
        sizes = map(set, zip(*shapes, strict=True))
        dynamic[name] = [Dim.AUTO if len(different) > 1 else None for different in sizes]
    copies = tree_map(torch.clone, inputs)  # the tracer would unite equal objects
    program = torch.export.export(
        _Traced(model, function),
        (copies,),
        dynamic_shapes=(dynamic,),
        strict=False,
    )
    if any(node.target in DECOMPOSITIONS for node in program.graph.nodes):
        program = program.run_decompositions(DECOMPOSITIONS)
    exported: Any = torch.onnx.export(
        program,
        input_names=list(inputs),
        output_names=[f"{name}.next" if name in inputs else name for name in outputs],
        opset_version=OPSET,
        optimize=False,
        verbose=False,
    )
    _optimise(exported.model)
    graph: onnx.ModelProto = exported.model_proto
    graph.graph.name = function.name
    graph.producer_name = "seq2attn"
    return graph


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
        "attends": "attention.weights" in places(model),
        "copies": model.copies and task.target_vocabulary.unknown,
        "force_reason": force_reason(model),
        "mask_padding": all(getattr(part, "mask_padding", True) for part in model.modules()),
        "layers": list(layers.values()),
        "most_steps": [output_bound(task, length) for length in range(1, LONGEST + 1)],
    }


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    others = {name: getattr(vocabulary, name) for name in VOCABULARY}
    return {"tokens": list(vocabulary.tokens), **others}


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
    """Compute `torch.logcumsumexp` over the last dimension of x (..., S).

    The exporter's own takes the logarithm of 0 where all exponentials are 0.
    """
    size = x.size(-1)
    before = torch.ones(size, size, dtype=torch.bool).tril()
    return torch.where(before, x.unsqueeze(-2), -1e30).logsumexp(dim=-1)  # (..., S, S) -> (..., S)


aten = torch.ops.aten
DECOMPOSITIONS: Any = {
    aten.sort.stable: _sort,
    aten.argsort.stable: lambda x, **options: _sort(x, **options).indices,
    aten.searchsorted.Tensor: _searchsorted,
    aten.logcumsumexp.default: _logcumsumexp,
}
