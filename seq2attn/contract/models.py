"""What a model keeps to, whichever parts it is made of. Each rule is a function of a `Trial`; it raises `Broken`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from seq2attn.data.batches import Batch, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import SPECIAL
from seq2attn.model.attention import Attention
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.histories import History
from seq2attn.model.interface import Decoded
from seq2attn.model.scores import Score
from seq2attn.model.windows import Window

SOURCES, TARGETS = (5, 3, 1), (2, 3, 1)
"""the lengths of the strings that a model is tried on"""
B, L = len(SOURCES), max(TARGETS) + 1
EXTRA = 2  # columns of padding
STEP = 1e-5  # of finite differences
GARBAGE = len(SPECIAL)  # the token that padding is replaced by


class Broken(Exception):
    """What was found instead of what a rule says."""


def expect(condition: Any, message: str) -> None:
    """Raise `Broken` unless `condition` is true."""
    if not condition:
        raise Broken(message)


@dataclass(frozen=True)
class Trial:
    """A model, a few strings, and the classes of the parts that are tried."""

    model: Reverser
    batch: Batch
    classes: frozenset[type]
    dtype: torch.dtype

    def parts(self) -> Iterator[Any]:
        """The model's modules that are such parts."""
        return (module for module in self.model.modules() if type(module) in self.classes)

    @property
    def valid(self) -> Tensor:
        """(B, S) True = real token"""
        return valid_mask(self.batch.source_lengths, self.batch.source.size(1))

    @property
    def masks(self) -> bool:
        """Whether attention masks padding."""
        return getattr(self.model.decoder.attention, "mask_padding", True)

    def draw(self, *shape: int) -> Tensor:
        """Normally distributed numbers."""
        return torch.randn(shape, dtype=self.dtype, device=self.batch.source.device)

    def forward(self, batch: Batch | None = None) -> Tensor:
        """Teacher forcing as in training: logits beside weights (B, L, V + S), 0 past a row's end."""
        batch = batch or self.batch
        return self.together(self.model(batch), batch)

    def together(self, decoded: Decoded, batch: Batch) -> Tensor:
        """Logits beside the weights (B, L, V + S), 0 past a row's end, where they are undefined."""
        logits, weights = decoded
        both = logits if weights is None else torch.cat([logits, weights[:, :, : self.batch.source.size(1)]], dim=2)
        return both.masked_fill(~valid_mask(batch.decoder_lengths, logits.size(1)).unsqueeze(2), 0)

    def backward(self) -> Tensor:
        """The loss, after it has been differentiated."""
        real = valid_mask(self.batch.decoder_lengths, L)
        loss = cross_entropy(self.model(self.batch).logits[real], self.batch.decoder_output[real])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def by_steps(self) -> Decoded:
        """The same as `forward`, one position after another, without gradients."""
        steps = []
        with torch.no_grad():
            memory, state = self.model.encode(self.batch.source, self.batch.source_lengths)
            for tokens in self.batch.decoder_input.unbind(1):
                step, after = self.model.step(tokens, state, memory)
                again, _ = self.model.step(tokens, state, memory)
                expect(torch.equal(step.logits, again.logits), "a step changes in place what it was given, or the part")
                steps.append(step)
                state = after
        weights = [step.weights for step in steps if step.weights is not None]
        return Decoded(
            torch.cat([step.logits for step in steps], dim=1), torch.cat(weights, dim=1) if weights else None
        )

    def expect_equal(self, found: Tensor, expected: Tensor, message: str) -> None:
        """Equal up to rounding."""
        rtol, atol = (1e-8, 1e-10) if self.dtype == torch.float64 else (1e-3, 1e-4)
        expect(torch.allclose(found, expected, rtol, atol), message)


def make_trial(model: Reverser, task: Task, source_eos: bool, classes: frozenset[type], dtype: torch.dtype) -> Trial:
    """Strings of several lengths, so that there is padding, whatever the task would draw."""
    random, pairs = torch.Generator().manual_seed(0), []
    for lengths, vocabulary in ((SOURCES, task.source_vocabulary), (TARGETS, task.target_vocabulary)):
        counts = torch.tensor(lengths)
        ids = torch.randint(len(SPECIAL), len(vocabulary), (B, max(lengths)), generator=random)
        pairs += [ids * valid_mask(counts, max(lengths)), counts]
    batch = make_batch(Examples(*pairs), source_eos=source_eos)
    return Trial(model.to(dtype).eval(), batch.to(next(model.parameters()).device), classes, dtype)


# ---- the rules ----


def check_shape(trial: Trial) -> None:
    """What a part returns, the first state, logits and weights have the right shapes and types, and finite numbers."""
    for what, found, shape in _results(trial):
        expect(isinstance(found, Tensor), f"{what}: {type(found).__name__}, expected a tensor")
        expect(found.shape == shape, f"{what}: shape {tuple(found.shape)}, expected {shape}")
        expect(found.dtype == trial.dtype, f"{what}: {found.dtype}, expected {trial.dtype}")
        expect(torch.isfinite(found).all(), f"{what}: numbers that are not finite")


def _results(trial: Trial) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """What each method of a part and the model itself return, with its name and the shape that it must have."""
    model, batch, draw, width = trial.model, trial.batch, trial.draw, trial.batch.source.size(1)
    for part in trial.parts():
        if isinstance(part, Score):
            keys = draw(B, width, part.key_width)
            yield "scores", part(draw(B, L, part.query_width), part.project(keys)), (B, L, width)
            yield "values", part.values(keys), (B, width, part.value_width)
        elif isinstance(part, Window):
            allowed, factor = part(draw(B, L, part.query_width), batch.source_lengths, width, 0)
            yield "allowed", allowed.to(trial.dtype), (B, L, width)
            yield "factor", allowed.to(trial.dtype) if factor is None else factor, (B, L, width)
        elif isinstance(part, History):
            weights, allowed = trial.valid / trial.valid.sum(1, True).to(trial.dtype), trial.valid.unsqueeze(1)
            past = draw(B, part.channels, width) * 0
            prepared = part.prepare(draw(B, width, part.key_width))
            features = part(past, prepared)
            if features is not None:
                yield "features", features, (B, 1, width, part.feature_width)
            combined = part.combine(weights.unsqueeze(1), past, prepared, allowed, allowed)
            yield "weights", combined, (B, 1, width)
            yield "addition to the context", part.read(combined, past), (B, 1, part.read_width)
            yield "past", part.update(past, weights), (B, part.channels, width)
        elif isinstance(part, Cell):
            output, state = part(draw(B, part.input_width), part.initial(B))
            yield "output", output, (B, part.width)
            yield from _state("state after a step", state, part)
    encoded = model.encoder(batch.source, batch.source_lengths)
    yield from _state("first state", model.initial_state(encoded), model.decoder.cell)
    logits, weights = model(batch)
    yield "logits", logits, (B, L, model.decoder.output.out_features)
    if weights is not None:
        yield "weights", weights, (B, L, width)


def _state(what: str, state: Any, cell: Cell) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """A tuple of as many tensors (B, D) as the cell keeps."""
    expect(isinstance(state, tuple), f"{what}: {type(state).__name__}, expected a tuple of tensors")
    expect(len(state) == cell.parts, f"{what}: {len(state)} tensors, expected {cell.parts}")
    for index, tensor in enumerate(state):
        yield f"{what}, tensor {index}", tensor, (B, cell.width)


def check_randomness(trial: Trial) -> None:
    """In evaluation the same strings give the same result."""
    message = "in evaluation the model is random; draw random numbers in training only: if self.training"
    expect(torch.equal(trial.forward(), trial.forward()), message)


def check_mask(trial: Trial) -> None:
    """Weights are not below 0, and 0 on padding. Rows sum to 1, or to 0 where no key is allowed; with a window's factor
    to at most 1.
    """
    attention, weights = trial.model.decoder.attention, trial.by_steps().weights
    if weights is None or not isinstance(attention, Attention):
        return
    query, sizes = trial.draw(B, 1, trial.model.decoder.cell.width), trial.batch.source_lengths
    factor = None if attention.window is None else attention.window(query, sizes, weights.size(2), 0).factor
    expect((weights >= 0).all(), "weights below 0")
    expect(not trial.masks or not weights.masked_select(~trial.valid.unsqueeze(1)).any(), "weight on padding")
    for total in weights.sum(dim=2).flatten().tolist():
        right = min(abs(total), abs(total - 1)) < 1e-4 if factor is None else total < 1 + 1e-4
        expect(right, f"a row of weights sums to {total:.3g}")


def check_steps(trial: Trial) -> None:
    """Single steps without gradients give what teacher forcing gives in training's way, and change no argument."""
    found, expected = trial.together(trial.by_steps(), trial.batch), trial.forward()
    for position in range(L):
        message = f"position {position} differs between teacher forcing and single steps"
        trial.expect_equal(found[:, position], expected[:, position], message)


def check_padding(trial: Trial) -> None:
    """Results depend neither on what padding holds nor on how much of it there is."""
    if trial.masks:
        batch, expected = trial.batch, trial.forward()
        wider = pad(batch.source, (0, EXTRA))
        garbage = wider.masked_fill(~valid_mask(batch.source_lengths, wider.size(1)), GARBAGE)
        for source in (garbage, garbage[:, :-EXTRA]):
            trial.expect_equal(trial.forward(replace(batch, source=source)), expected, "the result depends on padding")


def check_batch(trial: Trial) -> None:
    """A row has the same result alone as in a batch."""
    alone = torch.cat([trial.forward(trial.batch.select(slice(row, row + 1))) for row in range(B)])
    trial.expect_equal(alone, trial.forward(), "a row's result depends on the other rows")


def check_training(trial: Trial) -> None:
    """A step has a finite loss and finite gradients, and changes no buffer that checkpoints leave out."""
    model = trial.model.train()
    unsaved = {name: buffer.clone() for name, buffer in model.named_buffers() if name not in model.state_dict()}
    loss = float(trial.backward())
    expect(abs(loss) < torch.inf, f"the loss of a step is {loss}")
    for name, parameter in model.named_parameters():
        expect(parameter.grad is None or parameter.grad.isfinite().all(), f"the gradient of {name} is not finite")
    for name, before in unsaved.items():
        message = f"training changes the buffer {name}, which checkpoints leave out"
        expect(torch.equal(model.get_buffer(name), before), f"{message}; register it without persistent=False")


def check_pairs(trial: Trial) -> None:
    """A score of all queries and keys at once gives what it gives for each pair."""
    for score in trial.parts():
        if isinstance(score, Score):
            query, keys = trial.draw(B, L, score.query_width), trial.draw(B, L, score.key_width)
            matrix = score(query, score.project(keys))
            for t, j in product(range(L), range(L)):
                alone = score(query[:, t : t + 1], score.project(keys[:, j : j + 1]))[:, 0, 0]
                trial.expect_equal(
                    matrix[:, t, j], alone, f"query {t} and key {j} have another score when scored alone"
                )


def check_parameters(trial: Trial) -> None:
    """Every parameter of the part receives a gradient, unless it is frozen."""
    trial.backward()
    for part in trial.parts():
        for name, parameter in part.named_parameters():
            expect(not parameter.requires_grad or parameter.grad is not None, f"parameter {name} receives no gradient")


def check_gradients(trial: Trial) -> None:
    """The gradient of a random sum of all results agrees with central differences, in a random direction."""
    parameters = [parameter for parameter in trial.model.parameters() if parameter.requires_grad]
    place, results = parameters_to_vector(parameters).detach(), trial.forward()
    direction, shares = trial.draw(len(place)), trial.draw(*results.shape)
    gradients = torch.autograd.grad((results * shares).sum(), parameters, materialize_grads=True, allow_unused=True)
    sums = []
    with torch.no_grad():
        for step in (STEP, -STEP):
            vector_to_parameters(place + step * direction, parameters)
            sums.append((trial.forward() * shares).sum())
    found, expected = float(parameters_to_vector(gradients) @ direction), float(sums[0] - sums[1]) / (2 * STEP)
    message = f"the gradient is {found:.9g} in a direction in which finite differences give {expected:.9g}"
    expect(math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-8), message)


WHILE_TRAINING: dict[str, Callable[[Trial], None]] = {
    "shape": check_shape,
    "randomness": check_randomness,
    "steps": check_steps,
    "mask": check_mask,
    "padding": check_padding,
    "batch": check_batch,
    "training": check_training,
}
"""the rules that a config's own parts must keep before they are trained, in the precision of training"""
RULES = {**WHILE_TRAINING, "pairs": check_pairs, "parameters": check_parameters, "gradients": check_gradients}
"""all, in float64"""
