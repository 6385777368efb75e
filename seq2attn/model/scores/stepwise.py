"""A score for a recurrence whose queries come one after another.

Such a loop asks for the scores of one query a row at a time. Its backward pass asks for the query's gradient step by step,
and for all the rest once at the end. A score gets one of these from `Score.stepwise`; the one here serves any score, by
autograd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from seq2attn.model.scores.base import Score


class StepwiseScore:
    """Works for every score: each step is computed again and differentiated by autograd.

    keys (B, S, ...) from `Score.project`. Each step is about the first b rows of the batch.
    """

    def __init__(self, score: Score, keys: Tensor) -> None:
        self.score = score
        self.keys = keys
        self.parameters = list(score.parameters())
        self.grad_keys = torch.zeros_like(keys)
        self.grad_parameters = {parameter: torch.zeros_like(parameter) for parameter in self.parameters}

    def scores(self, query: Tensor) -> Tensor:
        """query (b, 1, query_width) -> scores (b, 1, S), a tensor of their own; autograd does not follow."""
        scores: Tensor = self.score(query, self.keys[: query.size(0)])
        return scores

    def begin_backward(self, queries: list[Tensor]) -> None:
        """Before the first `grad_query`, the queries (b, query_width) of all steps, first to last. The default: nothing."""

    def grad_query(self, query: Tensor, grad_scores: Tensor) -> Tensor:
        """query (b, 1, query_width), grad_scores (b, 1, S) -> the query's gradient, of the query's shape.

        Steps come last to first.
        """
        with torch.enable_grad():
            query = query.detach().requires_grad_()
            keys = self.keys[: query.size(0)].detach().requires_grad_()
            parameters = [parameter for parameter in self.parameters if parameter.requires_grad]
            scores = self.score(query, keys)
            if not scores.requires_grad:  # a score that looks at neither
                return torch.zeros_like(query)
            grad_query, grad_keys, *rest = torch.autograd.grad(
                scores, [query, keys, *parameters], grad_scores, allow_unused=True, materialize_grads=True
            )
        self.grad_keys[: query.size(0)] += grad_keys
        for parameter, gradient in zip(parameters, rest, strict=True):
            self.grad_parameters[parameter] += gradient
        return grad_query

    def finish(self, queries: Tensor, grad_scores: Tensor) -> list[Tensor | None]:
        """After the last step, queries (B, L, query_width) and grad_scores (B, L, S) of all steps -> the gradients of the
        keys and of each parameter, in order; None for one that only `project` uses.

        Past a row's end grad_scores are 0, and queries any numbers.
        """
        return [self.grad_keys, *self.grad_parameters.values()]


def scores_by_steps(score: Score, query: Tensor, keys: Tensor) -> Tensor:
    """`score(query, keys)`, (B, L, S), in the memory of one step: for scores that need more than L x S numbers."""
    scores: Tensor = _AllSteps.apply(score, query, keys, *score.parameters())  # type: ignore[no-untyped-call]
    return scores


class _AllSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Score, query: Tensor, keys: Tensor, *parameters: Tensor) -> Tensor:
        ctx.score = score
        ctx.save_for_backward(query, keys)
        stepwise = score.stepwise(keys)
        return torch.cat([stepwise.scores(one) for one in torch.split(query, 1, dim=1)], dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, keys = ctx.saved_tensors
        stepwise = ctx.score.stepwise(keys)
        stepwise.begin_backward(list(query.unbind(1)))
        steps = zip(torch.split(query, 1, dim=1), torch.split(grad, 1, dim=1), strict=True)
        grads = [stepwise.grad_query(one, grad_scores) for one, grad_scores in reversed(list(steps))]
        return None, torch.cat(grads[::-1], dim=1), *stepwise.finish(query, grad)
