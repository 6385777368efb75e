"""The optimiser: gradients, clipping, and AdamW."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2attn.config import TrainingConfig


class AdamW:
    """AdamW (Loshchilov & Hutter 2019; without weight decay, Adam) with clipped gradients.

    Frozen parameters (`requires_grad` False) stay as they are. Construct it when the model is on
    its device. Clipping and update are one operation each, over all parameters. The update is the
    one behind torch.optim.AdamW(fused=True); that class imports the compiler with its first step,
    which takes two seconds.
    """

    def __init__(self, model: nn.Module, training: TrainingConfig, device: torch.device) -> None:
        self.training = training
        self.state: dict[str, Tensor] = {"step": torch.zeros((), device=device)}
        """what a checkpoint keeps, by name: the number of updates, and two moments of each
        parameter's gradient"""
        self.parameters: list[Tensor] = []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.parameters.append(parameter)
                self.state[f"exp_avg.{name}"] = torch.zeros_like(parameter)
                self.state[f"exp_avg_sq.{name}"] = torch.zeros_like(parameter)
        _, *moments = self.state.values()
        self._averages = moments[::2]
        self._squares = moments[1::2]
        self._compares = device.type == "cpu"  # elsewhere it would synchronise

    def trace(self) -> None:
        """From now on, take no Python branch on a number: a step can be traced as one graph."""
        self._compares = False

    def differentiate(self, total: Tensor) -> list[Tensor]:
        """Compute the gradients of all parameters; those that do not matter have zeros."""
        gradients = torch.autograd.grad(
            total, self.parameters, allow_unused=True, materialize_grads=True
        )
        laid_out = []  # as the parameters are: the update reads both as they lie in memory
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient.stride() != parameter.stride():
                gradient = torch.empty_like(parameter).copy_(gradient)
            laid_out.append(gradient)
        return laid_out

    def clip(self, gradients: list[Tensor]) -> Tensor:
        """Scale gradients in place to a norm of at most `clip_norm`; return the norm before, ()."""
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        limit = self.training.clip_norm
        if limit is None:
            return norm
        if not self._compares:
            torch._foreach_mul_(gradients, (limit / norm).clamp(max=1))
        elif float(norm) > limit:
            torch._foreach_mul_(gradients, limit / float(norm))
        return norm

    @torch.no_grad()
    def update(self, gradients: list[Tensor], rate: float | Tensor) -> None:
        """Change the parameters by their gradients, with this learning rate."""
        updates = self.state["step"]
        updates += 1
        torch._fused_adamw_(
            self.parameters,
            gradients,
            self._averages,
            self._squares,
            [],
            [updates] * len(gradients),
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=self.training.weight_decay,
            amsgrad=False,
            maximize=False,
        )
