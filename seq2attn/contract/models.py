"""What a model keeps to, whichever parts it is made of. Each rule is a function of a `Trial`; it
raises `Broken`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.nn.functional import cross_entropy, pad

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.data.batches import Batch, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import PAD, SPECIAL
from seq2attn.model.attention import Attention
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.histories import AttentionStep, History
from seq2attn.model.interface import Decoded
from seq2attn.model.normalisers import Normaliser, masked_softmax
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
class Subject:
    """A model in evaluation, a few strings, and the classes of the parts that are tried."""

    model: Reverser
    batch: Batch
    classes: Sequence[type]

    def parts(self, base: Any = nn.Module) -> Iterator[Any]:
        """The model's modules of these classes that are such parts."""
        return (
            part
            for part in self.model.modules()
            if type(part) in self.classes and isinstance(part, base)
        )

    @property
    def valid(self) -> Tensor:
        """(B, S) True = real token"""
        return valid_mask(self.batch.source_lengths, self.batch.source.size(1))

    def draw(self, *shape: int) -> Tensor:
        """Normally distributed numbers, of the model's type."""
        like = self.model.decoder.output.weight
        return torch.randn(shape, dtype=like.dtype, device=like.device)

    def beside(self, decoded: Decoded) -> Tensor:
        """Logits beside weights (B, L, V + S)."""
        logits, weights = decoded
        return (
            logits
            if weights is None
            else torch.cat([logits, weights[:, :, : self.batch.source.size(1)]], dim=2)
        )

    def forward(self, batch: Batch | None = None) -> Tensor:
        """Teacher forcing: logits beside weights (B, L, V + S), 0 past a row's end, where they are
        undefined.
        """
        batch = batch or self.batch
        found = self.beside(self.model(batch))
        return found.masked_fill(~valid_mask(batch.decoder_lengths, found.size(1)).unsqueeze(2), 0)

    def backward(self) -> float:
        """The loss, after it has been differentiated."""
        loss = cross_entropy(
            self.model(self.batch).logits.mT, self.batch.decoder_output, ignore_index=PAD
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())


def expect_equal(found: Tensor, expected: Tensor, message: str) -> None:
    """Equal up to rounding."""
    rtol, atol = (1e-8, 1e-10) if expected.dtype == torch.float64 else (1e-3, 1e-4)
    expect(torch.allclose(found, expected, rtol, atol), message)


def make_subject(
    config: Config, task: Task, classes: Sequence[type], dtype: torch.dtype, device: torch.device
) -> Subject:
    """A new model, and strings of several lengths, so that there is padding, whatever the task
    would draw.
    """
    model = build_model(config, task).to(device, dtype).eval()
    assert isinstance(model, Reverser)
    for part in model.modules():
        if isinstance(part, Attention):
            part.mask_padding = True  # without, results depend on padding
    random, pairs = torch.Generator().manual_seed(0), []
    for lengths, vocabulary in (
        (SOURCES, task.source_vocabulary),
        (TARGETS, task.target_vocabulary),
    ):
        counts = torch.tensor(lengths)
        ids = torch.randint(len(SPECIAL), len(vocabulary), (B, max(lengths)), generator=random)
        pairs += [ids * valid_mask(counts, max(lengths)), counts]
    batch = make_batch(Examples(*pairs), source_eos=config.model.source_eos)
    return Subject(model, batch.to(device), classes)


# ---- the rules ----


def check_shape(trial: Subject) -> None:
    """What a part returns, the first state, logits and weights have the right shapes and types, and
    finite numbers.
    """
    dtype = trial.draw(0).dtype
    for what, found, shape in _results(trial):
        expect(isinstance(found, Tensor), f"{what}: {type(found).__name__}, expected a tensor")
        expect(found.shape == shape, f"{what}: shape {tuple(found.shape)}, expected {shape}")
        expect(found.dtype == dtype, f"{what}: {found.dtype}, expected {dtype}")
        expect(torch.isfinite(found).all(), f"{what}: numbers that are not finite")


def _results(trial: Subject) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """What each method of a part and the model itself return, with its name and the shape that it
    must have.
    """
    model, batch, draw, width = trial.model, trial.batch, trial.draw, trial.batch.source.size(1)
    for score in trial.parts(Score):
        keys = draw(B, width, score.key_width)
        yield "scores", score(draw(B, L, score.query_width), score.project(keys)), (B, L, width)
        yield "values", score.values(keys), (B, width, score.value_width)
    for normaliser in trial.parts(Normaliser):
        yield "weights", normaliser(draw(B, L, width), trial.valid.unsqueeze(1)), (B, L, width)
    for window in trial.parts(Window):
        allowed, factor = window(draw(B, L, window.query_width), batch.source_lengths, width, 0)
        yield "allowed", allowed * draw(1), (B, L, width)
        if factor is not None:
            yield "factor", factor, (B, L, width)
    for history in trial.parts(History):
        keys, allowed = draw(B, width, history.key_width), trial.valid.unsqueeze(1)
        query, first = draw(B, 1, history.query_width), history.begin(keys)
        yield "first past", first, (B, history.channels, width)
        step = AttentionStep(query, first, history.prepare(keys), allowed, allowed)
        features, scores = history(step), history.scores(step)
        if features is not None:
            yield "features", features, (B, 1, width, history.feature_width)
        if scores is not None:
            yield "scores", scores, (B, 1, width)
        logits = draw(B, 1, width)
        weights = history.combine(masked_softmax(logits, allowed), logits, step)
        yield "weights", weights, (B, 1, width)
        yield (
            "addition to the context",
            history.extra_context(weights, step),
            (B, 1, history.extra_width),
        )
        yield "past", history.update(weights, step), (B, history.channels, width)
    for cell in trial.parts(Cell):
        state = cell.step(cell.project_input(draw(B, cell.input_width)), cell.initial(B))
        yield "output", cell.output(state), (B, cell.width)
        yield from _state("state after a step", state, cell)
    first = model.initial_state(model.encoder(batch.source, batch.source_lengths))
    yield from _state("first state", first, model.decoder.cell)
    logits, weights = model(batch)
    yield "logits", logits, (B, L, model.decoder.output.out_features)
    if weights is not None:
        yield "weights", weights, (B, L, width)


def _state(what: str, state: Any, cell: Cell) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """A tuple of as many tensors (B, D) as the cell keeps."""
    found = f"{len(state)} tensors" if isinstance(state, tuple) else type(state).__name__
    expected = f"{cell.state_tensors} tensors"
    expect(found == expected, f"{what}: {found}, expected a tuple of {expected}")
    yield from (
        (f"{what}, tensor {index}", tensor, (B, cell.width)) for index, tensor in enumerate(state)
    )


def check_randomness(trial: Subject) -> None:
    """In evaluation the same strings give the same result."""
    message = "in evaluation the same strings give another result; keep no state, draw random numbers if self.training"
    expect(torch.equal(trial.forward(), trial.forward()), message)


def check_mask(trial: Subject) -> None:
    """Weights are not below 0, and 0 on padding. Rows sum to 1, or to 0 where no key is allowed;
    with a window's factor or a history that says so to at most 1; to anything if the normaliser
    says so.
    """
    attention, decoder = trial.model.decoder.attention, trial.model.decoder
    if not isinstance(attention, Attention):
        return
    weights, query = (
        trial.forward()[:, :, decoder.output.out_features :],
        trial.draw(B, 1, decoder.cell.width),
    )
    factor = (
        attention.window
        and attention.window(query, trial.batch.source_lengths, weights.size(2), 0).factor
    )
    expect((weights >= 0).all(), "weights below 0")
    expect(not weights.masked_select(~trial.valid.unsqueeze(1)).any(), "weight on padding")
    for normaliser in trial.parts(Normaliser):
        scores = trial.draw(B, L, weights.size(2)).requires_grad_()
        (slopes,) = torch.autograd.grad(
            normaliser(scores, torch.zeros_like(scores).bool()).sum(), scores
        )
        expect(not slopes.any(), "a row in which no key is allowed has weights or gradients")
    exact = factor is None and attention.history.sums_to_one
    for total in weights.sum(dim=2).flatten().tolist() if attention.normaliser.sums_to_one else ():
        right = min(abs(total), abs(total - 1)) < 1e-4 if exact else total < 1 + 1e-4
        expect(right, f"a row of weights sums to {total:.3g}")


def check_steps(trial: Subject) -> None:
    """Single steps without gradients give what teacher forcing gives in training's way, and change
    no argument.
    """
    model, batch, expected = trial.model, trial.batch, trial.forward()
    with torch.no_grad():
        memory, state = model.encode(batch.source, batch.source_lengths)
        model.encode(
            batch.source.flip(0), batch.source_lengths.flip(0)
        )  # whose keys no part may mix with those before
        for position, tokens in enumerate(batch.decoder_input.unbind(1)):
            step, after = model.step(tokens, state, memory)
            again, _ = model.step(tokens, state, memory)
            expect(
                torch.equal(step.logits, again.logits),
                "a step changes in place what it was given, or the part",
            )
            real = batch.decoder_lengths > position
            message = f"position {position} differs between teacher forcing and single steps"
            expect_equal(trial.beside(step)[real, 0], expected[real, position], message)
            state = after


def check_padding(trial: Subject) -> None:
    """Results depend neither on what padding holds nor on how much of it there is."""
    batch, expected = trial.batch, trial.forward()
    wider = pad(batch.source, (0, EXTRA))
    garbage = wider.masked_fill(~valid_mask(batch.source_lengths, wider.size(1)), GARBAGE)
    for source in (garbage, garbage[:, :-EXTRA]):
        expect_equal(
            trial.forward(replace(batch, source=source)), expected, "the result depends on padding"
        )


def check_batch(trial: Subject) -> None:
    """A row has the same result alone as in a batch."""
    alone = torch.cat([trial.forward(trial.batch.select(slice(row, row + 1))) for row in range(B)])
    expect_equal(alone, trial.forward(), "a row's result depends on the other rows")


def check_training(trial: Subject) -> None:
    """A step has a finite loss and finite gradients, and changes no buffer that checkpoints leave
    out.
    """
    model = trial.model.train()
    unsaved = {
        name: buffer.clone()
        for name, buffer in model.named_buffers()
        if name not in model.state_dict()
    }
    made = set(model.parameters())
    loss = trial.backward()
    expect(abs(loss) < torch.inf, f"the loss of a step is {loss}")
    for name, parameter in model.named_parameters():
        expect(
            parameter in made,
            f"parameter {name} is made in a step, so it is not trained; make it in __init__",
        )
        expect(
            parameter.grad is None or parameter.grad.isfinite().all(),
            f"the gradient of {name} is not finite",
        )
    for name, before in unsaved.items():
        message = f"training changes the buffer {name}, which checkpoints leave out"
        expect(
            torch.equal(model.get_buffer(name), before),
            f"{message}; register it without persistent=False",
        )


def check_pairs(trial: Subject) -> None:
    """A score of all queries and keys at once gives what it gives for each pair."""
    for score in trial.parts(Score):
        query, keys = trial.draw(B, L, score.query_width), trial.draw(B, L, score.key_width)
        matrix = score(query, score.project(keys))
        for t, j in product(range(L), range(L)):
            alone = score(query[:, t : t + 1], score.project(keys[:, j : j + 1]))[:, 0, 0]
            expect_equal(
                matrix[:, t, j],
                alone,
                f"query {t} and key {j} have another score when scored alone",
            )


def check_parameters(trial: Subject) -> None:
    """Every parameter of the part receives a gradient, unless it is frozen."""
    trial.backward()
    for part in trial.parts():
        for name, parameter in part.named_parameters():
            expect(
                not parameter.requires_grad or parameter.grad is not None,
                f"parameter {name} receives no gradient",
            )


def check_gradients(trial: Subject) -> None:
    """The gradients of all results agree with central differences, in a random direction."""
    parameters = {
        name: one.detach() for name, one in trial.model.named_parameters() if one.requires_grad
    }
    direction = {name: trial.draw(*one.shape) for name, one in parameters.items()}

    def results(step: Tensor) -> Tensor:
        moved = {name: one + step * direction[name] for name, one in parameters.items()}
        found = trial.beside(functional_call(trial.model, moved, trial.batch))
        return found[valid_mask(trial.batch.decoder_lengths, L)]

    start = trial.draw().mul(0).requires_grad_()
    right = gradcheck(
        results,
        start,
        atol=1e-7,
        rtol=1e-5,
        raise_exception=False,
        check_undefined_grad=False,
        fast_mode=True,
    )
    expect(
        right,
        "the gradients are not those that finite differences give; .detach() and .item() cut them off",
    )


def rules(*checks: Callable[[Any], None]) -> dict[str, Callable[[Any], None]]:
    """Checks by the names of their rules, in the order in which they are made: `check_shape` is
    that of `shape`.
    """
    return {check.__name__.removeprefix("check_"): check for check in checks}


WHILE_TRAINING = rules(
    check_shape,
    check_randomness,
    check_steps,
    check_mask,
    check_batch,
    check_padding,
    check_training,
)
"""the rules that a config's own parts must keep before they are trained, in the precision of
training"""
RULES = WHILE_TRAINING | rules(check_pairs, check_parameters, check_gradients)
"""all, in float64 but for `shape`"""
