"""The proof that the kernels, compiled or fused, compute what the formulas of the model say."""

import contextlib
import copy
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.model.points import is_hooked
from seq2attn.training.step import Forward, TrainingStep

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
"""an error may be this share of the largest number of its tensor, which is a parameter's gradient
or the loss"""
NOISE = 1e-2
"""a tensor counts as if its largest number were at least this share of the largest of all tensors,
or of 1, since probabilities near 1 are rounded"""
MOST_ROUNDING = 30.0
"""in float32, the kernels may be off by this times the tolerance, or this times what the formulas
are off themselves"""


class KernelsDiffer(Exception):
    """The kernels gave another loss or other gradients than the formulas."""


def is_due(step: int) -> bool:
    """Return True if a step (from 0) is to be proved: 0, 1, 2, 4, 8, ..."""
    return step & (step - 1) == 0


def prove(step: TrainingStep, batch: Batch, number: int) -> None:
    """Raise `KernelsDiffer` unless the step's kernels (`faster_form`) compute the same loss and
    gradients of a batch as the model's formulas, up to rounding. Do nothing where kernels are not
    used: the step has none, or hooks are on the model.

    number: of the step, from 0; both use the random numbers of this step. Weights and buffers are
    afterwards as they were before.

    In float32, rounding alone may exceed `TOLERANCE`: of large scores, such as those of `dot`, or
    of attention that moves over many steps. A larger difference is therefore judged in float64:
    there, the two must agree, and in float32, the kernels may be off by `MOST_ROUNDING` times what
    the formulas are off, or times the tolerance. Where no kernels compute in float64, any larger
    difference is an error.
    """
    if step.faster_form is None or is_hooked(step.model):
        return
    # both draw the same random numbers, since `call` seeds the generators
    formulas = _loss_and_gradients(step, step.formulas, batch, number)
    kernels = _loss_and_gradients(step, step.faster_form, batch, number)
    if largest_error(kernels, formulas) <= 1:  # 1: the tolerance
        return
    exact = TrainingStep(copy.deepcopy(step.model).double(), step.config, batch.source.device)
    if formulas[0].dtype == torch.float32 and exact.faster_form is not None:
        prove(exact, batch, number)  # raises if they differ in float64, too
        computed = _loss_and_gradients(exact, exact.formulas, batch, number)
        right = [tensor.float() for tensor in computed]
        allowed = MOST_ROUNDING * max(1.0, largest_error(formulas, right))
        if largest_error(kernels, right) <= allowed:
            return
    raise KernelsDiffer(f"The kernels disagree with the formulas at step {number}.")


def _loss_and_gradients(
    step: TrainingStep, forward: Forward, batch: Batch, number: int
) -> list[Tensor]:
    """Return a step's loss, (), and the gradient of each parameter, where `forward` computes the
    outputs: the formulas or the kernels.
    """
    with restoring_buffers(step.model):
        total = step.losses(step.call(forward, batch, number), batch, number)["loss"]
        return [total.detach(), *step.differentiate(total)]


@contextlib.contextmanager
def restoring_buffers(model: nn.Module) -> Iterator[None]:
    """At the end of this context, restore the values of the model's buffers, which a call may
    change. (The random generators need no such care: each training step seeds them anew.)
    """
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def largest_error(found: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Compare tensors, a loss and the gradient of each parameter; 1 is what the tolerance allows.

    Where the right numbers are not finite, those found must not be either: training then fails for
    that reason.
    """
    largest = max([1.0, *map(_largest, right)])
    return max(_error(*pair, largest) for pair in zip(found, right, strict=True))


def _error(found: Tensor, right: Tensor, largest: float) -> float:
    """Compare two tensors; largest: the largest number of all the right ones, or 1."""
    if not right.isfinite().all():
        return math.inf if found.isfinite().all() else 0.0
    scale = max(_largest(right), NOISE * largest)
    # inf where what was found is not a number
    return _largest(found - right) / (TOLERANCE[right.dtype] * scale)


def _largest(tensor: Tensor) -> float:
    """Return the largest absolute value; inf if one is not a number, 0 if there is none."""
    return float(tensor.abs().nan_to_num(math.inf).max()) if tensor.numel() else 0.0
