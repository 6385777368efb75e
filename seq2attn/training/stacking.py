"""Training several seeds of a config in one program: a leading dimension over seeds through model, loss, clipping and AdamW.

The model is called as it is, by `torch.func.vmap` over its parameters and batches. Each seed keeps its own trainer: batches,
records, evaluations and checkpoints are those of a run on its own, and so are the numbers, up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2attn.config import RecurrentConfig
from seq2attn.data.batches import Batch
from seq2attn.errors import Seq2AttnError
from seq2attn.model.interface import Decoded
from seq2attn.model.resets import Reset, Resets
from seq2attn.training.compiling import compiled
from seq2attn.training.loop import Trainer
from seq2attn.training.objective import Objective, objective
from seq2attn.training.signals import StopRequest
from seq2attn.training.step import STEPS, StepResult, TrainingStep, adamw


class CannotStack(Seq2AttnError):
    """These seeds cannot be trained in one program."""


class StackedStep:
    """`TrainingStep` for K seeds of a config. Their parameters, gradients and averages become rows of (K, numbers).

    Seeds whose batches have the same number of strings are computed together, the others after one another. Sources and
    targets are padded to a common length, except for a model whose results depend on padding.
    """

    def __init__(self, steps: Sequence[TrainingStep]) -> None:
        self.steps = steps
        self.model = steps[0].model
        self.config = steps[0].config
        self.pads = not isinstance(self.config.model, RecurrentConfig) or self.config.model.attention.mask_padding
        self._check()
        groups = [step.groups[0] for step in steps]
        self.vector, self.gradient = (torch.stack([group.vector for group in groups]) for _ in range(2))
        states = [step.optimiser_state()[0] for step in steps]
        self._state = {kind: torch.stack([state[kind] for state in states]) for kind in states[0]}
        self._state[STEPS] = states[0][STEPS].clone()  # the same for all
        for row, (group, state) in enumerate(zip(groups, states, strict=True)):
            group.move(self.vector[row], self.gradient[row])
            state.update({kind: part if kind == STEPS else part[row] for kind, part in self._state.items()})
        sizes = [shape.numel() for shape in groups[0].shapes.values()]
        parts = zip(groups[0].shapes.items(), torch.split(self.vector, sizes, dim=1), strict=True)
        self._trained = {name: part.view(len(steps), *shape).detach().requires_grad_() for (name, shape), part in parts}
        frozen = [name for name, one in self.model.named_parameters() if not one.requires_grad]
        self._frozen = {name: torch.stack([step.model.get_parameter(name) for step in steps]) for name in frozen}
        objectives = vmap(self._objective)
        self._objectives = compiled(objectives, self.vector.device) if self.config.training.compile else objectives

    def _check(self) -> None:
        if any(isinstance(module, nn.Dropout) and module.p > 0 for module in self.model.modules()):
            raise CannotStack("dropout draws random numbers in every seed's own order")
        if any(True for _ in self.model.buffers()):
            raise CannotStack("the model has buffers")
        if any(len(step.groups) != 1 for step in self.steps):
            raise CannotStack("the model has parameters of several types")
        if len({float(step.optimiser_state()[0][STEPS]) for step in self.steps}) > 1:
            raise CannotStack("the seeds have done different numbers of steps")

    def gradients(self, batches: Sequence[Batch], step: int) -> list[StepResult]:
        """The clipped gradients of step number `step` (from 0) for each seed's batch, on the parameters of each model."""
        self.model.train()
        resets = [one.draw_resets(batch, step) for one, batch in zip(self.steps, batches, strict=True)]
        results: dict[int, Objective] = {}
        self.gradient.zero_()
        for rows in self._alike(batches):
            found = self._losses(rows, [batches[row] for row in rows], [resets[row] for row in rows])
            results.update(zip(rows, found, strict=True))
        norms = torch.linalg.vector_norm(self.gradient, dim=1)  # (K,)
        limit = self.config.training.clip_norm
        if limit is not None:
            self.gradient *= (limit / norms).clamp(max=1).unsqueeze(1)
        return [StepResult(*results[row], norms[row]) for row in range(len(self.steps))]

    def update(self, rate: float) -> None:
        """Change the weights of all seeds by their gradients, with this learning rate."""
        adamw(self.vector, self.gradient, self._state, rate, self.config.training.weight_decay)

    def _alike(self, batches: Sequence[Batch]) -> list[list[int]]:
        """The rows that can be computed together."""
        groups: dict[Any, list[int]] = {}
        for row, batch in enumerate(batches):
            shapes = (batch.source.shape, batch.decoder_input.shape)
            groups.setdefault(shapes[0][0] if self.pads else shapes, []).append(row)
        return list(groups.values())

    def _losses(
        self, rows: Sequence[int], batches: Sequence[Batch], resets: Sequence[Resets | None]
    ) -> list[Objective]:
        """The objective of each row, without its graph; adds the gradients to those of the rows."""
        trained, frozen = self._trained, self._frozen
        if len(rows) < len(self.steps):
            index = torch.tensor(rows, device=self.vector.device)
            trained, frozen = ({name: one[index] for name, one in part.items()} for part in (trained, frozen))
        stacked = _stack([_tensors(batch, reset) for batch, reset in zip(batches, resets, strict=True)])

        with sdpa_kernel(SDPBackend.MATH):  # `vmap` has no rule for the others; only the Transformer uses any
            logits, losses, totals = self._objectives({**trained, **frozen}, stacked)
        gradients = torch.autograd.grad(
            totals.sum(), list(self._trained.values()), allow_unused=True, materialize_grads=True
        )
        self.gradient += torch.cat([gradient.reshape(len(gradient), -1) for gradient in gradients], dim=1)
        return [
            Objective(
                logits[place, :, : batch.decoder_input.size(1)],
                {name: loss[place] for name, loss in losses.items()},
                totals[place].detach(),
            )
            for place, batch in enumerate(batches)
        ]

    def _objective(self, parameters: dict[str, Tensor], given: Mapping[str, Tensor]) -> Objective:
        """The objective of one seed, as a function of its parameters."""

        def model(*arguments: Any) -> Decoded:
            decoded: Decoded = functional_call(self.model, parameters, arguments)
            return decoded

        return objective(model, _batch(given), _resets(given), self.config.training)


def _tensors(batch: Batch, resets: Resets | None) -> dict[str, Tensor]:
    """What the loss of one seed depends on, by name; `vmap` knows no other containers."""
    given = {name: one for name, one in vars(batch).items() if name != "alignment"}
    for name, reset in vars(resets).items() if resets is not None else ():
        if reset is not None:
            given |= {f"{name}.kept": reset.kept, f"{name}.noise": reset.noise}
    return given


def _batch(given: Mapping[str, Tensor]) -> Batch:
    return Batch(**{name: one for name, one in given.items() if "." not in name}, alignment=None)


def _resets(given: Mapping[str, Tensor]) -> Resets | None:
    names = {name.partition(".")[0] for name in given if "." in name}
    return Resets(**{name: Reset(given[f"{name}.kept"], given[f"{name}.noise"]) for name in names}) if names else None


def _stack(given: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors (B,), (B, N) or (B, N, W) of each seed, padded to the longest N: (K, B, ...) each."""
    return {name: torch.stack(_padded([one[name] for one in given])) for name in given[0]}


def _padded(parts: list[Tensor]) -> list[Tensor]:
    """Tensors of one number of dimensions, the second padded with zeros to the longest."""
    widths = {part.size(1) for part in parts if part.dim() > 1}
    if len(widths) < 2:
        return parts
    behind = (0, 0) * (parts[0].dim() - 2)  # of the dimensions after it
    return [F.pad(part, (*behind, 0, max(widths) - part.size(1))) for part in parts]


def train_together(trainers: Sequence[Trainer], request: StopRequest) -> None:
    """Train these trainers, of seeds of one config that have done equally many steps, to the end or to a stop.

    A seed that fails is left at its last checkpoint, from where it can be trained alone; the others go on. Raises
    `CannotStack` before anything is recorded.
    """
    stack = StackedStep([trainer.step for trainer in trainers])
    first = [next(trainer.data.batches(trainer.progress.step)) for trainer in trainers]
    try:
        stack.gradients(first, trainers[0].progress.step)
    except Exception as error:  # torch has no class for what vmap does not support
        reason = str(error).strip().partition("\n")[0]
        raise CannotStack(f"{type(error).__name__}: {reason}") from error
    open_records = {trainer: contextlib.ExitStack() for trainer in trainers}
    for trainer, records in open_records.items():
        records.enter_context(trainer.recording(request))
    try:
        while open_records:
            _step_together(stack, open_records, request)
            if len(open_records) < len(stack.steps):
                stack = StackedStep([trainer.step for trainer in open_records]) if open_records else stack
    except BaseException as error:
        for records in open_records.values():
            _close(records, error)
        raise


def _step_together(stack: StackedStep, open_records: dict[Trainer, contextlib.ExitStack], request: StopRequest) -> None:
    """One step of all trainers; those that end or fail are closed and removed."""
    trainers = list(open_records)
    batches = [trainer.next_batch() for trainer in trainers]
    results = stack.gradients(batches, trainers[0].progress.step)
    rate = 0.0
    for trainer, batch, result in zip(trainers, batches, results, strict=True):
        try:
            rate = trainer.checked_rate(batch, result)
        except Exception as error:
            _close(open_records.pop(trainer), error)
    stack.update(rate)
    for trainer, batch, result in zip(trainers, batches, results, strict=True):
        if trainer in open_records:
            try:
                trainer.updated(batch, result, rate, request)
                if not trainer.goes_on(request):
                    open_records.pop(trainer).close()
            except Exception as error:
                _close(open_records.pop(trainer), error)


def _close(records: contextlib.ExitStack, error: BaseException) -> None:
    """End a trainer's recording with the error that stopped it, which is met again where it is trained alone."""
    with contextlib.suppress(type(error)):
        records.__exit__(type(error), error, error.__traceback__)
