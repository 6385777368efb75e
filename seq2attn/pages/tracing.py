"""The functions of a model as graphs of torch.export, each compared with what it was made from."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2attn.data.tasks.strings import StringTask
from seq2attn.data.vocabulary import EOS
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.decoding import measuring
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, Tensors, functions, right_answer
from seq2attn.plugins import plugin_frames
from seq2attn.torch_private import tree_map

EXAMPLES = ((5, 2), (6, 3))
"""source tokens and output positions of the two examples of each function: a dimension whose size
differs between them may have any size in the graph"""
CHECKED_LENGTHS = (1, 4, 9)
"""lengths of the sources on which a graph is compared with the function that it was made from"""
LONG = 30
"""a further length for the rules of tasks, which handle all positions at once"""


class Traced(NamedTuple):
    """A function, its graph, the graph as a module, and the names of what it returns."""

    function: Function
    program: ExportedProgram
    module: fx.GraphModule
    outputs: list[str]


def trace_model(model: Model) -> list[Traced]:
    """Trace the functions of a model, and compare the graphs with them at `CHECKED_LENGTHS`.

    model: on the CPU.

    Raises `Seq2AttnError` for a model that PyTorch cannot export, and for one whose graphs give
    other results than its functions, as when they are right at the traced length only.
    """
    hint = "Parts of plug-ins must be traceable by torch.export, without Python branches on values."
    # in evaluation mode
    with measuring(model), exporting("torch cannot export this model", hint):
        # two examples of each function: a size that differs between them may be any in its graph
        examples = [functions(model, _source(length), steps) for length, steps in EXAMPLES]
        traced = [trace(model, *pair) for pair in zip(*examples, strict=True)]
        for one, function, message in at_other_lengths(model, traced):
            if not _agrees(one, function):
                raise ValueError(message + _reason(model, one, function))
    return traced


def at_other_lengths(
    model: Model, traced: Sequence[Traced]
) -> Iterator[tuple[Traced, Function, str]]:
    """Yield each graph of a model at each of `CHECKED_LENGTHS`, with the function that it was made
    from, whose example inputs have that length, and with the message of the error to raise if the
    two give different results: the caller runs and compares them.
    """
    for length in CHECKED_LENGTHS:
        # `step` after as many output positions as in the first example
        same = functions(model, _source(length), EXAMPLES[0][1])
        for one, function in zip(traced, same, strict=True):
            message = f"of a source of length {length}, {function.name} gives other numbers"
            yield one, function, message


def trace_answer(task: StringTask) -> Traced:
    """Trace the rule of a task. Raises `ValueError` for a rule whose graph gives other answers than
    the task, and torch's exceptions for one that it cannot export.
    """
    # an empty model: a rule has no parameters
    traced = trace(nn.Module(), *(right_answer(task, length) for length, _ in EXAMPLES))
    for length in (*CHECKED_LENGTHS, LONG):
        if not _agrees(traced, right_answer(task, length)):
            raise ValueError(f"of a source of length {length}, the rule gives another answer")
    return traced


def _source(length: int) -> Tensor:
    """Return a source (1, S) of two ids in turn, that of `<eos>` and the next: any two will do."""
    return (torch.arange(length) % 2 + EOS).unsqueeze(0)


@contextlib.contextmanager
def exporting(failure: str, hint: str | None = None) -> Iterator[None]:
    """Turn an exception in this context into a `Seq2AttnError`: `failure`, the first line of the
    reason, at most 300 characters of it, and the line of a plug-in that led to it.

    In this context, no gradients are computed, PyTorch's attention consists of basic operations,
    and all logs, warnings and stderr, in which torch writes about its own internals, are
    suppressed.
    """
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    remarks = io.StringIO()  # thrown away: a graph that torch did not finish, among others
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(remarks):
                yield
    except Exception as error:
        # the exporter's own message is about itself; its cause is what went wrong in the model
        cause = error.__cause__ or error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        line = _line_of_plugin(cause)
        raise Seq2AttnError(f"{failure}: {lines[0][:300]}{line}", hint=hint) from error
    finally:
        logging.disable(level)


# ---- lines of Python ----


def _line_of_plugin(error: BaseException) -> str:
    """Return the innermost line of a plug-in that led to an error, such as " (odd.py, line 11:
    return query @ keys.mT)"; empty if there is none.
    """
    frames = plugin_frames(error)
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line})"


def line_of(node: fx.Node) -> str:
    """Return the innermost line of a `forward` function that called an operation of a graph, such
    as " (odd.py, line 11: return query @ keys.mT)"; empty if torch has not kept it.
    """
    called = re.findall(r'File "(.+)", line (\d+), .*\n\s*(.*)', node.stack_trace or "")
    lines = [one for one in called if one[0] != __file__]  # not the `forward` of `_Module`
    if not lines:
        return ""
    file, line, code = lines[-1]
    return f" ({Path(file).name}, line {line}: {code})"


class _Module(nn.Module):
    """A function as a module that has the parameters of the model."""

    def __init__(self, model: nn.Module, function: Function) -> None:
        super().__init__()
        self.model = model
        self.function = function

    def forward(self, tensors: Tensors) -> Tensors:
        # copies: ONNX would give equal results one name; the page's graphs drop them
        return tree_map(torch.clone, self.function.call(tensors))


def trace(model: nn.Module, function: Function, other: Function) -> Traced:
    """Trace one function of a model, on its example inputs.

    other: the same function, with example inputs of other sizes: where the two differ, the graph
        takes any size. May be `function` itself: then all sizes are fixed.
    """
    dynamic = {}
    for name, tensor in function.inputs.items():
        sizes = zip(tensor.shape, other.inputs[name].shape, strict=True)
        dynamic[name] = [Dim.STATIC if one == another else Dim.AUTO for one, another in sizes]
    copies = tree_map(torch.clone, function.inputs)  # the tracer would unite equal objects
    module = _Module(model, function)
    # not strict: it runs the function, and does not read the bytecode of parts of plug-ins
    program = torch.export.export(module, (copies,), dynamic_shapes=(dynamic,), strict=False)
    # without the checks of input sizes, which torch would otherwise make before a run
    runs_any_size = program.module(check_guards=False)
    outputs = list(function.call(function.inputs))  # their names
    return Traced(function, program, runs_any_size, outputs)


# ---- the comparison ----


def _run(traced: Traced, inputs: Tensors) -> dict[fx.Node, Any]:
    """Run a graph on inputs of any size. Return what each of its operations made, up to the first
    that fails, such as one on shapes that do not fit.
    """
    interpreter = fx.Interpreter(traced.module, garbage_collect_values=False)
    with contextlib.suppress(Exception):  # any of torch's
        interpreter.run(inputs)
    return interpreter.env


def _agrees(traced: Traced, function: Function) -> bool:
    """Return whether a graph and a function give the same for the function's example inputs."""
    made = _run(traced, function.inputs)
    results = made.get(traced.module.graph.output_node(), ())  # none if an operation has failed
    return are_close(results, function.call(function.inputs))


def are_close(found: Sequence[Tensor], expected: Tensors) -> bool:
    """Return whether `found` has the tensors of `expected`, in order, with the same numbers but for
    rounding.

    The tolerance is wide, since the logarithm of a small probability magnifies rounding.
    """
    if len(found) != len(expected):
        return False
    for tensor, wanted in zip(found, expected.values(), strict=True):
        # whole numbers have to be equal: 0.02, the absolute tolerance, is less than 1
        relative = 0.02 if wanted.is_floating_point() else 0.0
        if tensor.shape != wanted.shape:
            return False
        if not torch.allclose(tensor, wanted, rtol=relative, atol=0.02, equal_nan=True):
            return False
    return True


def _reason(model: nn.Module, traced: Traced, function: Function) -> str:
    """Say which operation of a graph is the first that fails, or makes another value than it
    should, for the function's example inputs: a text to append to a message, empty where none is
    found.
    """
    made = _run(traced, function.inputs)
    for node in traced.module.graph.nodes:
        if node not in made:
            return f": a size became fixed, at {node.name}{line_of(node)}"
    # all sizes fit: compare with a graph that is right, traced at this very length
    values = {node.name: value for node, value in made.items() if isinstance(value, Tensor)}
    for node, right in _run(trace(model, function, function), function.inputs).items():
        is_known = node.name in values and isinstance(right, Tensor)
        if is_known and not are_close([values[node.name]], {node.name: right}):
            return f", from {node.name} on{line_of(node)}"
    return ""
