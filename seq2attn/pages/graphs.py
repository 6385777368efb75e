"""The functions of a model as ONNX graphs, by torch's exporter."""

from __future__ import annotations

import copy
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from seq2attn.config.plugin_errors import registered_parts
from seq2attn.errors import Seq2AttnError
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, functions

if TYPE_CHECKING:
    import onnx

OPSET = 18
INSTALL = 'pip install "seq2attn[export]"'
EXAMPLES = ((5, 2), (6, 2), (5, 3))
"""source tokens and output positions of the examples: a dimension that differs between them is free"""
FREE = ("source", "written")
"""what the dimension counts in which the second and the third example differ from the first"""


@dataclass(frozen=True)
class Exported:
    """The functions of a model and their graphs, in the same order."""

    functions: list[Function]
    graphs: list[onnx.ModelProto]


def export_graphs(model: Model) -> Exported:
    """The functions of a model, on the CPU, as graphs with the weights they need. They are translated together, which is
    fastest.

    Raises `Seq2AttnError` without the packages for it, and for a model that torch cannot export.
    """
    need_exporter()
    model.eval()
    examples = [_examples(model, *sizes) for sizes in EXAMPLES]
    parts = examples[0]
    together = _Together(model, parts)
    inputs = [tensor.clone() for part in parts for tensor in part.inputs.values()]  # the tracer unites equal objects
    try:
        with torch.no_grad(), _quiet():
            outputs = [list(part.call(part.inputs)) for part in parts]
            axes = _free_axes(examples)
            program = torch.export.export(together, tuple(inputs), dynamic_shapes=(axes,), strict=False)
            exported = torch.onnx.export(
                program,
                dynamo=True,
                opset_version=OPSET,
                optimize=False,
                verbose=False,
            )
            assert exported is not None
            _optimise(exported)
            whole = exported.model_proto
            _name_dimensions(whole.graph, axes)
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise Seq2AttnError(f"torch cannot export this model: {reason}", hint=_hint()) from error
    ins, outs = (iter([value.name for value in values]) for values in (whole.graph.input, whole.graph.output))
    graphs = []
    for part, results in zip(parts, outputs, strict=True):
        names = {name: next(ins) for name in part.inputs}, {name: next(outs) for name in results}
        graphs.append(_extract(copy.deepcopy(whole), part.name, *names))
    return Exported(parts, graphs)


def need_exporter() -> None:
    """Raise `Seq2AttnError` if the packages that torch's exporter needs are not installed."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise Seq2AttnError(
            f"exporting a model needs the package {error.name}", hint=f"Install it: {INSTALL}"
        ) from None


class _Together(nn.Module):
    """All functions in one module, so that they are traced once."""

    def __init__(self, model: Model, parts: Sequence[Function]) -> None:
        super().__init__()
        self.model = model
        self.parts = parts
        self.eval()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        left = iter(tensors)
        results = [part.call({name: next(left) for name in part.inputs}) for part in self.parts]
        return tuple(tensor for result in results for tensor in result.values())


def _examples(model: Model, length: int, steps: int) -> list[Function]:
    return functions(model, torch.arange(length).remainder(2).add(3).unsqueeze(0), steps)


def _free_axes(examples: Sequence[Sequence[Function]]) -> tuple[dict[int, Any], ...]:
    """For each input its free dimensions: those whose size differs between the examples.

    Each function has dimensions of its own: of one that they share, a graph could take the size from another's input.
    """
    axes: list[dict[int, Any]] = []
    for part, *others in zip(*examples, strict=True):
        dimensions = {name: torch.export.Dim(f"{part.name}_{name}", min=1, max=2**20) for name in FREE}
        for name, tensor in part.inputs.items():
            sizes = zip(FREE, (other.inputs[name].shape for other in others), strict=True)
            axes.append(
                {
                    axis: dimensions[free]
                    for free, shape in sizes
                    for axis, size in enumerate(shape)
                    if size != tensor.shape[axis]
                }
            )
    return tuple(axes)


def _name_dimensions(graph: onnx.GraphProto, axes: Sequence[dict[int, Any]]) -> None:
    """Call the free dimensions of inputs and outputs what they count, in place of the exporter's s1, s2, ..."""
    sizes = [value.type.tensor_type.shape.dim for value in [*graph.input, *graph.output]]
    names = {
        size[axis].dim_param: dimension.__name__.rpartition("_")[2]
        for size, free in zip(sizes, axes, strict=False)
        for axis, dimension in free.items()
    }
    for one in (one for size in sizes for one in size if one.dim_param):
        one.dim_param = re.sub(r"\w+", lambda found: names.get(found[0], found[0]), one.dim_param)


def _optimise(exported: Any) -> None:
    """Fold constants, but not weights: those stay as they are, under their own names."""
    graph = exported.model.graph
    weights = dict(graph.initializers)
    tensors = {name: value.const_value for name, value in weights.items()}
    count = len(graph.inputs)
    for value in weights.values():
        value.const_value = None
        del graph.initializers[value.name]
        graph.inputs.append(value)
    exported.optimize()
    del graph.inputs[count:]
    for name, value in weights.items():
        value.const_value = tensors[name]
        graph.initializers[name] = value


def _extract(whole: onnx.ModelProto, name: str, inputs: dict[str, str], outputs: dict[str, str]) -> onnx.ModelProto:
    """The graph of one function: what its outputs need of the whole. inputs, outputs: their names -> those in the whole.

    An output with an input's name is called `NAME.next`: graphs name each tensor once.
    """
    from onnx import helper

    needed = set(outputs.values())
    nodes: list[onnx.NodeProto] = []
    for node in reversed(whole.graph.node):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed.update(node.input)
    inputs = {old: name for name, old in inputs.items() if old in needed}
    outputs = {old: f"{name}.next" if name in inputs.values() else name for name, old in outputs.items()}
    weights = [tensor for tensor in whole.graph.initializer if tensor.name in needed]
    renamed = {
        tensor.name: tensor.name.removeprefix("model.") for tensor in weights if tensor.name.startswith("model.")
    }
    renamed |= inputs | outputs | {"": ""}
    infos = {value.name: value for value in [*whole.graph.input, *whole.graph.output]}
    for info in (infos[old] for old in renamed if old in infos):
        info.name = renamed[info.name]
    for tensor in weights:
        tensor.name = renamed.get(tensor.name, f"_{tensor.name}")
    for node in nodes:
        for side in (node.input, node.output):
            side[:] = [renamed.get(old, f"_{old}") for old in side]
    graph = helper.make_graph(nodes, name, [infos[old] for old in inputs], [infos[old] for old in outputs], weights)
    return helper.make_model(
        graph, producer_name="seq2attn", opset_imports=whole.opset_import, ir_version=whole.ir_version
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's remarks on its own internals."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _hint() -> str | None:
    parts = registered_parts()
    if not parts:
        return None
    names = ", ".join(map(str, parts))
    return f"Parts of plug-ins must be traceable by torch.export, without Python branches on values: {names}"
