"""What the rules of models are checked on: a small model with a few strings, and what its parts
return when each is called alone.
"""

from collections.abc import Iterator, Sequence
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
from seq2attn.data.tasks.base import pad_pairs
from seq2attn.data.vocabulary import SPECIAL
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.histories import AttentionStep
from seq2attn.model.interface import Decoded
from seq2attn.model.normalisers import Normaliser
from seq2attn.model.scores import Score
from seq2attn.model.windows import Window

LENGTHS = ((5, 2), (3, 3), (1, 1))
"""of source and target of the strings that a model is checked on"""
B, L = 3, 4  # strings, and outputs of the longest target with its `<eos>`


def differ(result: Tensor, expected: Tensor) -> bool:
    """Return True unless the two are equal up to rounding."""
    rtol, atol = (1e-8, 1e-10) if expected.dtype == torch.float64 else (1e-3, 1e-4)
    return not torch.allclose(result, expected, rtol, atol)


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

    def results_of(self, decoded: Decoded) -> Tensor:
        """Return logits and weights side by side, (B, L, V + S), without weights on padding beyond
        the S tokens of the subject's own batch; of a model without attention logits alone,
        (B, L, V).
        """
        logits, weights, _ = decoded
        if weights is None:
            return logits
        return torch.cat([logits, weights[..., : self.width]], dim=2)

    def forward(
        self, batch: Batch | None = None, parameters: dict[str, Tensor] | None = None
    ) -> Tensor:
        """Return `results_of` teacher forcing on a batch, by default the subject's own: (B, L,
        V + S), with 0 past a row's end, where the model's are undefined.

        parameters: by name, those that take the place of the model's; None: its own.
        """
        batch = batch or self.batch
        results = self.results_of(functional_call(self.model, parameters or {}, batch))
        real = valid_mask(batch.decoder_lengths, results.size(1))
        return results.masked_fill(~real.unsqueeze(2), 0)

    def backward(self) -> float:
        """Compute the gradients of a loss, the mean square of all results, and return it."""
        loss = self.forward().square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())


def make_subject(
    config: Config, task: Task, classes: Sequence[type], dtype: torch.dtype, device: torch.device
) -> Subject:
    """Build a new model of `config` in evaluation mode, and random strings of the task's symbols
    with the lengths `LENGTHS`, so that there is padding. Torch's generator stays as it is:
    `build_model` forks it.

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

Returned = Iterator[tuple[str, Any, tuple[int, ...] | str]]
"""names of results, the results, and the shapes that they must have; of a state, first how many
tensors it is and should be, both in words
"""


def returned(subject: Subject) -> Returned:
    """Yield what the parts to check return, each called alone on drawn numbers; and what encoder,
    initial state and the whole model return, whichever parts are checked.
    """
    draw, width = subject.draw, subject.width
    full = (B, L, width)  # of scores and weights
    for score in subject.parts(Score):
        query, keys = draw(B, L, score.query_width), draw(B, width, score.key_width)
        yield "scores", scores_of(score, query, keys), full
        yield "values", score.values(keys), (B, width, score.value_width)
    for normaliser in subject.parts(Normaliser):
        yield "weights", normaliser(draw(*full), subject.valid), full
    for window in subject.parts(Window):
        query = draw(B, L, window.query_width)
        allowed, factor = window(query, subject.batch.source_lengths, width, 0)
        # `allowed` is of bool: a product is of the model's type, as all other results
        yield "allowed", allowed * draw(1), full
        if factor is not None:
            yield "factor", factor, full
    for cell in subject.parts(Cell):
        state = cell.step(cell.project_input(draw(B, cell.input_width)), cell.initial(B))
        yield "output", cell.output(state), (B, cell.width)
        yield from _of_state("state after a step", state, cell.state_tensors, cell.width)

    model, batch = subject.model, subject.batch
    encoded = model.encoder(batch.source, batch.source_lengths)
    yield "encoder states", encoded.states, (B, width, model.encoder.width)
    cell, finals = model.decoder.cell, model.encoder.final_tensors
    yield from _of_state("final state", encoded.final, finals, cell.width)
    first = model.initial_state(encoded)
    yield from _of_state("first state", first, cell.state_tensors, cell.width)
    logits, weights, _ = model(batch)
    yield "logits", logits, (B, L, model.decoder.output.out_features)
    if weights is not None:
        yield "weights", weights, full


def _of_state(name: str, state: Any, tensors: int, width: int) -> Returned:
    """Yield how many tensors a cell's state has, then each of them; an LSTM's has two, (h, c)."""
    count = f"{len(state)} tensors" if isinstance(state, tuple) else type(state).__name__
    yield name, count, f"{tensors} tensors"
    for index, tensor in enumerate(state):
        yield f"{name}, tensor {index}", tensor, (B, width)


def scores_of(score: Score, query: Tensor, keys: Tensor) -> Any:
    """Return the scores of query (B, L, Dq) and keys (B, S, Dk), without padding. Some scores ask
    for the step, too: here the first one, with nothing remembered.
    """
    valid = keys.new_ones(len(keys), 1, keys.size(1)).bool()  # (B, 1, S)
    now = AttentionStep(query, None, None, valid, valid.expand(-1, query.size(1), -1))
    return score(query, score.project(keys), **({"now": now} if score.sees_now else {}))
