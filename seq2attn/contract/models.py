"""What a model keeps to, whichever parts it is made of. Each rule is a function of a `Trial`; it raises `Broken`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from seq2attn.data.batches import Batch, append_eos
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import SOS, SPECIAL
from seq2attn.model.attention import Attention
from seq2attn.model.cells import Cell
from seq2attn.model.histories import History
from seq2attn.model.interface import Decoded
from seq2attn.model.reverser import Reverser
from seq2attn.model.scores import Score
from seq2attn.model.windows import Window

SOURCES, TARGETS = (5, 3, 1), (2, 3, 1)
"""the lengths of the strings that a model is tried on"""
B, L = len(SOURCES), max(TARGETS) + 1
EXTRA = 2  # columns of padding
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

    def draw(self, *shape: int) -> Tensor:
        """Normally distributed numbers."""
        return torch.randn(shape, dtype=self.dtype, device=self.batch.source.device)

    def weights(self) -> Tensor:
        """Attention weights (B, S) over the real tokens."""
        scores = self.draw(*self.batch.source.shape)
        return torch.softmax(scores.masked_fill(~self.valid, -torch.inf), dim=1)

    @property
    def valid(self) -> Tensor:
        """(B, S) True = real token"""
        return valid_mask(self.batch.source_lengths, self.batch.source.size(1))

    def expect_equal(self, found: Tensor, expected: Tensor, message: str) -> None:
        """Equal up to rounding."""
        double = self.dtype == torch.float64
        expect(torch.allclose(found, expected, *((1e-8, 1e-10) if double else (1e-3, 1e-4))), message)

    def expect_tensor(self, what: str, found: Any, *shape: int) -> None:
        """A tensor of this shape, all of whose numbers are finite."""
        expect(isinstance(found, Tensor), f"{what}: {type(found).__name__}, expected a tensor")
        expect(found.shape == shape, f"{what}: shape {tuple(found.shape)}, expected {shape}")
        expect(found.dtype == self.dtype, f"{what}: {found.dtype}, expected {self.dtype}")
        expect(torch.isfinite(found).all(), f"{what}: numbers that are not finite")

    def expect_state(self, what: str, state: Any, cell: Cell) -> None:
        """A tuple of as many tensors (B, D) as the cell keeps."""
        expect(isinstance(state, tuple), f"{what}: {type(state).__name__}, expected a tuple of tensors")
        expect(len(state) == cell.parts, f"{what}: {len(state)} tensors, expected {cell.parts}")
        for index, tensor in enumerate(state):
            self.expect_tensor(f"{what}, tensor {index}", tensor, B, cell.width)


def make_trial(model: Reverser, task: Task, source_eos: bool, classes: frozenset[type], dtype: torch.dtype) -> Trial:
    """Strings of several lengths, so that there is padding, whatever the task would draw."""
    random = torch.Generator().manual_seed(0)

    def draw(lengths: tuple[int, ...], symbols: int) -> tuple[Tensor, Tensor]:
        counts = torch.tensor(lengths)
        ids = torch.randint(symbols, (B, max(lengths)), generator=random) + len(SPECIAL)
        return ids * valid_mask(counts, max(lengths)), counts

    source, source_lengths = draw(SOURCES, len(task.source_vocabulary.symbols))
    target, target_lengths = draw(TARGETS, len(task.target_vocabulary.symbols))
    if source_eos:
        source, source_lengths = append_eos(source, source_lengths), source_lengths + 1
    start = torch.full((B, 1), SOS)
    output = append_eos(target, target_lengths)
    batch = Batch(source, source_lengths, torch.cat([start, target], dim=1), output, target_lengths, None)
    device = next(model.parameters()).device
    return Trial(model.to(dtype).eval(), batch.to(device), classes, dtype)


# ---- what a model computes ----


def _together(trial: Trial, decoded: Decoded, batch: Batch) -> Tensor:
    """Logits beside weights (B, L, V + S), 0 past a row's end, where they are undefined."""
    logits, weights = decoded
    both = logits if weights is None else torch.cat([logits, weights[:, :, : trial.batch.source.size(1)]], dim=2)
    return both.masked_fill(~valid_mask(batch.decoder_lengths, logits.size(1)).unsqueeze(2), 0)


def _forward(trial: Trial, batch: Batch | None = None) -> Tensor:
    """Teacher forcing: logits beside weights (B, L, V + S)."""
    batch = batch or trial.batch
    return _together(trial, trial.model(batch), batch)


def _loss(trial: Trial) -> Tensor:
    real = valid_mask(trial.batch.decoder_lengths, L)
    return cross_entropy(trial.model(trial.batch).logits[real], trial.batch.decoder_output[real])


def _masks(trial: Trial) -> bool:
    attention = trial.model.decoder.attention
    return not isinstance(attention, Attention) or attention.mask_padding


# ---- the rules ----


def check_shape(trial: Trial) -> None:
    """The shapes of what a part returns, of the first state, and of logits and weights; all numbers are finite."""
    model, (rows, width) = trial.model, trial.batch.source.shape
    for part in trial.parts():
        for what, found, *shape in _results(trial, part, width):
            trial.expect_tensor(what, found, *shape)
        if isinstance(part, Cell):
            state = part(trial.draw(B, part.input_width), part.initial(B))[1]
            trial.expect_state("state after a step", state, part)
    encoded = model.encoder(trial.batch.source, trial.batch.source_lengths)
    trial.expect_state("first state", model.initial_state(encoded), model.decoder.recurrent)
    logits, weights = model(trial.batch)
    trial.expect_tensor("logits", logits, rows, L, model.decoder.output.out_features)
    if weights is not None:
        trial.expect_tensor("weights", weights, rows, L, width)


def _results(trial: Trial, part: Any, width: int) -> Iterator[tuple[Any, ...]]:
    """What each method of a part returns, with its name and the shape that it must have."""
    lengths, draw = trial.batch.source_lengths, trial.draw
    if isinstance(part, Score):
        keys = draw(B, width, part.key_width)
        yield "scores", part(draw(B, L, part.query_width), part.project(keys)), B, L, width
        yield "values", part.values(keys), B, width, part.value_width
    elif isinstance(part, Window):
        allowed, factor = part(draw(B, L, part.query_width), lengths, width, 0)
        yield "allowed", allowed.to(trial.dtype), B, L, width
        if factor is not None:
            yield "factor", factor, B, L, width
    elif isinstance(part, History):
        past, weights, allowed = draw(B, part.channels, width) * 0, trial.weights(), trial.valid.unsqueeze(1)
        prepared = part.prepare(draw(B, width, part.key_width))
        features = part(past, prepared)
        if features is not None:
            yield "features", features, B, 1, width, part.feature_width
        combined = part.combine(weights.unsqueeze(1), past, prepared, allowed, allowed)
        yield "weights", combined, B, 1, width
        yield "addition to the context", part.read(combined, past), B, 1, part.read_width
        yield "past", part.update(past, weights), B, part.channels, width
    elif isinstance(part, Cell):
        yield "output", part(draw(B, part.input_width), part.initial(B))[0], B, part.width


def check_randomness(trial: Trial) -> None:
    """In evaluation the same strings give the same result."""
    message = "in evaluation the model is random; draw random numbers in training only: if self.training"
    expect(torch.equal(_forward(trial), _forward(trial)), message)


def check_mask(trial: Trial) -> None:
    """Weights are not below 0, and 0 on padding. Rows sum to 1, or to 0 where no key is allowed; with a window's factor
    to at most 1.
    """
    model, batch, attention = trial.model, trial.batch, trial.model.decoder.attention
    window = attention.window if isinstance(attention, Attention) else None
    query = None if window is None else trial.draw(B, 1, window.query_width)
    scaled = window is not None and window(query, batch.source_lengths, batch.source.size(1), 0).factor is not None
    with torch.no_grad():
        memory, state = model.encode(batch.source, batch.source_lengths)
        for position in range(L):
            (_, weights), state = model.step(batch.decoder_input[:, position], state, memory)
            if weights is None:
                return
            weights = weights.squeeze(1)
            expect((weights >= 0).all(), f"weights below 0 at position {position}")
            expect(not _masks(trial) or (weights[~trial.valid] == 0).all(), f"weight on padding at position {position}")
            for total in weights.sum(dim=1).tolist():
                right = total < 1 + 1e-4 if scaled else min(abs(total), abs(total - 1)) < 1e-4
                expect(right, f"a row of weights sums to {total:.3g} at position {position}")


def check_steps(trial: Trial) -> None:
    """Single steps without gradients give what teacher forcing gives in training's way, and change no argument."""
    model, batch = trial.model, trial.batch
    expected = _forward(trial)
    with torch.no_grad():
        memory, state = model.encode(batch.source, batch.source_lengths)
        steps = []
        for tokens in batch.decoder_input.unbind(1):
            step, after = model.step(tokens, state, memory)
            again, _ = model.step(tokens, state, memory)
            expect(
                torch.equal(step.logits, again.logits), "a step changes in place what it was given, or the part itself"
            )
            steps.append(step)
            state = after
    weights = [step.weights for step in steps if step.weights is not None]
    joined = Decoded(torch.cat([step.logits for step in steps], dim=1), torch.cat(weights, dim=1) if weights else None)
    found = _together(trial, joined, batch)
    for position in range(L):
        message = f"position {position} differs between teacher forcing and single steps"
        trial.expect_equal(found[:, position], expected[:, position], message)


def check_pairs(trial: Trial) -> None:
    """A score of all queries and keys at once gives what it gives for each pair."""
    for score in trial.parts():
        if isinstance(score, Score):
            query, keys = trial.draw(B, L, score.query_width), trial.draw(B, 3, score.key_width)
            matrix = score(query, score.project(keys))
            for t in range(L):
                for j in range(3):
                    alone = score(query[:, t : t + 1], score.project(keys[:, j : j + 1]))[:, 0, 0]
                    message = f"query {t} and key {j} have another score when scored alone"
                    trial.expect_equal(matrix[:, t, j], alone, message)


def check_padding(trial: Trial) -> None:
    """Results depend neither on what padding holds nor on how much of it there is."""
    if _masks(trial):
        batch, expected = trial.batch, _forward(trial)
        wider = pad(batch.source, (0, EXTRA))
        garbage = wider.masked_fill(~valid_mask(batch.source_lengths, wider.size(1)), GARBAGE)
        for source in (garbage, garbage[:, :-EXTRA]):
            trial.expect_equal(
                _forward(trial, replace(batch, source=source)), expected, "the result depends on padding"
            )


def check_batch(trial: Trial) -> None:
    """A row has the same result alone as in a batch."""
    alone = torch.cat([_forward(trial, trial.batch.rows(row, row + 1)) for row in range(B)])
    trial.expect_equal(alone, _forward(trial), "a row's result depends on the other rows")


def check_training(trial: Trial) -> None:
    """A step has a finite loss and finite gradients, and changes no buffer that checkpoints leave out."""
    model = trial.model
    unsaved = {name: buffer.clone() for name, buffer in model.named_buffers() if name not in model.state_dict()}
    loss = _loss(replace(trial, model=model.train()))
    loss.backward()  # type: ignore[no-untyped-call]
    expect(torch.isfinite(loss), f"the loss of a step is {float(loss.detach())}")
    for name, parameter in model.named_parameters():
        expect(parameter.grad is None or parameter.grad.isfinite().all(), f"the gradient of {name} is not finite")
    for name, buffer in model.named_buffers():
        message = (
            f"training changes the buffer {name}, which checkpoints leave out; register it without persistent=False"
        )
        expect(name not in unsaved or torch.equal(unsaved[name], buffer), message)


def check_parameters(trial: Trial) -> None:
    """Every parameter of the part receives a gradient, unless it is frozen."""
    _loss(trial).backward()  # type: ignore[no-untyped-call]
    for part in trial.parts():
        for name, parameter in part.named_parameters():
            expect(not parameter.requires_grad or parameter.grad is not None, f"parameter {name} receives no gradient")


def check_gradients(trial: Trial) -> None:
    """Gradients of all parameters agree with finite differences, in random directions."""
    parameters = [parameter for parameter in trial.model.parameters() if parameter.requires_grad]
    try:  # gradcheck changes the parameters in place
        torch.autograd.gradcheck(lambda *_: _forward(trial), parameters, fast_mode=True, atol=1e-8, rtol=1e-4)
    except RuntimeError as error:  # how gradcheck reports a difference
        raise Broken(" ".join(str(error).split())[:200]) from None


Rule = Callable[[Trial], None]
WHILE_TRAINING: dict[str, Rule] = {
    "shape": check_shape,
    "randomness": check_randomness,
    "mask": check_mask,
    "steps": check_steps,
    "padding": check_padding,
    "batch": check_batch,
    "training": check_training,
}
"""the rules that a config's own parts must keep before they are trained, in the precision of training"""
RULES: dict[str, Rule] = {
    **WHILE_TRAINING,
    "pairs": check_pairs,
    "parameters": check_parameters,
    "gradients": check_gradients,
}
"""all, in float64"""
