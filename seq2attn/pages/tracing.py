"""The functions of a model as graphs of torch.export, each compared with what it was made from."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram

from seq2attn.data.tasks import StringTask, Task
from seq2attn.data.vocabulary import EOS
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, Tensors, functions, right_answer
from seq2attn.plugins import foreign_parts
from seq2attn.torch_private import tree_map

EXAMPLES = ((5, 2), (6, 2), (5, 3))
"""source tokens and output positions of the examples that are traced: a dimension whose size
differs between them may have any size"""
CHECKED_LENGTHS = (1, 4, 9, 30)
"""lengths of the sources on which a graph is compared with the function that it was made from; the
last one is for tasks only"""


class Traced(NamedTuple):
    """A function, and its graph."""

    function: Function
    program: ExportedProgram


def trace_model(model: Model) -> list[Traced]:
    """Trace the functions of a model, and compare the graphs with them.

    model: on the CPU; it is put into evaluation mode.

    Raises `Seq2AttnError` for a model that PyTorch cannot export, and for one whose graphs are
    right at the traced length only.
    """
    model.eval()
    rule = "Parts of plug-ins must be traceable by torch.export, without Python branches on values."
    with exporting("torch cannot export this model", rule if foreign_parts() else None):
        examples = [functions(model, example_source(length), steps) for length, steps in EXAMPLES]
        traced = [trace(model, *same) for same in zip(*examples, strict=True)]
        for length in CHECKED_LENGTHS[:-1]:
            checked = functions(model, example_source(length), EXAMPLES[0][1])
            for function, (_, program) in zip(checked, traced, strict=True):
                if not agrees(program, function):
                    raise ValueError(_difference(program, function, length))
    return traced


def trace_answer(task: Task) -> Traced | None:
    """Trace the rule of a task. Return None for a task that has none, or whose graph gives other
    answers than the task.
    """
    if not isinstance(task, StringTask):
        return None
    with contextlib.suppress(Seq2AttnError), exporting("torch cannot export this rule", None):
        traced = trace(nn.Module(), *(right_answer(task, length) for length, _ in EXAMPLES))
        checked = [right_answer(task, length) for length in CHECKED_LENGTHS]
        if all(agrees(traced.program, function) for function in checked):
            return traced
    return None


def example_source(length: int) -> Tensor:
    """Return a source (1, S) of the first two symbols."""
    return (torch.arange(length) % 2 + EOS).unsqueeze(0)


@contextlib.contextmanager
def exporting(failure: str, hint: str | None) -> Iterator[None]:
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
        place = _place_in_plugin(cause)
        raise Seq2AttnError(f"{failure}: {lines[0][:300]}{place}", hint=hint) from error
    finally:
        logging.disable(level)


def _place_in_plugin(error: BaseException) -> str:
    """Return the innermost line of a plug-in that led to an error; empty if there is none."""
    own = {Path(file).parents[1] for file in (__file__, torch.__file__)}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not own & set(Path(frame.filename).parents) and Path(frame.filename).is_file():
            return f" ({Path(frame.filename).name}, line {frame.lineno}: {frame.line})"
    return ""


class _Module(nn.Module):
    """A function as a module that has the parameters of the model."""

    def __init__(self, model: nn.Module, function: Function) -> None:
        super().__init__()
        self.model = model
        self.function = function
        self.eval()

    def forward(self, tensors: Tensors) -> Tensors:
        return self.function.call(tensors)


def trace(model: nn.Module, function: Function, *others: Function) -> Traced:
    """Trace one function.

    others: the same function with examples of other sizes.
    """
    dynamic = {}
    for name in function.inputs:
        shapes = [example.inputs[name].shape for example in (function, *others)]
        sizes = map(set, zip(*shapes, strict=True))
        dynamic[name] = [Dim.AUTO if len(different) > 1 else Dim.STATIC for different in sizes]
    copies = tree_map(torch.clone, function.inputs)  # the tracer would unite equal objects
    module = _Module(model, function)
    program = torch.export.export(module, (copies,), dynamic_shapes=(dynamic,), strict=False)
    return Traced(function, program)


# ---- the comparison ----


def agrees(program: ExportedProgram, function: Function) -> bool:
    """Return whether a graph computes what a function does for its example inputs."""
    expected = function.call(function.inputs)
    try:
        return _are_close(_Run(program).run(function.inputs), expected)
    except Exception as error:  # of shapes that do not fit
        if is_out_of_memory(error):
            raise
        return False


def _are_close(found: Tensors, expected: Tensors) -> bool:
    """Return whether tensors are the same, but for rounding.

    The tolerance is wide, since the logarithm of a small probability magnifies rounding.
    """
    for name, tensor in expected.items():
        relative = 0.02 if tensor.is_floating_point() else 0.0
        if found[name].shape != tensor.shape:
            return False
        if not torch.allclose(found[name], tensor, rtol=relative, atol=0.02, equal_nan=True):
            return False
    return True


def _difference(program: ExportedProgram, function: Function, length: int) -> str:
    """Say where a graph gives other numbers than its function, and why."""
    reason = "a part keeps something of one source, or uses its length in Python"
    fixed = _fixed_sizes(program, function)
    if fixed:
        reason = f"the size of {', '.join(fixed)}{_stop(program, function)}"
    return f"of a source of length {length}, {function.name} gives other numbers: {reason}"


def _fixed_sizes(program: ExportedProgram, function: Function) -> list[str]:
    """Return the inputs that the graph takes in one size only, where the function has another."""
    fixed = []
    traced = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]
    given = function.inputs.items()
    for (name, tensor), example in zip(given, traced[-len(given) :], strict=True):
        for size, known in zip(tensor.shape, map(str, example.shape), strict=True):
            if known.isdigit() and int(known) != size:  # another name, such as s15: any size
                fixed.append(f"{name} became fixed at {known}")
    return fixed


def _stop(program: ExportedProgram, function: Function) -> str:
    """Return the operation at which a graph stops for the inputs of a function, and the line of
    Python that called it; empty if it does not stop.
    """
    run = _Run(program)
    with contextlib.suppress(Exception):
        run.run(function.inputs)
    node = run.failed
    if node is None:
        return ""
    called = re.findall(r'File "(.+)", line (\d+), .*\n\s*(.*)', node.stack_trace or "")
    if not called:
        return f", at {node.name}"
    file, line, code = called[-1]
    return f", at {node.name}: {Path(file).name}, line {line}: {code}"


class _Run(fx.Interpreter):
    """Runs a graph for inputs of any size, and keeps the operation that failed."""

    failed: fx.Node | None = None

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program.module(check_guards=False))

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except Exception:
            self.failed = self.failed or n
            raise
