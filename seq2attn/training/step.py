"""One training step: outputs of the model, or of its faster form, losses, gradients and AdamW."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from seq2attn.build import build_losses
from seq2attn.config import Config
from seq2attn.data.batches import Batch, generator
from seq2attn.data.vocabulary import PAD
from seq2attn.errors import Seq2AttnError
from seq2attn.kernels import faster_form
from seq2attn.model.decoder import Reverser
from seq2attn.model.hooks import Rank, hooked_places, is_hooked
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.points import Place, places
from seq2attn.model.resets import Resets, draw_resets
from seq2attn.torch_private import foreach_multiply, foreach_norm, fused_adamw

Forward = Callable[[Batch, Resets], Decoded]


class Losses(NamedTuple):
    """Scalars, ()."""

    parts: dict[str, Tensor]
    """each loss by its name, such as `coverage_loss`"""
    total: Tensor
    """their weighted sum, which is differentiated"""

    def records(self) -> dict[str, float]:
        """Return `loss`, the sum, and if there are several, each of them too."""
        parts = self.parts if len(self.parts) > 1 else {}
        return {name: tensor.item() for name, tensor in {"loss": self.total, **parts}.items()}


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`.

    AdamW (Loshchilov & Hutter 2019; without weight decay, Adam) with clipped gradients. Frozen
    parameters (`requires_grad` False) stay as they are. Construct it when the model is on its
    device.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        """Choose how the model is computed, and make the optimiser's moments, zeros at first."""
        self.model = model
        self.config = config
        self.faster_form: Forward | None = faster_form(model)
        """the model computed by kernels, which is faster; None if they do not cover this model, or
        are not to be used: then `formulas` calls the model itself"""
        self.state: dict[str, Tensor] = {"step": torch.zeros((), device=device)}
        """what a checkpoint keeps, by name: the number of updates, and two moments of each
        parameter's gradient"""
        self._losses = build_losses(config)
        self._states = self._place_of_states()
        if self._states is not None:
            self.faster_form = None  # kernels do not pass the points at which states are kept
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
        self._gradients: list[Tensor] = []
        # whether Python may look at a tensor's number: on a GPU it would have to wait for it
        self._may_read_numbers = device.type == "cpu"

    def _place_of_states(self) -> Place | None:
        """Return where a hook gets the hidden states of the decoder's top layer, for the losses
        that read them; None if no loss does.

        Raises `Seq2AttnError` if a loss reads them and the model has no such states.
        """
        asking = [name for name, loss in self._losses.items() if "states" in loss.asks]
        if not asking:
            return None
        found = places(self.model).get("decoder.state", [])  # of each layer and tensor of a state
        states = [place for place in found if place.tensor == 0]  # h, not an LSTM's c
        if not states:
            raise Seq2AttnError(
                f"training.losses: {asking[0]!r} reads the decoder's states, which this model does "
                "not have; leave it out"
            )
        return max(states, key=lambda place: place.layer)

    def trace(self) -> None:
        """From now on, compute with the model itself and take no Python branch on a number: a step
        can be traced as one graph.
        """
        self.faster_form = None
        self._may_read_numbers = False

    # ---- outputs ----

    def forward(self, batch: Batch, number: int, part: int = 0) -> Decoded:
        """Compute the model's outputs in step `number` (from 0).

        Their random numbers are a function of seed, step and part alone; part: which part of the
        step's batch this is, where gradients are accumulated.
        """
        forward = self.faster_form
        if forward is None or is_hooked(self.model):
            forward = self.formulas
        return self.call(forward, batch, number, part)

    def formulas(self, batch: Batch, resets: Resets) -> Decoded:
        """Compute the outputs with the model itself; `resets` change its states on the way."""
        with hooked_places(resets.items(), Rank.RESET):
            if self._states is None:
                return self.model(batch)
            # a cache that keeps the state before each step, (B, D), for the losses
            states: list[Tensor] = []
            hook = (self._states, lambda state, at: states.append(state))
            with hooked_places([hook], Rank.CACHE):
                decoded: Decoded = self.model(batch)
            return decoded._replace(states=torch.stack(states, dim=1))

    def call(self, forward: Forward, batch: Batch, number: int, part: int = 0) -> Decoded:
        """Call the model or its faster form with the random numbers of a part of step `number`."""
        device = batch.source.device
        key = (number, part) if part else (number,)  # of a batch in one part, its number alone
        # for torch's own generator, from which dropout draws
        seed = generator("cpu", self.config.seed, "dropout", *key).initial_seed()
        if device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:  # the generators of all devices, which takes longer
            torch.manual_seed(seed)
        training = self.config.training
        if not (training.encoder_reset or training.decoder_reset):
            return forward(batch, {})
        assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
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

    def losses(self, decoded: Decoded, batch: Batch, number: int = 0) -> Losses:
        """Compute the losses of the model's outputs in step `number`. Raises `Seq2AttnError` if
        their sum has no gradient, while gradients are recorded.
        """
        given = {"step": number, "states": decoded.states}  # no states if no loss asks for them
        parts = {}  # what is recorded of each
        terms = []  # of the sum, times their weights
        for name, loss in self._losses.items():
            asked = {argument: given[argument] for argument in loss.asks}
            value = loss.forward(decoded, batch, **asked)
            parts[f"{name}_loss"] = value
            # no product with 1, and no sum from 0: each would be one more operation
            terms.append(value if loss.weight == 1 else loss.weight * value)
        total = sum(terms[1:], start=terms[0])
        # (a loss of a plug-in may have returned a plain number)
        if torch.is_grad_enabled() and not getattr(total, "requires_grad", False):
            raise Seq2AttnError(
                f"training.losses: {', '.join(self._losses)}: there is no gradient in this step",
                hint="A loss is a float computed from decoded.logits or decoded.weights, without "
                "no_grad, inference_mode, .detach() or .item().",
                exit_code=1,
            )
        return Losses(parts, total)

    def differentiate(self, total: Tensor) -> list[Tensor]:
        """Compute the gradients of all parameters, zeros of those that the loss does not depend
        on.
        """
        gradients = torch.autograd.grad(
            total, self._parameters, allow_unused=True, materialize_grads=True
        )
        # the fused update walks through both in the order of memory, so it must be the same
        laid_out = []
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            if gradient.stride() != parameter.stride():
                gradient = torch.empty_like(parameter).copy_(gradient)
            laid_out.append(gradient)
        return laid_out

    def gradients(self, total: Tensor) -> Tensor:
        """Differentiate the sum of the losses, and scale the gradients to a norm of at most
        `clip_norm`. Returns their norm before, ().
        """
        self._gradients = gradients = self.differentiate(total)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(foreach_norm(gradients)))
        limit = self.config.training.clip_norm
        if limit is None:
            return norm
        # Where reading the norm would wait for a GPU, always scale, by a factor of at most 1. (A
        # norm of 0 gives inf, which becomes 1.)
        if not self._may_read_numbers:
            foreach_multiply(gradients, (limit / norm).clamp(max=1))
        elif float(norm) > limit:
            foreach_multiply(gradients, limit / float(norm))
        return norm

    @torch.no_grad()
    def update(self, rate: float | Tensor) -> None:
        """Change the weights by their gradients, with this learning rate.

        This is one operation over all parameters, the one behind torch.optim.AdamW(fused=True);
        that class imports the compiler with its first step, which takes two seconds.
        """
        updates = self.state["step"]
        updates += 1
        fused_adamw(
            self._parameters,
            self._gradients,
            self._averages,
            self._squares,
            [],  # of amsgrad, which is off
            [updates] * len(self._gradients),  # it wants a number of updates for each parameter
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
