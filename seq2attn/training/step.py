"""One training step: outputs of the model, or of its faster form, losses, gradients and AdamW. And
the steps of a training: how many, the learning rate of each, and which are recorded.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.build import build_losses
from seq2attn.config import Config, TrainingConfig
from seq2attn.data.batches import Batch, generator
from seq2attn.data.stream import EpochData, TrainingData
from seq2attn.data.vocabulary import PAD
from seq2attn.errors import Seq2AttnError
from seq2attn.kernels import faster_form
from seq2attn.model.cells import Cell, Resets, Stack, draw_resets
from seq2attn.model.decoder import Reverser
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.points import Point, Rank, hooked_places, is_hooked
from seq2attn.torch_private import foreach_multiply, foreach_norm, fused_adamw

Forward = Callable[[Batch, Resets], Decoded]


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`.

    AdamW (Loshchilov & Hutter 2019; without weight decay, Adam) with clipped gradients. Frozen
    parameters (`requires_grad` False) stay as they are. Construct it when the model is on its
    device.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        """Choose how the model is computed, and make the optimiser's moments, zeros at first.

        Raises `Seq2AttnError` if a loss needs states of the decoder that the model does not have.
        """
        self.model = model
        self.config = config
        self.faster_form: Forward | None = faster_form(model)
        """the model computed by kernels, which is faster; None if they do not cover this model, or
        are not to be used: then `formulas` calls the model itself"""
        self.state: dict[str, Tensor] = {"step": torch.zeros((), device=device)}
        """what a checkpoint keeps of the optimiser, by name: `step`, the number of updates; and for
        each parameter that is trained `exp_avg.NAME` and `exp_avg_sq.NAME`, running averages of its
        gradient and of its square. The lists below hold the same tensors, which `update` changes
        in place"""
        self._losses = build_losses(config)
        self._states = self._point_of_states()
        if self._states is not None:
            self.faster_form = None  # kernels call no hooks, by which these states are collected
        self._parameters: list[Tensor] = []
        self._averages: list[Tensor] = []
        self._squares: list[Tensor] = []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                average, square = torch.zeros_like(parameter), torch.zeros_like(parameter)
                self._parameters.append(parameter)
                self._averages.append(average)
                self._squares.append(square)
                self.state |= {f"exp_avg.{name}": average, f"exp_avg_sq.{name}": square}
        self._gradients: list[Tensor] = []  # of the parameters, which `update` applies
        # whether Python may look at a tensor's number: on a GPU it would have to wait for it
        self._may_read_numbers = device.type == "cpu"

    def _point_of_states(self) -> Point | None:
        """Return the point in the model where a hook sees the hidden state of the decoder's top
        layer at each step, for losses that ask for `states`; None if no loss does.

        Raises `Seq2AttnError` if a loss asks and the model has no such states, as a Transformer.
        """
        asking = [name for name, loss in self._losses.items() if "states" in loss.asks]
        if not asking:
            return None
        if not isinstance(self.model, Reverser):
            raise Seq2AttnError(
                f"training.losses: {asking[0]!r} reads the decoder's states, which this model does "
                "not have; leave it out"
            )
        cell = self.model.decoder.cell
        top: Cell = cell.cells[-1] if isinstance(cell, Stack) else cell
        return top.state_points[0]  # of h, which comes first

    def trace(self) -> None:
        """From now on, compute with the model itself and take no Python branch on a number: a step
        can be traced as one graph.
        """
        self.faster_form = None
        self._may_read_numbers = False

    # ---- outputs ----

    def forward(self, batch: Batch, number: int, part: int = 0) -> Decoded:
        """Compute the model's outputs for a batch, by kernels where they are used.

        number: of the step, from 0. part: which part of the step's batch this is, from 0, where
            gradients are accumulated. Random numbers, such as dropout's, depend on seed, step and
            part alone.
        """
        forward = self.faster_form
        if forward is None or is_hooked(self.model):  # kernels call no hooks
            forward = self.formulas
        return self.call(forward, batch, number, part)

    def formulas(self, batch: Batch, resets: Resets) -> Decoded:
        """Compute the outputs with the model itself, while `resets` replace some of its states by
        noise. If a loss asks for states, the outputs include them: `states` (B, L, D), those of the
        decoder's top layer before each step.
        """
        with hooked_places(resets.items(), Rank.RESET):
            if self._states is None:
                return self.model(batch)
            states: list[Tensor] = []  # L times (B, D)
            hook = (self._states, lambda state, at: states.append(state))
            with hooked_places([hook], Rank.CACHE):
                decoded: Decoded = self.model(batch)
            return decoded._replace(states=torch.stack(states, dim=1))

    def call(self, forward: Forward, batch: Batch, number: int, part: int = 0) -> Decoded:
        """Return the outputs of `forward`, the formulas or the faster form, with the random numbers
        of a part of step `number`: seed torch's generators, from which dropout draws, and draw the
        resets, which replace states by noise, if the config asks for some.
        """
        device = batch.source.device
        key = (number, part) if part else (number,)  # part 0, often the only one, needs no number
        seed = generator("cpu", self.config.seed, "dropout", *key).initial_seed()
        if device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)  # the generators of all devices, which takes longer
        training = self.config.training
        if not (training.encoder_reset or training.decoder_reset):  # both probabilities are 0
            return forward(batch, {})
        resets = draw_resets(
            self.model,
            generator(device, self.config.seed, "resets", *key),
            batch.source,
            batch.decoder_input,
            encoder=training.encoder_reset,
            decoder=training.decoder_reset,
            first=training.reset_first,
        )
        return forward(batch, resets)

    # ---- learning ----

    def losses(self, decoded: Decoded, batch: Batch, number: int = 0) -> dict[str, Tensor]:
        """Compute `loss`, the weighted sum of the config's losses, of the model's outputs in step
        `number`, (); and if there are several, each of them by its name, such as `coverage_loss`.

        Raises `Seq2AttnError` if nothing can be learned from the sum: it has no gradient, though
        torch records gradients here.
        """
        # what a loss may ask for besides outputs and batch; states are None if no loss asks
        given = {"step": number, "states": decoded.states}
        parts = {}
        terms = []  # the same, times their weights
        for name, loss in self._losses.items():
            asked = {argument: given[argument] for argument in loss.asks}
            value = loss.forward(decoded, batch, **asked)
            parts[f"{name}_loss"] = value
            # no product with 1, and no sum from 0: each would be one more operation
            terms.append(value if loss.weight == 1 else loss.weight * value)
        total = sum(terms[1:], start=terms[0])
        # (getattr: a loss of a plug-in may have returned a plain number)
        if torch.is_grad_enabled() and not getattr(total, "requires_grad", False):
            raise Seq2AttnError(
                f"training.losses: {', '.join(self._losses)}: there is no gradient in this step",
                hint="A loss is a float computed from decoded.logits or decoded.weights, without "
                "no_grad, inference_mode, .detach() or .item().",
                exit_code=1,
            )
        return {"loss": total, **parts} if len(parts) > 1 else {"loss": total}

    def differentiate(self, total: Tensor) -> list[Tensor]:
        """Compute the gradient of a loss, (), by each parameter that is trained, in their order:
        zeros where the loss does not depend on it. Each has its parameter's shape and strides.
        """
        gradients = torch.autograd.grad(
            total, self._parameters, allow_unused=True, materialize_grads=True
        )
        # the fused update goes through the memory of both in parallel, whatever their strides
        laid_out = []
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            if gradient.stride() != parameter.stride():
                gradient = torch.empty_like(parameter).copy_(gradient)
            laid_out.append(gradient)
        return laid_out

    def gradients(self, total: Tensor) -> Tensor:
        """Differentiate the sum of the losses, and keep the gradients for `update`. If the norm of
        all of them together is above `clip_norm`, scale them down to it; None: never.

        Returns the norm before, ().
        """
        self._gradients = gradients = self.differentiate(total)
        # the norm of all numbers is the norm of the tensors' norms
        norm: Tensor = torch.linalg.vector_norm(torch.stack(foreach_norm(gradients)))
        limit = self.config.training.clip_norm
        if limit is None:
            return norm
        # Comparing the norm with the limit would wait for a GPU, and cannot be traced: always
        # multiply there, by 1 if the norm is below the limit. (A norm of 0 gives inf, which becomes
        # 1.)
        if not self._may_read_numbers:
            foreach_multiply(gradients, (limit / norm).clamp(max=1))
        elif float(norm) > limit:
            foreach_multiply(gradients, limit / float(norm))
        return norm

    @torch.no_grad()
    def update(self, rate: float | Tensor) -> None:
        """Change the weights, in place, by the gradients that `gradients` computed last: a step of
        AdamW with the learning rate `rate`.

        This is one operation over all parameters, the one behind torch.optim.AdamW(fused=True).
        That class is not used because its first step imports torch's compiler, which takes two
        seconds.
        """
        updates = self.state["step"]  # (), on the device
        updates += 1
        fused_adamw(
            self._parameters,
            self._gradients,
            self._averages,
            self._squares,
            [],  # the largest squares so far, for amsgrad, which is off
            [updates] * len(self._gradients),  # it takes a number for each parameter
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=self.config.training.weight_decay,
            amsgrad=False,
            maximize=False,
        )


def token_accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """Return the share of real output tokens (`<eos>` counted) whose largest logit is right.

    logits (B, L, V).
    """
    real = batch.decoder_output != PAD
    right = (logits.argmax(dim=2) == batch.decoder_output) & real
    return right.sum() / real.sum()


# ---- the steps of a training ----


def learning_rate(training: TrainingConfig, step: int, steps: int) -> float:
    """Return the learning rate of step `step` (from 0) of the `steps` of a training.

    In the first `warmup` steps it rises linearly; the last of these has the full rate. Then it
    follows the schedule: it is constant, or falls towards 0, linearly or as half a cosine
    (annealing without restarts: Loshchilov & Hutter 2017, eq. 5).
    """
    if step < training.warmup:
        return training.learning_rate * (step + 1) / training.warmup
    progress = (step - training.warmup) / (steps - training.warmup)  # from 0 to below 1
    shares = {  # of the full rate
        "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        "linear": 1 - progress,
        "constant": 1.0,
    }
    return training.learning_rate * shares[training.schedule.name]


@dataclass(frozen=True)
class Span:
    """The length of a training, in steps, and how it is counted for a user."""

    steps: int
    evaluate_every: int
    """steps between two evaluations"""
    per_epoch: int | None = None
    """steps of an epoch; None if the training is counted in steps"""

    def place(self, step: int) -> str:
        """Return how far training is after a step: `step 500`, `epoch 3`, `epoch 3.25`."""
        return f"{'step' if self.per_epoch is None else 'epoch'} {self._count(step)}"

    def place_of_all(self, step: int) -> str:
        """Return the same with the end: `step 500 of 1,500`, `epoch 3.25 of 60`."""
        return f"{self.place(step)} of {self._count(self.steps)}"

    def _count(self, step: int) -> str:
        # g: without the zeros after the point; 15 digits, or it would write a million as 1e+06
        return f"{round(step / (self.per_epoch or 1), 2):,.15g}"


def training_span(training: TrainingConfig, data: TrainingData) -> Span:
    """Return the length of this training on these data.

    Raises `Seq2AttnError` if the config counts epochs and the data have none, or epochs turn out
    to have fewer steps than the warm-up.
    """
    if training.epochs is None:
        assert training.steps is not None, "rules.py refuses both to be null"
        return Span(training.steps, training.evaluate_every)
    if not isinstance(data, EpochData):  # only a finite training set has epochs
        raise Seq2AttnError(
            "training.epochs: the task draws its examples without end; set training.steps instead"
        )
    per_epoch = data.per_epoch
    steps = training.epochs * per_epoch
    if training.warmup > steps:  # known only now; rules.py checks a config that counts steps
        raise Seq2AttnError(
            f"training.warmup: {training.warmup:,} is above the {steps:,} steps of training: "
            f"{training.epochs:,} epochs of {per_epoch:,} batches"
        )
    # `evaluate_every` then counts epochs, too
    return Span(steps, training.evaluate_every * per_epoch, per_epoch)


def snapshot_steps(steps: int, count: int) -> frozenset[int]:
    """Return the steps after which attention is recorded: about `count` evenly spaced ones, of
    which `steps` is the last; and for more of the start, before the first of these, 0 and the
    powers of 2. Without any if `count` is 0.

    >>> sorted(snapshot_steps(100, 5))
    [0, 1, 2, 4, 8, 16, 20, 40, 60, 80, 100]
    """
    if count == 0:
        return frozenset()
    spacing = math.ceil(steps / count)
    early = (2**power for power in range((spacing - 1).bit_length()))  # 1, 2, 4, ... < spacing
    return frozenset({0, *early, *range(spacing, steps, spacing), steps})
