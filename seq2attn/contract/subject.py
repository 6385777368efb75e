"""What the rules of models are checked on: a small model with a few strings, and what its parts
return when each is called alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.data.batches import Batch, make_batch, pad_pairs, valid_mask
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import SPECIAL
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.histories import AttentionStep
from seq2attn.model.normalisers import Normaliser, Window
from seq2attn.model.scores import Score

LENGTHS = ((5, 2), (3, 3), (1, 1))
"""of source and target of the strings that a model is checked on"""
B, L = 3, 4  # strings, and outputs of the longest target with its `<eos>`


def differ(result: Tensor, expected: Tensor) -> bool:
    """Return True unless the two are equal in the first half of the digits of their type."""
    tolerance = torch.finfo(expected.dtype).eps ** 0.5
    return not torch.allclose(result, expected, tolerance, tolerance)


@dataclass(frozen=True)
class Subject:
    """A model whose parts are checked. Lengths: B strings of at most S tokens, L outputs."""

    model: Reverser
    """in evaluation mode"""
    batch: Batch
    """strings of several lengths"""
    classes: Sequence[type]
    """of the parts to check"""

    def parts(self, kind: Any = nn.Module) -> Iterator[Any]:
        """Yield the modules of the model that belong to these classes and are of this kind."""
        for part in self.model.modules():
            if type(part) in self.classes and isinstance(part, kind):
                yield part

    @property
    def width(self) -> int:
        """S"""
        return self.batch.source.size(1)

    @property
    def valid(self) -> Tensor:
        """(B, 1, S) True = real token"""
        return valid_mask(self.batch.source_lengths, self.width).unsqueeze(1)

    def draw(self, *shape: int) -> Tensor:
        """Draw normally distributed numbers of the model's type."""
        return self.model.decoder.output.weight.new_empty(shape).normal_()

    def forward(
        self, batch: Batch | None = None, parameters: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Return logits and weights of teacher forcing side by side, (B, L, V + S); of a model
        without attention logits alone, (B, L, V). Past a row's end, where the model leaves them
        undefined, they are 0. If `batch` has wider padding than the subject's own batch, the
        weights beyond its S tokens are cut off, so that results of both can be compared.

        batch: None: the subject's own. parameters: those that take the place of the model's, by
        name; None: the model's own.
        """
        batch = batch or self.batch
        results, weights, _ = functional_call(self.model, dict(parameters or {}), (batch,))
        if weights is not None:
            results = torch.cat([results, weights[..., : self.width]], dim=2)
        real = valid_mask(batch.decoder_lengths, results.size(1))
        return results.masked_fill(~real.unsqueeze(2), 0)

    def backward(self) -> None:
        """Compute the gradients of a loss, the mean square of all results."""
        self.forward().square().mean().backward()  # type: ignore[no-untyped-call]


def make_subject(
    config: Config, task: Task, classes: Sequence[type], dtype: torch.dtype, device: torch.device
) -> Subject:
    """Build a new model of `config` in evaluation mode, and strings of the task's symbols with the
    lengths `LENGTHS`, so that there is padding. They are random, but the same at each call. Torch's
    generator stays as it is: `build_model` forks it.

    classes: of the parts to check.
    """
    model = build_model(config, task).to(device, dtype).eval()
    assert isinstance(model, Reverser)
    random = Random(0)
    sources = range(len(SPECIAL), len(task.source_vocabulary))
    targets = range(len(SPECIAL), len(task.target_vocabulary))
    pairs = [(random.choices(sources, k=m), random.choices(targets, k=n)) for m, n in LENGTHS]
    batch = make_batch(pad_pairs(pairs, device), source_eos=config.model.source_eos)
    return Subject(model, batch, classes)


# ---- what parts return ----


def returned(subject: Subject) -> Iterator[tuple[str, Any, Any]]:
    """Yield what the parts to check return, each called alone on drawn numbers; and what encoder,
    initial state and the whole model return, whichever parts are checked. Each result follows its
    name, and is followed by something of the form that it must have.
    """
    draw, width = subject.draw, subject.width
    full = draw(B, L, width)  # as scores and weights
    for score in subject.parts(Score):
        query, keys = draw(B, L, score.query_width), draw(B, width, score.key_width)
        yield "scores", scores_of(score, query, keys), full
    for normaliser in subject.parts(Normaliser):
        yield "weights", normaliser(full, subject.valid), full
    for window in subject.parts(Window):
        query = draw(B, L, window.query_width)
        # 0: the position of the first query
        allowed, factor = window(query, subject.batch.source_lengths, width, 0)
        yield "allowed", allowed, full > 0
        if factor is not None:
            yield "factor", factor, full
    for cell in subject.parts(Cell):
        state = cell.step(cell.project_input(draw(B, cell.input_width)), cell.initial(B))
        yield "output", cell.output(state), draw(B, cell.width)
        yield "state after a step", state, (draw(B, cell.width),) * cell.state_tensors

    model, batch = subject.model, subject.batch
    encoded = model.encoder(batch.source, batch.source_lengths)
    yield "encoder states", encoded.states, draw(B, width, model.encoder.width)
    cell = model.decoder.cell
    h = draw(B, cell.width)  # as each tensor of a state
    yield "final state", encoded.final, (h,) * model.encoder.final_tensors
    yield "first state", model.initial_state(encoded), (h,) * cell.state_tensors
    logits, weights, _ = model(batch)
    yield "logits", logits, draw(B, L, model.decoder.output.out_features)
    if weights is not None:
        yield "weights", weights, full


def form(result: Any) -> str:
    """Return the types and sizes of tensors, in tuples as they stand in these, and otherwise the
    name of a type: `tuple of torch.float32 (3, 4), NoneType`.
    """
    if isinstance(result, Tensor):
        return f"{result.dtype} {tuple(result.shape)}"
    if isinstance(result, tuple):
        return f"tuple of {', '.join(map(form, result))}"
    return type(result).__name__


def scores_of(score: Score, query: Tensor, keys: Tensor) -> Any:
    """Return the scores of query (B, L, Dq) and keys (B, S, Dk), without padding. Some scores ask
    for the step, too: here the first one, with nothing remembered.
    """
    valid = keys.new_ones(len(keys), 1, keys.size(1)).bool()  # (B, 1, S)
    now = AttentionStep(query, None, None, valid, valid.expand(-1, query.size(1), -1))
    return score(query, score.project(keys), **({"now": now} if score.sees_now else {}))
