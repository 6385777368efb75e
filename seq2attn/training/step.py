"""One training step: the model, or its faster form, proved as it goes; gradients, clipping, AdamW."""

from __future__ import annotations

import contextlib
import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.config import Config
from seq2attn.config.schema import RecurrentConfig
from seq2attn.data.batches import Batch, generator
from seq2attn.kernels import describe, leaf_for, why_slow
from seq2attn.model.decoder import Reverser
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.points import hooked_points, is_hooked
from seq2attn.model.resets import Resets, draw_resets, reset_hooks
from seq2attn.training.losses import training_losses

__all__ = [
    "LeafDiffers",
    "TrainingStep",
    "describe",
    "is_due",
    "largest_error",
    "unchanged",
    "why_slow",
]

Forward = Callable[[Batch, Resets], Decoded]
ADAMW: dict[str, Any] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "amsgrad": False,
    "maximize": False,
}  # as in torch
TOLERANCE = {
    torch.float32: 1e-4,
    torch.float64: 1e-9,
}  # largest error, as a share of a parameter's largest gradient
NOISE = 1e-2  # at least of this share of the largest gradient of all, or of 1, as probabilities near 1 are rounded
MOST_ROUNDING = (
    30.0  # times the tolerance, or the formulas' own error: what the leaf's may be in float32
)


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`: AdamW (Loshchilov & Hutter 2019;
    without decay, Adam).

    Frozen parameters (`requires_grad` False) stay as they are. Construct it when the model is on
    its device.

    Clipping and update are each one operation over all parameters. The update is the one behind
    torch.optim.AdamW(fused=True); that class imports the compiler with its first step, which takes
    two seconds.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        self.model = model
        self.config = config
        trained = {
            name: parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        self._parameters: list[Tensor] = list(trained.values())
        self._gradients: list[Tensor] = []
        self._updates = torch.zeros((), device=device)
        averages, squares = (
            {name: torch.zeros_like(one) for name, one in trained.items()} for _ in range(2)
        )
        self._moments = list(averages.values()), list(squares.values())
        self.state = {"step": self._updates}
        self.state |= {f"exp_avg.{name}": average for name, average in averages.items()}
        self.state |= {f"exp_avg_sq.{name}": square for name, square in squares.items()}
        self._compares = device.type == "cpu"  # elsewhere it would synchronise
        self._leaf: Forward | None = leaf_for(model) if device.type == "cpu" else None

    def use_formulas(self, *, traced: bool = False) -> None:
        """From now on compute every step by the model itself; traced: so that a step can be traced
        as one graph.
        """
        self._leaf, self._compares = None, self._compares and not traced

    def prove(self, batch: Batch, number: int) -> None:
        """Raise `LeafDiffers` unless the leaf, if there is one, computes what the model does.
        Changes nothing.

        Rounding in float32 exceeds the tolerance where scores are large, as those of `dot` become,
        and over many steps of attention that moves: such a difference is judged in float64.
        """
        if self._leaf is None or is_hooked(self.model):
            return
        formulas, leaf = (
            self._computed(forward, batch, number) for forward in (self._formulas, self._leaf)
        )
        if largest_error(leaf, formulas) <= 1:
            return
        exact = TrainingStep(copy.deepcopy(self.model).double(), self.config, torch.device("cpu"))
        if formulas[0].dtype == torch.float32 and exact._leaf is not None:
            exact.prove(batch, number)
            right = [one.float() for one in exact._computed(exact._formulas, batch, number)]
            if largest_error(leaf, right) <= MOST_ROUNDING * max(
                1.0, largest_error(formulas, right)
            ):
                return
        raise LeafDiffers(number)

    def _computed(self, forward: Forward, batch: Batch, number: int) -> list[Tensor]:
        """The loss and the gradient of each parameter."""
        with unchanged(self.model):
            total = training_losses(
                self._call(forward, batch, number), batch, self.config.training
            ).total
            return [total.detach(), *self._differentiate(total)]

    def forward(self, batch: Batch, number: int) -> Decoded:
        """The model's outputs in step `number` (from 0). Its random numbers are a function of seed
        and step alone.
        """
        forward = self._formulas if self._leaf is None or is_hooked(self.model) else self._leaf
        return self._call(forward, batch, number)

    def _formulas(self, batch: Batch, resets: Resets) -> Decoded:
        with hooked_points(reset_hooks(resets)):
            return self.model(batch)

    def _call(self, forward: Forward, batch: Batch, number: int) -> Decoded:
        self.model.train()
        seed = generator("cpu", self.config.seed, "dropout", number).initial_seed()
        if batch.source.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:  # of every device, which takes longer
            torch.manual_seed(seed)
        settings = self.config.training
        if not (settings.encoder_reset or settings.decoder_reset):
            return forward(batch, {})
        assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
        resets = generator(batch.source.device, self.config.seed, "resets", number)
        drawn = draw_resets(
            self.model,
            resets,
            batch.source,
            batch.decoder_input,
            encoder=settings.encoder_reset,
            decoder=settings.decoder_reset,
            first=settings.reset_first,
        )
        return forward(batch, drawn)

    def gradients(self, total: Tensor) -> Tensor:
        """Differentiate the sum of the losses, and clip. Returns the gradient's norm before, a
        scalar.
        """
        self._gradients = self._differentiate(total)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self._gradients)))
        limit = self.config.training.clip_norm
        if limit is None:
            return norm
        if not self._compares:
            torch._foreach_mul_(self._gradients, (limit / norm).clamp(max=1))
        elif float(norm) > limit:
            torch._foreach_mul_(self._gradients, limit / float(norm))
        return norm

    def _differentiate(self, total: Tensor) -> list[Tensor]:
        gradients = torch.autograd.grad(
            total, self._parameters, allow_unused=True, materialize_grads=True
        )
        pairs = zip(
            self._parameters, gradients, strict=True
        )  # the update goes through both as they lie in memory
        return [
            slope if slope.stride() == one.stride() else torch.empty_like(one).copy_(slope)
            for one, slope in pairs
        ]

    @torch.no_grad()
    def update(self, rate: float | Tensor) -> None:
        """Change the weights by their gradients, with this learning rate."""
        self._updates += 1
        tensors = (self._parameters, self._gradients, *self._moments)
        updates = [self._updates] * len(self._parameters)
        torch._fused_adamw_(
            *tensors, [], updates, lr=rate, weight_decay=self.config.training.weight_decay, **ADAMW
        )


def may_compile(config: Config) -> bool:
    """Whether there are compiled recurrences for the cell of this model."""
    return isinstance(config.model, RecurrentConfig) and config.model.cell.name == "gru"


# ---- the proof that the faster form computes what the formulas say ----


class LeafDiffers(Exception):
    """The faster form gave another loss or other gradients than the formulas."""

    def __init__(self, step: int) -> None:
        super().__init__(
            f"the compiled kernels gave other gradients than the formulas at step {step}"
        )


def is_due(step: int) -> bool:
    """Whether the proof is due at a step (from 0): 0, 1, 2, 4, 8, ..."""
    return step & (step - 1) == 0


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Afterwards the generators of random numbers and the model's buffers are as they were."""
    own = (value for module in model.modules() for value in vars(module).values())
    generators = [
        torch.default_generator,
        *(value for value in own if isinstance(value, torch.Generator)),
    ]
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


def largest_error(found: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Of each tensor of `found`, a loss or the gradient of a parameter: 1 is what `TOLERANCE` and
    `NOISE` allow.

    Where the right numbers are not finite, so must those found be; training then fails for that
    reason.
    """
    largest = max([1.0, *(float(one.abs().max()) for one in right if one.numel())])
    return max(_error(one, other, largest) for one, other in zip(found, right, strict=True))


def _error(found: Tensor, right: Tensor, largest: float) -> float:
    if not right.isfinite().all():
        return math.inf if found.isfinite().all() else 0.0
    own, error = (
        float(one.abs().nan_to_num(math.inf).max()) if one.numel() else 0.0
        for one in (right, found - right)
    )
    return error / (TOLERANCE[right.dtype] * max(own, NOISE * largest))
