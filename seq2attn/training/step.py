"""One training step: forward, backward, clipping, AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from seq2attn.config import Config
from seq2attn.data.batches import Batch, generator
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.reverser import Reverser
from seq2attn.training.objective import coverage_loss, token_cross_entropy

STEPS = "step"  # of AdamW's state: updates done
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's, as torch has them


@dataclass(frozen=True)
class StepResult:
    """What a step computed before the update of the weights."""

    decoded: Decoded
    """the model's outputs; their graph is freed"""
    losses: dict[str, Tensor]
    """scalars by name: `loss`, and `coverage_loss` where there is one; nats per token"""
    total: Tensor
    """scalar, the weighted sum of the losses, which is differentiated"""
    norm: Tensor
    """scalar, the gradient's norm before clipping"""


class TrainingStep:
    """Forward, backward and clipping (`gradients`), then AdamW (`update`; Loshchilov & Hutter 2019, without decay Adam).

    The parameters become views of one vector, and so do their gradients and the optimiser's averages. Norm, clipping and
    update are then a few operations; parameter by parameter they would cost a small model as much as its arithmetic.
    Construct it when the model is on its device.

    The update is torch's function `adamw`: importing the class imports torch's compiler, which takes longer than 100 steps.
    """

    def __init__(self, model: Model, config: Config, device: torch.device) -> None:
        self.model = model
        self.config = config
        self._parameters = list(model.parameters())
        self._names = [name for name, _ in model.named_parameters()]
        self._shapes = [parameter.shape for parameter in model.parameters()]
        self._vector = nn.utils.parameters_to_vector(model.parameters()).detach()
        self._gradient = torch.zeros_like(self._vector)
        self._state: dict[str, Tensor] = {}  # of AdamW; see `_zero_state`
        self._fused = device.type != "mps"
        self._drops = any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules())
        views, gradients = self._by_name(self._vector), self._by_name(self._gradient)
        for name, parameter in model.named_parameters():
            parameter.data, parameter.grad = views[name], gradients[name]

    def gradients(self, batch: Batch, step: int) -> StepResult:
        """The clipped gradients of step number `step` (from 0), on the model's parameters."""
        if not self.model.training:
            self.model.train()
        if self._drops:  # drawn from torch's default generator: a function of seed and step
            torch.manual_seed(generator(torch.device("cpu"), self.config.seed, "dropout", step).initial_seed())
        inputs = (batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths)
        training = self.config.training
        shares = {"encoder": training.encoder_reset, "decoder": training.decoder_reset}
        if any(shares.values()):
            assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
            random = generator(batch.source.device, self.config.seed, "resets", step)
            decoded = self.model(*inputs, self.model.draw_resets(random, batch.source, batch.decoder_input, **shares))
        else:
            decoded = self.model(*inputs)
        losses = {"loss": token_cross_entropy(decoded.logits, batch, training.label_smoothing)}
        total, coverage_weight = losses["loss"], self.config.training.coverage_weight
        if coverage_weight and decoded.weights is not None:
            losses["coverage_loss"] = coverage_loss(decoded.weights, batch)
            total = total + coverage_weight * losses["coverage_loss"]
        gradients = torch.autograd.grad(total, self._parameters, allow_unused=True, materialize_grads=True)
        torch.cat([gradient.flatten() for gradient in gradients], out=self._gradient)
        norm = self._clip()
        detached = {name: loss.detach() for name, loss in losses.items()}
        return StepResult(decoded, detached, total.detach(), norm)

    def _clip(self) -> Tensor:
        """Scale the gradient to `clip_norm` if its norm is larger. Returns the norm before."""
        limit = self.config.training.clip_norm
        norm: Tensor = torch.linalg.vector_norm(self._gradient)
        if limit is None:
            return norm
        if norm.device.type != "cpu":  # a comparison would synchronise
            self._gradient *= (limit / norm).clamp(max=1)
        elif float(norm) > limit:
            self._gradient *= limit / float(norm)
        return norm

    def update(self, rate: float) -> None:
        """Change the weights by the gradients, with this learning rate."""
        if not self._state:
            self._state = self._zero_state()
        adamw(
            [self._vector],
            [self._gradient],
            exp_avgs=[self._state["exp_avg"]],
            exp_avg_sqs=[self._state["exp_avg_sq"]],
            max_exp_avg_sqs=[],
            state_steps=[self._state[STEPS]],
            fused=self._fused,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=rate,
            weight_decay=self.config.training.weight_decay,
            eps=EPSILON,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """The optimiser's state by parameter, `exp_avg.encoder.embedding.weight` and so on; empty before an update."""
        return self._named(self._state)

    def expected_state(self) -> dict[str, Tensor]:
        """Names, shapes and types of `state` after an update; zeros."""
        return self._named(self._zero_state())

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for kind, value in self._zero_state().items():
            parts = [state[f"{kind}.{name}"].flatten() for name in self._names]
            self._state[kind] = value.copy_(parts[0].squeeze() if kind == STEPS else torch.cat(parts))

    def _zero_state(self) -> dict[str, Tensor]:
        """AdamW's number of updates and averages, before the first update."""
        steps = torch.zeros((), device=self._vector.device if self._fused else "cpu")
        return {STEPS: steps, "exp_avg": torch.zeros_like(self._vector), "exp_avg_sq": torch.zeros_like(self._vector)}

    def _named(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By kind and parameter; all parameters share the number of updates."""
        return {
            f"{kind}.{name}": part
            for kind, value in state.items()
            for name, part in (dict.fromkeys(self._names, value) if kind == STEPS else self._by_name(value)).items()
        }

    def _by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """Each parameter's part of a vector over all parameters, as a view of its shape."""
        parts = torch.split(vector, [shape.numel() for shape in self._shapes])
        return {name: part.view(shape) for name, part, shape in zip(self._names, parts, self._shapes, strict=True)}
