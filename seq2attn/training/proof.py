"""The proof that the kernels, compiled or fused, compute what the formulas say."""

import contextlib
import copy
import math
import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.model.hooks import is_hooked
from seq2attn.training.step import Forward, TrainingStep

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
"""an error may be this share of the largest number of its tensor, which is a parameter's gradient
or the loss"""
NOISE = 1e-2
"""a tensor counts as if its largest number were at least this share of the largest of all tensors,
or of 1, since probabilities near 1 are rounded"""
MOST_ROUNDING = 30.0
"""in float32, the leaf may be off by this times the tolerance, or this times what the formulas are
off themselves"""


class LeafDiffers(Exception):
    """The kernels gave another loss or other gradients than the formulas."""


def is_due(step: int) -> bool:
    """Return True if a step (from 0) is to be proved: 0, 1, 2, 4, 8, ..."""
    return step & (step - 1) == 0


def prove(step: TrainingStep, batch: Batch, number: int) -> None:
    """Raise `LeafDiffers` unless the leaf (the step's kernels, if it has any) computes the loss and
    gradients of the formulas.

    Changes nothing. number: of the step, whose random numbers both have. In float32, rounding
    alone may exceed the tolerance: of large scores, such as those of `dot`, or of attention that
    moves over many steps. Such a difference is judged in float64.
    """
    if step.leaf is None or is_hooked(step.model):
        return
    # both draw the same random numbers, since `call` seeds the generators
    formulas = _loss_and_gradients(step, step.formulas, batch, number)
    leaf = _loss_and_gradients(step, step.leaf, batch, number)
    if largest_error(leaf, formulas) <= 1:  # 1: the tolerance
        return
    # float32 may be too coarse to decide this: ask again in float64, if a leaf computes in that
    exact = TrainingStep(copy.deepcopy(step.model).double(), step.config, batch.source.device)
    if formulas[0].dtype == torch.float32 and exact.leaf is not None:
        prove(exact, batch, number)  # raises if they differ in float64, too
        computed = _loss_and_gradients(exact, exact.formulas, batch, number)
        right = [tensor.float() for tensor in computed]
        # in float32, the leaf may be as far from this as the formulas are, times a factor
        allowed = MOST_ROUNDING * max(1.0, largest_error(formulas, right))
        if largest_error(leaf, right) <= allowed:
            return
    raise LeafDiffers(f"The kernels disagree with the formulas at step {number}.")


def _loss_and_gradients(
    step: TrainingStep, forward: Forward, batch: Batch, number: int
) -> list[Tensor]:
    """Return a step's loss, (), and the gradient of each parameter, with `forward` as the model."""
    with without_trace(step.model):
        total = step.losses(step.call(forward, batch, number), batch, number).total
        return [total.detach(), *step.differentiate(total)]


@contextlib.contextmanager
def without_trace(model: nn.Module) -> Iterator[None]:
    """At the end of this context, restore all that a call of the model may change: the model's
    buffers, and the generators of random numbers, those that a plug-in may have included.
    """
    generators = [torch.default_generator]  # each step seeds a GPU's anew
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Generator):
                generators.append(value)
    states = [generator.get_state() for generator in generators]
    python_state = random.getstate()
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        random.setstate(python_state)
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
