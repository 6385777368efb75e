"""One training step: the model, its gradients, clipping, AdamW."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.config import Config
from seq2attn.data.batches import Batch, generator
from seq2attn.model.decoder import Reverser
from seq2attn.model.interface import Decoded, Model, Resets
from seq2attn.training.compiling import Forward, compiled
from seq2attn.training.leaf import LeafDiffers, agree, leaf_for, unchanged
from seq2attn.training.losses import training_losses

BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's, as torch has them


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`: AdamW (Loshchilov & Hutter 2019; without decay, Adam).

    Frozen parameters (`requires_grad` False) stay as they are. Construct it when the model is on its device.

    Clipping and update are each one operation over all parameters. The update is the one behind
    torch.optim.AdamW(fused=True); that class imports the compiler with its first step, which takes two seconds.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        self.model = model
        self.config = config
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._parameters: list[Tensor] = list(trained.values())
        self._gradients: list[Tensor] = []
        self._updates = torch.zeros((), device=device)
        self._averages, self._squares = ([torch.zeros_like(one) for one in self._parameters] for _ in range(2))
        averages = {f"exp_avg.{name}": average for name, average in zip(trained, self._averages, strict=True)}
        squares = {f"exp_avg_sq.{name}": square for name, square in zip(trained, self._squares, strict=True)}
        self.state = {"step": self._updates, **averages, **squares}
        self._leaf: Forward | None = None
        self._forward: Forward = model
        if config.training.compile:
            self._forward = compiled(model, device)
        elif device.type == "cpu":
            self._leaf = leaf_for(model)
            self._forward = self._leaf or model

    def use_formulas(self) -> None:
        """From now on compute every step by the model itself."""
        self._leaf, self._forward = None, self.model

    def prove(self, batch: Batch, number: int) -> None:
        """Raise `LeafDiffers` unless the leaf, if there is one, computes what the model does. Changes nothing."""
        if self._leaf is None:
            return
        numbers = []
        for forward in (self.model, self._leaf):
            with unchanged(self.model):
                decoded = self._call(forward, batch, number)
                total = training_losses(decoded, batch, self.config.training).total
                numbers.append([total.detach(), *self._differentiate(total)])
        if not agree(numbers[1], numbers[0]):
            raise LeafDiffers(number)

    def forward(self, batch: Batch, number: int) -> Decoded:
        """The model's outputs in step `number` (from 0). Its random numbers are a function of seed and step alone."""
        return self._call(self._forward, batch, number)

    def _call(self, forward: Forward, batch: Batch, number: int) -> Decoded:
        self.model.train()
        seed = generator(torch.device("cpu"), self.config.seed, "dropout", number).initial_seed()
        if batch.source.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:  # of every device, which takes longer
            torch.manual_seed(seed)
        return forward(batch, self._draw_resets(batch, number))

    def _draw_resets(self, batch: Batch, number: int) -> Resets | None:
        training = self.config.training
        shares = {"encoder": training.encoder_reset, "decoder": training.decoder_reset}
        if not any(shares.values()):
            return None
        assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
        random = generator(batch.source.device, self.config.seed, "resets", number)
        return self.model.draw_resets(random, batch.source, batch.decoder_input, **shares)

    def gradients(self, total: Tensor) -> Tensor:
        """Differentiate the sum of the losses, and clip. Returns the gradient's norm before, a scalar."""
        self._gradients = self._differentiate(total)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self._gradients)))
        limit = self.config.training.clip_norm
        if limit is None:
            return norm
        if norm.device.type != "cpu":  # a comparison would synchronise
            torch._foreach_mul_(self._gradients, (limit / norm).clamp(max=1))
        elif float(norm) > limit:
            torch._foreach_mul_(self._gradients, limit / float(norm))
        return norm

    def _differentiate(self, total: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(total, self._parameters, allow_unused=True, materialize_grads=True))

    @torch.no_grad()
    def update(self, rate: float) -> None:
        """Change the weights by their gradients, with this learning rate."""
        self._updates += 1
        torch._fused_adamw_(
            self._parameters,
            self._gradients,
            self._averages,
            self._squares,
            [],
            [self._updates] * len(self._parameters),
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=rate,
            weight_decay=self.config.training.weight_decay,
            eps=EPSILON,
            maximize=False,
        )
