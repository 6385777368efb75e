"""Training steps compiled by torch.compile, for `training.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from seq2attn.data.batches import TrainingData
from seq2attn.data.epochs import EpochData
from seq2attn.errors import Seq2AttnError
from seq2attn.training.objective import Objective

BACKEND = "inductor"
MOST_SHAPES = 1000  # of batches, and numbers of seeds that are trained together, for each of which a step is compiled


class CannotCompile(Seq2AttnError):
    """torch.compile does not compile this training step."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"training.compile: {reason}", hint="Set training.compile to false.", exit_code=1)


def check_shapes(data: TrainingData) -> None:
    """Raise `CannotCompile` for batches that differ in length from step to step."""
    if isinstance(data, EpochData):
        raise CannotCompile("the batches of a training set differ in length, and each length would be compiled anew")


def compiled(objective: Callable[..., Objective], device: torch.device) -> Callable[..., Objective]:
    """The objective, compiled as a whole by the first call, and again for each other shape of its arguments.

    On a GPU it is also captured as a CUDA graph, which the host starts once instead of operation by operation. The numbers
    are those of `objective` up to rounding. Raises `CannotCompile` when called.
    """
    captures = device.type == "cuda"
    mode = "reduce-overhead" if captures else None
    ready = torch.compile(objective, backend=BACKEND, fullgraph=True, dynamic=False, mode=mode)

    def call(*arguments: Any) -> Objective:
        from torch._dynamo import config, exc

        if captures:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        try:
            with config.patch(recompile_limit=MOST_SHAPES, accumulated_recompile_limit=MOST_SHAPES):
                found = ready(*arguments)
        except (exc.TorchDynamoException, exc.FailOnRecompileLimitHit) as error:
            cause = getattr(error, "inner_exception", error)  # of the backend
            reason = f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
            raise CannotCompile(f"torch.compile cannot compile this model's training step: {reason}") from error
        if captures:  # the graph's own tensors are overwritten by the next call
            losses = {name: loss.clone() for name, loss in found.losses.items()}
            found = Objective(found.logits.clone(), losses, found.total.clone())
        return found

    return call
