"""One training step: the model's outputs, or those of its faster form, and what is learned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from seq2attn.config import Config
from seq2attn.config.schema import RecurrentConfig
from seq2attn.data.batches import Batch, generator
from seq2attn.kernels import describe, leaf_for, why_slow
from seq2attn.model.decoder import Reverser
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.points import hooked_points, is_hooked
from seq2attn.model.resets import Resets, draw_resets, reset_hooks
from seq2attn.training.losses import Losses, training_losses
from seq2attn.training.optimiser import AdamW

__all__ = ["Forward", "TrainingStep", "describe", "may_compile", "why_slow"]

Forward = Callable[[Batch, Resets], Decoded]


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`."""

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        self.model = model
        self.config = config
        self.optimiser = AdamW(model, config.training, device)
        self.leaf: Forward | None = leaf_for(model) if device.type == "cpu" else None
        """the faster form of the model; None if there is none"""
        self._gradients: list[Tensor] = []

    @property
    def state(self) -> dict[str, Tensor]:
        """The optimiser's state, as checkpoints keep it."""
        return self.optimiser.state

    def use_formulas(self) -> None:
        """From now on, compute every step with the model itself."""
        self.leaf = None

    def forward(self, batch: Batch, number: int) -> Decoded:
        """Compute the model's outputs in step `number` (from 0).

        Its random numbers are a function of seed and step alone.
        """
        use_leaf = self.leaf is not None and not is_hooked(self.model)
        return self.call(self.leaf if self.leaf and use_leaf else self.formulas, batch, number)

    def formulas(self, batch: Batch, resets: Resets) -> Decoded:
        """Compute the outputs with the model itself, whose states are reset."""
        with hooked_points(reset_hooks(resets)):
            return self.model(batch)

    def call(self, forward: Forward, batch: Batch, number: int) -> Decoded:
        """Call the model or its faster form with the random numbers of step `number`."""
        self.model.train()
        device = batch.source.device
        seed = generator("cpu", self.config.seed, "dropout", number).initial_seed()
        if device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:  # of every device, which takes longer
            torch.manual_seed(seed)
        training = self.config.training
        if not (training.encoder_reset or training.decoder_reset):
            return forward(batch, {})
        assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
        resets = draw_resets(
            self.model,
            generator(device, self.config.seed, "resets", number),
            batch.source,
            batch.decoder_input,
            encoder=training.encoder_reset,
            decoder=training.decoder_reset,
            first=training.reset_first,
        )
        return forward(batch, resets)

    def losses(self, decoded: Decoded, batch: Batch) -> Losses:
        """Compute the losses of the model's outputs."""
        return training_losses(decoded, batch, self.config.training)

    def gradients(self, total: Tensor) -> Tensor:
        """Differentiate the sum of the losses, and clip. Returns the gradients' norm before, ()."""
        self._gradients = self.optimiser.differentiate(total)
        return self.optimiser.clip(self._gradients)

    def update(self, rate: float | Tensor) -> None:
        """Change the weights by their gradients, with this learning rate."""
        self.optimiser.update(self._gradients, rate)


def may_compile(config: Config) -> bool:
    """Return whether there are compiled kernels for the cell of this model."""
    return isinstance(config.model, RecurrentConfig) and config.model.cell.name == "gru"
