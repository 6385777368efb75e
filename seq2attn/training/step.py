"""One training step: forward, backward, clipping, AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from seq2attn.config import Config
from seq2attn.data.batches import Batch, generator
from seq2attn.model.interface import Model
from seq2attn.model.resets import Resets
from seq2attn.model.reverser import Reverser
from seq2attn.training.compiling import compiled
from seq2attn.training.objective import objective

STEPS = "step"  # of AdamW's state: updates done
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's, as torch has them


@dataclass(frozen=True)
class StepResult:
    """What a step computed before the update of the weights: of its `Objective`, without graphs, and the gradient's norm."""

    logits: Tensor
    losses: dict[str, Tensor]
    total: Tensor
    norm: Tensor
    """scalar, the gradient's norm before clipping"""


class TrainingStep:
    """Forward, backward and clipping (`gradients`), then AdamW (`update`; Loshchilov & Hutter 2019, without decay Adam).

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
            ParameterGroup({name: one for name, one in trained.items() if one.dtype == dtype})
            for dtype in dict.fromkeys(one.dtype for one in self._parameters)
        ]
        self._state: list[dict[str, Tensor]] = []  # of AdamW, for each group; see `_zero_state`
        self._draws = any(map(_may_draw, model.modules()))
        self._plain = partial(objective, model, training=config.training)
        self._objective = compiled(self._plain, device) if config.training.compile else self._plain

    @property
    def groups(self) -> Sequence[ParameterGroup]:
        """The trained parameters, by dtype."""
        return self._groups

    def optimiser_state(self) -> list[dict[str, Tensor]]:
        """AdamW's number of updates and averages of each group: the tensors themselves."""
        self._state = self._state or self._zero_state()
        return self._state

    def gradients(self, batch: Batch, step: int, *, watched: bool = False) -> StepResult:
        """The clipped gradients of step number `step` (from 0), on the model's parameters.

        watched: call the model module by module, even if the step is compiled.
        """
        if not self.model.training:
            self.model.train()
        if self._draws:  # drawn from torch's default generator: a function of seed and step
            torch.manual_seed(generator(torch.device("cpu"), self.config.seed, "dropout", step).initial_seed())
        resets = self.draw_resets(batch, step)
        found = (self._plain if watched else self._objective)(batch, resets)
        gradients = torch.autograd.grad(found.total, self._parameters, allow_unused=True, materialize_grads=True)
        for group in self._groups:
            own = (
                one
                for one, parameter in zip(gradients, self._parameters, strict=True)
                if parameter.dtype == group.dtype
            )
            torch.cat([gradient.flatten() for gradient in own], out=group.gradient)
        norm = self._clip()
        return StepResult(found.logits, found.losses, found.total.detach(), norm)

    def draw_resets(self, batch: Batch, step: int) -> Resets | None:
        """The resets of step number `step`; None if the config has none."""
        training = self.config.training
        shares = {"encoder": training.encoder_reset, "decoder": training.decoder_reset}
        if not any(shares.values()):
            return None
        assert isinstance(self.model, Reverser), "rules.py refuses resets for other models"
        random = generator(batch.source.device, self.config.seed, "resets", step)
        return self.model.draw_resets(random, batch.source, batch.decoder_input, **shares)

    def _clip(self) -> Tensor:
        """Scale the gradient to `clip_norm` if its norm is larger. Returns the norm before."""
        limit = self.config.training.clip_norm
        norms = [torch.linalg.vector_norm(group.gradient) for group in self._groups]
        norm: Tensor = (
            norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack([one.float() for one in norms]))
        )
        if limit is None:
            return norm
        for group in self._groups:
            if norm.device.type != "cpu":  # a comparison would synchronise
                group.gradient *= (limit / norm).clamp(max=1)
            elif float(norm) > limit:
                group.gradient *= limit / float(norm)
        return norm

    def update(self, rate: float) -> None:
        """Change the weights by the gradients, with this learning rate."""
        for group, values in zip(self._groups, self.optimiser_state(), strict=True):
            adamw(group.vector, group.gradient, values, rate, self.config.training.weight_decay)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's state by parameter, `exp_avg.encoder.embedding.weight` and so on; empty before an update."""
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
                value.copy_(parts[0].squeeze() if kind == STEPS else torch.cat(parts))

    def _zero_state(self) -> list[dict[str, Tensor]]:
        """AdamW's number of updates and averages, before the first update."""
        return [
            {
                STEPS: torch.zeros((), device=group.vector.device),
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
            for name, part in (dict.fromkeys(group.shapes, value) if kind == STEPS else group.by_name(value)).items()
        }


def adamw(vector: Tensor, gradient: Tensor, state: Mapping[str, Tensor], rate: float, weight_decay: float) -> None:
    """Change the weights `vector` by their `gradient`, and AdamW's `state` with them."""
    state[STEPS].add_(1)
    torch._fused_adamw_(
        [vector],
        [gradient],
        [state["exp_avg"]],
        [state["exp_avg_sq"]],
        [],
        [state[STEPS]],
        amsgrad=False,
        beta1=BETAS[0],
        beta2=BETAS[1],
        lr=rate,
        weight_decay=weight_decay,
        eps=EPSILON,
        maximize=False,
    )


class ParameterGroup:
    """Parameters of one dtype, which become views of `vector`, and their gradients, which become views of `gradient`."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self.vector = nn.utils.parameters_to_vector(parameters.values()).detach()
        self.dtype = self.vector.dtype
        self.gradient = torch.zeros_like(self.vector)
        views, gradients = self.by_name(self.vector), self.by_name(self.gradient)
        for name, parameter in parameters.items():
            parameter.data, parameter.grad = views[name], gradients[name]

    def by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """Each parameter's part of a vector over all parameters, as a view of its shape."""
        parts = torch.split(vector, [shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)}


def _may_draw(module: nn.Module) -> bool:
    """Whether the module may draw random numbers in training: dropout, or code that is neither ours nor torch's."""
    if isinstance(module, nn.Dropout):
        return module.p > 0
    return not type(module).__module__.startswith(("seq2attn.", "torch.")) or "dropout" in type(module).__name__.lower()
