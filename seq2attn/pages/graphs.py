"""The functions of a model as ONNX graphs, by torch's exporter."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2attn.config.schema import Config
from seq2attn.data.tasks import StringTask, Task
from seq2attn.errors import Seq2AttnError
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, functions, right_answer
from seq2attn.plugins import described, foreign_parts

if TYPE_CHECKING:
    import onnx

OPSET = 18
EXAMPLES = ((5, 2), (6, 2), (5, 3))
"""source tokens and output positions of the examples: a dimension that differs between them is free
"""
FREE = ("source", "written")
"""what the dimension counts in which the second and the third example differ from the first"""
TRIED = (1, 4, 9, 30)
"""source lengths at which a task's graph is compared with the task, and a model's graphs with the
model"""


@dataclass(frozen=True)
class Exported:
    """The functions of a model and their graphs, in the same order."""

    functions: list[Function]
    graphs: list[onnx.ModelProto]


def export_graphs(model: Model) -> Exported:
    """The functions of a model, on the CPU, as graphs with the weights they need.

    Raises `Seq2AttnError` without the packages for it, and for a model that torch cannot export.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        hint = 'Install it: pip install "seq2attn[export]"'
        raise Seq2AttnError(
            f"exporting a model needs the package {error.name}", hint=hint
        ) from None
    model.eval()
    names = ", ".join(map(described, foreign_parts()))
    hint = f"Parts of plug-ins must be traceable by torch.export, without Python branches on values: {names}"
    with _exporting("torch cannot export this model", hint if names else None):
        examples = [
            functions(model, (torch.arange(length) % 2 + 3).unsqueeze(0), steps)
            for length, steps in EXAMPLES
        ]
        graphs = [_export(model, *parts) for parts in zip(*examples, strict=True)]
        for length in TRIED[:-1]:
            tried = functions(model, torch.arange(length).unsqueeze(0) % 2 + 3, EXAMPLES[0][1])
            if wrong := [
                part.name
                for part, graph in zip(tried, graphs, strict=True)
                if not _agrees(graph, part)
            ]:
                reason = "a part keeps something of one source, or uses its length in Python"
                raise ValueError(
                    f"of a source of length {length}, {wrong[0]} gives other numbers: {reason}"
                )
    return Exported(examples[0], graphs)


def export_training(model: Model, config: Config, task: Task) -> list[onnx.ModelProto]:
    """The drawing of a batch and a training step as graphs.

    Raises `Seq2AttnError` for a model or a task that cannot be exported.
    """
    from seq2attn.pages.training import training_functions

    hint = "`seq2attn train` trains it, and `seq2attn page` shows the run."
    with _exporting(
        f"the page cannot train {config.score_name}: torch cannot export a training step", hint
    ):
        with torch.enable_grad():
            parts = training_functions(model, config, task)
        return [_export(nn.Module(), part) for part in parts]


def export_answer(task: Task) -> onnx.ModelProto | None:
    """The task's rule as a graph; None for a task that has none, or whose graph does not give the
    task's own answers.
    """
    if not isinstance(task, StringTask):
        return None
    try:
        with _quietly():
            graph = _export(nn.Module(), *(right_answer(task, length) for length, _ in EXAMPLES))
        return (
            graph if all(_agrees(graph, right_answer(task, length)) for length in TRIED) else None
        )
    except Exception:
        return None


def _agrees(graph: onnx.ModelProto, part: Function) -> bool:
    """Whether a graph gives what its function does, up to rounding, which the logarithm of a small
    probability magnifies.
    """
    from onnx import reference

    gather = {
        "_run": lambda _, data, at, axis=0: (np.take_along_axis(data, at, axis),)
    }  # theirs needs an axis from 0
    own: Any = type("GatherElements", (reference.op_run.OpRun,), gather)
    expected = [tensor.numpy() for tensor in part.call(part.inputs).values()]
    with contextlib.suppress(Exception):  # NumPy's, of shapes that do not fit
        given = {name: tensor.numpy() for name, tensor in part.inputs.items()}
        pairs = zip(
            reference.ReferenceEvaluator(graph, new_ops=[own]).run(None, given),
            expected,
            strict=True,
        )
        return all(
            np.allclose(a, b, 0.02 * (a.dtype.kind == "f"), 0.02) and a.shape == b.shape
            for a, b in pairs
        )
    return False


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without gradients, and without torch's remarks on its own internals."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def _exporting(what: str, hint: str | None) -> Iterator[None]:
    """Quietly; a failure is a `Seq2AttnError` that says what could not be done, and torch's reason."""
    try:
        with _quietly():
            yield
    except Exception as error:
        first = error.__cause__ or error  # the message of torch's exporter is about itself
        reason = (str(first).strip() or type(first).__name__).splitlines()[0][:300]
        raise Seq2AttnError(f"{what}: {reason}", hint=hint) from error


class _Traced(nn.Module):
    """A function as a module, with its tensors in order."""

    def __init__(self, model: nn.Module, part: Function) -> None:
        super().__init__()
        self.model = model
        self.part = part
        self.eval()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        results = self.part.call(dict(zip(self.part.inputs, tensors, strict=True)))
        return tuple(
            tensor.clone() for tensor in results.values()
        )  # equal tensors keep their own names


def _export(model: nn.Module, part: Function, *others: Function) -> onnx.ModelProto:
    """The graph of one function. An output with an input's name is called `NAME.next`: graphs name
    each tensor once.

    others: the same function with examples of other sizes, in the order of `FREE`.
    """
    outputs = [f"{name}.next" if name in part.inputs else name for name in part.call(part.inputs)]
    exported = torch.onnx.export(
        _Traced(model, part),
        tuple(tensor.clone() for tensor in part.inputs.values()),  # the tracer unites equal objects
        input_names=list(part.inputs),
        output_names=outputs,
        dynamic_shapes=(_free_axes(part, others),),
        dynamo=True,
        opset_version=OPSET,
        optimize=False,
        verbose=False,
        custom_translation_table={
            torch.ops.aten.sort.stable: _sort,
            torch.ops.aten.searchsorted.Tensor: _searchsorted,
            torch.ops.aten.logcumsumexp.default: _logcumsumexp,
        },
    )
    assert exported is not None
    _optimise(exported)
    graph = exported.model_proto
    graph.graph.name = part.name
    graph.producer_name = "seq2attn"
    return graph


def _sort(x: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """torch's stable sort, which the exporter lacks: of equal values, ONNX's TopK takes the earlier
    one first, too.
    """
    op: Any = importlib.import_module("onnxscript").opset18
    size = op.Reshape(op.Gather(op.Shape(x), dim), op.Constant(value_ints=[1]))
    return op.TopK(x, size, axis=dim, largest=int(descending), sorted=1)


def _searchsorted(
    ends: Any, values: Any, out_int32: bool = False, right: bool = False, **_: Any
) -> Any:
    """torch's searchsorted: how many of the sorted `ends` are below each value, or with `right` at
    most that value.
    """
    op: Any = importlib.import_module("onnxscript").opset18
    below = (op.LessOrEqual if right else op.Less)(
        op.Unsqueeze(ends, [-2]), op.Unsqueeze(values, [-1])
    )
    return op.ReduceSum(op.Cast(below, to=7), [-1], keepdims=0)


def _logcumsumexp(x: Any, dim: int) -> Any:
    """torch's logcumsumexp over the last dimension; the exporter's own has no logarithm where all
    exponentials are 0.
    """
    op: Any = importlib.import_module("onnxscript").opset18
    size = op.Shape(x, start=-1)
    before = op.Trilu(op.Expand(op.CastLike(1.0, x), op.Concat(size, size, axis=0)), upper=0)
    rows = op.Where(
        op.Cast(before, to=9), op.Unsqueeze(x, [-2]), op.CastLike(-1e30, x)
    )  # (..., S, S)
    return op.ReduceLogSumExp(rows, [-1], keepdims=0)


def _free_axes(part: Function, others: Sequence[Function]) -> tuple[dict[int, Any], ...]:
    """For each input its free dimensions: those whose size differs between the examples."""
    dimensions = [torch.export.Dim(name, min=1, max=2**20) for name in FREE]
    return tuple(
        {
            axis: dimension
            for dimension, other in zip(dimensions, others, strict=False)
            for axis, size in enumerate(other.inputs[name].shape)
            if size != tensor.shape[axis]
        }
        for name, tensor in part.inputs.items()
    )


def _optimise(exported: Any) -> None:
    """Fold constants, but not weights: those stay as they are, under their own names.

    The exporter's own `optimize` also rewrites: that takes fifteen times as long, and drops x +
    1e-8.
    """
    from onnx_ir.passes import Sequential, common
    from onnxscript.optimizer import fold_constants

    graph = exported.model.graph
    weights = dict(graph.initializers)
    tensors = {name: value.const_value for name, value in weights.items()}
    count = len(graph.inputs)
    for name, value in weights.items():
        value.const_value = None
        del graph.initializers[name]
        graph.inputs.append(value)
    common.InlinePass()(exported.model)
    fold_constants(
        exported.model, output_size_limit=64
    )  # larger ones would be written out, zeros among them
    Sequential(
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedOpsetsPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    )(exported.model)
    del graph.inputs[count:]
    for name, value in weights.items():
        if value.uses() or value.is_graph_output():
            value.const_value, value.name = tensors[name], name.removeprefix("model.")
            graph.initializers[value.name] = value
