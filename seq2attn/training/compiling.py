"""Training steps compiled by torch.compile, for `training.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError
from seq2attn.training.objective import Objective

BACKEND = "inductor"
MOST_SHAPES = 1000  # of batches, and numbers of seeds that are trained together, for each of which a step is compiled


class CannotCompile(Seq2AttnError):
    """torch.compile does not compile this training step."""

    def __init__(self, reason: str, *, exit_code: int = 1) -> None:
        super().__init__(f"training.compile: {reason}", hint="Set training.compile to false.", exit_code=exit_code)


def check_batches(task: Task) -> None:
    """Raise `CannotCompile` for a task whose batches differ in length from step to step."""
    if task.training_set is not None:
        reason = "the batches of a training set differ in length, and each length would be compiled anew"
        raise CannotCompile(reason, exit_code=2)


def check_compiler(device: torch.device) -> None:
    """Raise `CannotCompile` where a C++ compiler is needed and there is none."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        if device.type == "cpu":
            get_cpp_compiler()
    except InvalidCxxCompiler:
        reason = "torch.compile needs a C++ compiler, and none was found; install one, or name it in the variable CXX"
        raise CannotCompile(reason) from None


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
