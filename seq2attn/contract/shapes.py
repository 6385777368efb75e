"""The rule of shapes: which tensors the parts of a model return."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from seq2attn.contract.subject import B, L, Subject
from seq2attn.findings.engine import Found
from seq2attn.model.cells import Cell
from seq2attn.model.histories import AttentionStep
from seq2attn.model.normalisers import Normaliser, Window
from seq2attn.model.scores import Score

Results = Iterator[tuple[str, Any, tuple[int, ...] | str]]
"""names of results, the results, and the shapes that they must have; of a state, first how many
tensors it is and should be, both in words
"""


def check_shape(subject: Subject) -> Found:
    """Results of parts, encoded sources, first states, logits and weights are finite and have the
    right shapes and types.

    What broadcasts would pass silently otherwise, and a number of another type would slow down all
    that follows.
    """
    dtype = subject.draw(0).dtype  # that of the model
    for name, result, expected in _results(subject):
        if isinstance(expected, str):  # the number of tensors of a state, in words
            if result != expected:
                yield "state-size", name, result, expected
        elif not isinstance(result, Tensor):
            yield "no-tensor", name, type(result).__name__
        elif result.shape != expected:
            yield "result-shape", name, tuple(result.shape), expected
        elif result.dtype != dtype:
            yield "result-type", name, result.dtype, dtype
        elif not torch.isfinite(result).all():
            yield "result-infinite", name


def _results(subject: Subject) -> Results:
    """Yield what the parts to check return, each called alone on drawn numbers, and then what the
    model returns.
    """
    draw, width = subject.draw, subject.width
    full = (B, L, width)  # of scores and weights
    for score in subject.parts(Score):
        query, keys = draw(B, L, score.query_width), draw(B, width, score.key_width)
        yield "scores", scores_of(score, query, keys, subject.valid), full
        yield "values", score.values(keys), (B, width, score.value_width)
    for normaliser in subject.parts(Normaliser):
        yield "weights", normaliser(draw(*full), subject.valid), full
    for window in subject.parts(Window):
        query = draw(B, L, window.query_width)
        allowed, factor = window(query, subject.batch.source_lengths, width, 0)
        # `allowed` is of bool: a product is of the model's type, which `check_shape` expects
        yield "allowed", allowed * draw(1), full
        if factor is not None:
            yield "factor", factor, full
    for cell in subject.parts(Cell):
        state = cell.step(cell.project_input(draw(B, cell.input_width)), cell.initial(B))
        yield "output", cell.output(state), (B, cell.width)
        yield from _state_results("state after a step", state, cell.state_tensors, cell.width)
    yield from _model_results(subject)


def _model_results(subject: Subject) -> Results:
    """Yield what the encoder, the initial state and the whole model return, whichever parts are
    checked.
    """
    model, batch, width = subject.model, subject.batch, subject.width
    encoded = model.encoder(batch.source, batch.source_lengths)
    yield "encoder states", encoded.states, (B, width, model.encoder.width)
    cell, finals = model.decoder.cell, model.encoder.final_tensors
    yield from _state_results("final state", encoded.final, finals, cell.width)
    first = model.initial_state(encoded)
    yield from _state_results("first state", first, cell.state_tensors, cell.width)
    logits, weights, _ = model(batch)
    yield "logits", logits, (B, L, model.decoder.output.out_features)
    if weights is not None:
        yield "weights", weights, (B, L, width)


def scores_of(score: Score, query: Tensor, keys: Tensor, valid: Tensor) -> Any:
    """Return the scores of query (B, L, Dq) and keys (B, S, Dk), where valid (B, 1, S) may be seen.
    Some scores ask for the step, too: here the first one, with nothing remembered.
    """
    # (B, L, S): every query may see all that is valid
    now = AttentionStep(query, None, None, valid, valid.expand(-1, query.size(1), -1))
    return score(query, score.project(keys), **({"now": now} if score.sees_now else {}))


def _state_results(name: str, state: Any, tensors: int, width: int) -> Results:
    """Yield how many tensors a cell's state has, then each of them; an LSTM's has two, (h, c)."""
    count = f"{len(state)} tensors" if isinstance(state, tuple) else type(state).__name__
    yield name, count, f"{tensors} tensors"
    for index, tensor in enumerate(state):
        yield f"{name}, tensor {index}", tensor, (B, width)
