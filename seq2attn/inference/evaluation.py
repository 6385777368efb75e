"""Measures a model by string length on strings that its task draws, or on the pairs of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batches import Batch, generator, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.pairs import Pair
from seq2attn.data.vocabulary import PAD
from seq2attn.inference.decoding import Decoding
from seq2attn.inference.edits import align
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation, PairAnswer, Row, rows_of
from seq2attn.inference.statistics import Estimate, bootstrap
from seq2attn.model.interface import Decoded
from seq2attn.model.points import hooked_points, is_hooked
from seq2attn.parts import RANDOM

MAX_WEIGHTS = 2**24  # attention weights kept together: 64 MiB
BLOCK = 1000  # examples drawn together at most
CELLS = 2**20  # characters of their sources at most, except for a single example


@torch.no_grad()
def evaluate(
    predictor: Predictor,
    lengths: Sequence[int],
    *,
    samples: int,
    seed: int | str,
    families: Sequence[str] = (RANDOM,),
    errors: bool = False,
    watch: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure `samples` strings of each family and length.

    The strings depend only on seed, task, family and length: every model is tested on the same
    ones. Memory does not grow with `samples`, unless the wrong answers, `errors`, are kept. `watch`
    is called after each length of a family. Raises `Seq2AttnError` for a family that the task does
    not have.
    """
    predictor.task.check_evaluation(families, ())
    rows: list[Row] = []
    wrong: list[PairAnswer] = []
    for family, length in product(families, lengths):
        totals: dict[str, float] = defaultdict(float)
        for batch in _batches(predictor, family, length, samples, seed):
            measured = _measure(predictor, batch)
            for name, values in measured.items():
                totals[name] += float(values.double().sum())
            if errors and not measured["exact_match"].all():
                wrong += _answers(predictor, batch.select(~measured["exact_match"]))
        means = {name: total / samples for name, total in totals.items() if name != "loss"}
        rows += rows_of(
            means, samples, length=length, trained=predictor.task.is_trained(length), family=family
        )
        if watch is not None:
            watch()
    return Evaluation(tuple(rows), tuple(wrong))


@torch.no_grad()
def evaluate_pairs(predictor: Predictor, pairs: Sequence[Pair]) -> Evaluation:
    """Measure the model on pairs, at least one, by word and symbol error rate and by source length.

    A source with several right answers is one word: the right answer closest to the model's counts.
    """
    task = predictor.task
    words: dict[str, list[tuple[PairAnswer, dict[str, float]]]] = {
        source: [] for source, _ in pairs
    }
    loss = steps = 0.0
    for indices in predictor.decoded_together(
        [len(task.source_vocabulary.encode(source)) for source, _ in pairs]
    ):
        chunk = [pairs[index] for index in indices]
        batch = predictor.padded(
            make_batch(task.encode(chunk, predictor.device), source_eos=predictor.source_eos)
        )
        decoding = predictor.decode(batch.source, batch.source_lengths).best()
        measured = _measure(predictor, batch, decoding.tokens)
        loss += float(measured.pop("loss").double().sum())
        steps += int(batch.decoder_lengths.sum())
        columns = {name: values.tolist() for name, values in measured.items()}
        for row, pair in enumerate(chunk):
            answer = _answer(predictor, pair, decoding, row)
            numbers = {name: values[row] for name, values in columns.items()}
            words[pair[0]].append((answer, {**numbers, "exact_match": float(answer.is_right)}))
    closest = [
        min(candidates, key=lambda candidate: len(candidate[0].edits))
        for candidates in words.values()
    ]
    answers = [answer for answer, _ in closest]
    rows = [
        *rows_of(
            error_rates(answers) | {"loss": loss / steps}, len(answers), length=None, trained=True
        )
    ]
    for length in sorted({answer.source_length for answer in answers}):
        at_length = [numbers for answer, numbers in closest if answer.source_length == length]
        means = {name: fmean(numbers[name] for numbers in at_length) for name in at_length[0]}
        rows += rows_of(means, len(at_length), length=length, trained=task.is_trained(length))
    return Evaluation(tuple(rows), tuple(answers))


def error_rates(answers: Sequence[PairAnswer]) -> dict[str, Estimate | float]:
    """Word and symbol error rate, as `Row` defines them."""
    edits, symbols = np.array([(len(answer.edits), answer.right_length) for answer in answers]).T
    return {
        "wer": fmean(not answer.is_right for answer in answers),
        "ser": bootstrap(
            lambda words: float(edits[words].sum() / symbols[words].sum()), len(answers), seed=0
        ),
    }


def _batches(
    predictor: Predictor, family: str, length: int, samples: int, seed: int | str
) -> Iterator[Batch]:
    """`samples` examples of one family and length, in blocks; a larger sample begins with a smaller
    one's examples.
    """
    rows = predictor.rows_at_once(length)
    block = max(1, min(BLOCK, CELLS // length))
    for first in range(0, samples, block):
        key = (length, first) if family == RANDOM else (family, length, first)
        random = generator("cpu", seed, "evaluation", *key)
        drawn = make_batch(
            predictor.task.family(family, random, block, length), source_eos=predictor.source_eos
        )
        count = min(block, samples - first)
        for start in range(0, count, rows):
            yield predictor.padded(
                drawn.select(slice(start, min(start + rows, count))).to(predictor.device)
            )


def _measure(predictor: Predictor, batch: Batch, tokens: Tensor | None = None) -> dict[str, Tensor]:
    """Per string (B,) what `Row` names: means over its characters, and the sum of its losses.
    tokens (B, T): the outputs.
    """
    forced = _forced(predictor, batch)
    mistakes = forced.pop("mistakes")
    if tokens is None:
        tokens = _outputs(predictor, batch, mistakes)
    steps = batch.decoder_output.size(1)  # of the longest target, with its <eos>
    tokens = F.pad(tokens, (0, steps - tokens.size(1)), value=PAD)  # (B, L); longer outputs are cut
    right = tokens == batch.decoder_output
    exact = (right | ~valid_mask(batch.decoder_lengths, steps)).all(dim=1)  # with the <eos>
    right = right & valid_mask(batch.target_lengths, steps)
    shares = {"character_accuracy": right, "correct_prefix": right.cumprod(dim=1)}
    means = {name: one.sum(dim=1) / batch.target_lengths for name, one in shares.items()}
    return {"exact_match": exact, **means, **forced}


def _outputs(predictor: Predictor, batch: Batch, mistakes: Tensor) -> Tensor:
    """The outputs (B, T). A greedy one may be cut off after the steps of the longest target: it is
    wrong by then.

    A model that makes no mistakes (B,) when it is given the right characters writes them when it
    reads its own output greedily, so that only the others are decoded; with changes, all are.
    """
    if predictor.search is not None:
        return predictor.decode(batch.source, batch.source_lengths).best().tokens
    changed = predictor.changes.of_model or is_hooked(predictor.model)
    tokens, rows = batch.decoder_output.clone(), (mistakes > 0) | changed
    if rows.any():
        asked, most = batch.select(rows), tokens.size(1)
        decoded = predictor.decode(asked.source, asked.source_lengths, max_steps=most).tokens
        tokens[rows] = F.pad(decoded, (0, most - decoded.size(1)), value=PAD)
    return tokens


def _forced(predictor: Predictor, batch: Batch) -> dict[str, Tensor]:
    """The same with the right characters as input, and the number of mistakes, of which one may be
    the `<eos>`.
    """
    inside = valid_mask(batch.target_lengths, batch.decoder_output.size(1))
    totals: dict[str, Tensor] = {}
    for part, decoded in _teacher_forcing(predictor, batch):
        targets, counted = batch.decoder_output[:, part], inside[:, part]  # (B, l)
        losses = F.cross_entropy(decoded.logits.transpose(1, 2), targets, reduction="none")
        right = decoded.logits.argmax(dim=2) == targets
        values = {
            "loss": losses * (targets != PAD),
            "mistakes": ~right & (targets != PAD),
            "teacher_forced": right & counted,
        }
        if decoded.weights is not None:
            if batch.alignment is not None:
                values["alignment"] = (
                    decoded.weights.argmax(dim=2) == batch.alignment[:, part]
                ) & counted
            values["entropy"] = attention_entropy(decoded.weights) * counted
        for name, value in values.items():
            totals[name] = totals.get(name, 0) + value.sum(dim=1)
    sums = {"loss", "mistakes"}
    return {
        name: total if name in sums else total / batch.target_lengths
        for name, total in totals.items()
    }


def _teacher_forcing(predictor: Predictor, batch: Batch) -> Iterator[tuple[slice, Decoded]]:
    """Positions, and the model's output there: all at once, or one by one if the weights (B, L, S)
    would not fit.
    """
    model, (rows, steps) = predictor.model, batch.decoder_input.shape
    hooks = predictor.changes.hooks(model, batch.source, batch.source_lengths)
    if rows * steps * batch.source.size(1) <= MAX_WEIGHTS:
        with hooked_points(hooks):
            decoded = model(batch)
        yield slice(0, steps), decoded
        return
    with hooked_points(hooks):
        memory, state = model.encode(batch.source, batch.source_lengths)
    for position, tokens in enumerate(batch.decoder_input.unbind(1)):  # (B,) each
        with hooked_points(hooks):
            decoded, state = model.step(tokens, state, memory)
        yield slice(position, position + 1), decoded


def attention_entropy(weights: Tensor) -> Tensor:
    """weights (..., S) -> entropy (...) in nats, 0 ln 0 = 0."""
    return torch.special.entr(weights).sum(dim=-1)


def _answers(predictor: Predictor, batch: Batch) -> Iterator[PairAnswer]:
    """The answers to sources of one length."""
    read, write = predictor.task.source_vocabulary, predictor.task.target_vocabulary
    decoding = predictor.decode(batch.source, batch.source_lengths).best()
    sources = batch.source[:, : int(batch.source_lengths[0]) - predictor.source_eos].tolist()
    columns = zip(
        sources, batch.decoder_output.tolist(), batch.target_lengths.tolist(), strict=True
    )
    for row, (source, target, length) in enumerate(columns):
        yield _answer(
            predictor, (read.decode(source), write.decode(target[:length])), decoding, row
        )


def _answer(predictor: Predictor, pair: Pair, decoding: Decoding, row: int) -> PairAnswer:
    """A pair beside the output of its row."""
    source, target = pair
    task, write = predictor.task, predictor.task.target_vocabulary
    tokens = decoding.tokens[row, : int(decoding.lengths[row])].tolist()  # without <eos>
    symbols = predictor.written(
        source, tokens, None if decoding.weights is None else decoding.weights[row]
    )
    wanted, written = write.joined(write.symbols_of(target)), write.joined(symbols)
    return PairAnswer(
        source,
        right=target,
        answer=write.text(symbols),
        source_length=len(task.source_vocabulary.symbols_of(source)),
        right_length=len(wanted),
        edits=tuple(edit for edit in align(wanted, written) if edit.is_error)
        if written != wanted
        else (),
        finished=bool(decoding.finished[row]),
    )
