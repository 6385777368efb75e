"""One training step: the model, its gradients, clipping, AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from seq2attn.config import Config
from seq2attn.data.batches import Batch, generator
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.resets import Resets
from seq2attn.model.reverser import Reverser
from seq2attn.training.compiling import Forward, compiled
from seq2attn.training.leaf import LeafDiffers, agree, leaf_for, unchanged
from seq2attn.training.losses import training_losses

UPDATES = "step"  # of AdamW's state: updates done
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's, as torch has them


class TrainingStep:
    """`forward`, then `gradients` of the losses, then `update`: AdamW (Loshchilov & Hutter 2019; without decay, Adam).

    The parameters become views of one vector, and so do their gradients and the optimiser's averages. Norm, clipping and
    update are then a few operations; parameter by parameter they would cost a small model as much as its arithmetic.
    A plug-in's parameters of another dtype have a vector of their own; frozen ones (`requires_grad` False) stay as they are.
    Construct it when the model is on its device.

    The update is the operation behind torch.optim.AdamW(fused=True); importing that class imports the compiler, which takes
    longer than 100 steps.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        self.model = model
        self.config = config
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._parameters = list(trained.values())
        self._groups = [
            _Group({name: one for name, one in trained.items() if one.dtype == dtype})
            for dtype in dict.fromkeys(one.dtype for one in self._parameters)
        ]
        self._state: list[dict[str, Tensor]] = []  # of AdamW, for each group; see `_zero_state`
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
        gradients = self._differentiate(total)
        for group in self._groups:
            own = [one for one in gradients if one.dtype == group.vector.dtype]
            torch.cat([gradient.flatten() for gradient in own], out=group.gradient)
        norms = [torch.linalg.vector_norm(group.gradient) for group in self._groups]
        together = torch.stack([one.float() for one in norms]) if len(norms) > 1 else norms[0]
        norm: Tensor = torch.linalg.vector_norm(together) if len(norms) > 1 else together
        limit = self.config.training.clip_norm
        if limit is None:
            return norm
        for group in self._groups:
            if norm.device.type != "cpu":  # a comparison would synchronise
                group.gradient *= (limit / norm).clamp(max=1)
            elif float(norm) > limit:
                group.gradient *= limit / float(norm)
        return norm

    def _differentiate(self, total: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(total, self._parameters, allow_unused=True, materialize_grads=True)

    def update(self, rate: float) -> None:
        """Change the weights by their gradients, with this learning rate."""
        self._state = self._state or self._zero_state()
        for group, state in zip(self._groups, self._state, strict=True):
            state[UPDATES].add_(1)
            torch._fused_adamw_(
                [group.vector],
                [group.gradient],
                [state["exp_avg"]],
                [state["exp_avg_sq"]],
                [],
                [state[UPDATES]],
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=rate,
                weight_decay=self.config.training.weight_decay,
                eps=EPSILON,
                maximize=False,
            )

    def state(self) -> dict[str, Tensor]:
        """AdamW's state by parameter, `exp_avg.encoder.embedding.weight` and so on; empty before an update."""
        return self._named(self._state)

    def expected_state(self) -> dict[str, Tensor]:
        """Names, shapes and types of `state` after an update; zeros."""
        return self._named(self._zero_state())

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self._state = self._zero_state()
        for group, values in zip(self._groups, self._state, strict=True):
            for kind, value in values.items():
                parts = [state[f"{kind}.{name}"].flatten() for name in group.shapes]
                value.copy_(parts[0].squeeze() if kind == UPDATES else torch.cat(parts))

    def _zero_state(self) -> list[dict[str, Tensor]]:
        """The number of updates and the averages of each group, before the first update."""
        return [
            {
                UPDATES: torch.zeros((), device=group.vector.device),
                "exp_avg": torch.zeros_like(group.vector),
                "exp_avg_sq": torch.zeros_like(group.vector),
            }
            for group in self._groups
        ]

    def _named(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """By kind and parameter; all parameters share the number of updates."""
        return {
            f"{kind}.{name}": part
            for group, state in zip(self._groups, states, strict=False)  # no states before the first update
            for kind, value in state.items()
            for name, part in (dict.fromkeys(group.shapes, value) if kind == UPDATES else group.by_name(value)).items()
        }


class _Group:
    """Parameters of one dtype, which become views of `vector`, and their gradients, which become views of `gradient`."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self.vector = nn.utils.parameters_to_vector(parameters.values()).detach()
        self.gradient = torch.zeros_like(self.vector)
        views, gradients = self.by_name(self.vector), self.by_name(self.gradient)
        for name, parameter in parameters.items():
            parameter.data, parameter.grad = views[name], gradients[name]

    def by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """Each parameter's part of a vector over all parameters, as a view of its shape."""
        parts = torch.split(vector, [shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)}
