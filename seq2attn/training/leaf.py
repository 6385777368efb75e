"""The faster form of a model that training may use, and the proof that it computes what the formulas say."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from seq2attn.kernels import describe, leaf_for, why_slow

__all__ = ["LeafDiffers", "agree", "describe", "is_due", "leaf_for", "unchanged", "why_slow"]

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}  # largest error, as a share of a parameter's largest gradient
NOISE = 1e-2  # and what rounding may add, of this tolerance, as a share of the largest gradient of all, or of 1: a loss near
# 0 has gradients that are hardly larger than the rounding of probabilities near 1


class LeafDiffers(Exception):
    """The faster form gave another loss or other gradients than the formulas."""

    def __init__(self, step: int) -> None:
        super().__init__(f"the compiled kernels gave other gradients than the formulas at step {step}")
        self.step = step


def is_due(step: int) -> bool:
    """Whether the proof is due at a step (from 0): 0, 1, 2, 4, 8, ..."""
    return step & (step - 1) == 0


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Afterwards the generators of random numbers and the model's buffers are as they were."""
    own = (value for module in model.modules() for value in vars(module).values())
    generators = [torch.default_generator, *(value for value in own if isinstance(value, torch.Generator))]
    states, python = [one.get_state() for one in generators], random.getstate()
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for one, state in zip(generators, states, strict=True):
            one.set_state(state)
        random.setstate(python)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def agree(leaf: Sequence[Tensor], formulas: Sequence[Tensor]) -> bool:
    """Whether each tensor of `leaf`, a loss or the gradient of a parameter, is that of `formulas` up to rounding.

    Where the formulas' numbers are not finite, so must the leaf's be; training then fails for that reason.
    """
    largest = max([1.0, *(float(one.abs().max()) for one in formulas if one.numel())])
    return all(_is_close(one, other, largest) for one, other in zip(leaf, formulas, strict=True))


def _is_close(leaf: Tensor, formula: Tensor, largest: float) -> bool:
    if not formula.numel():
        return True
    tolerance, own = TOLERANCE[formula.dtype], float(formula.abs().max())
    if not formula.isfinite().all():
        return not leaf.isfinite().all()
    return float((leaf - formula).abs().max()) <= tolerance * max(own, NOISE * largest)
