"""Measures a model on pairs of strings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
import torch.nn.functional as F

from seq2attn.data.batches import make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.pairs import Pair
from seq2attn.data.vocabulary import PAD
from seq2attn.inference.edits import align
from seq2attn.inference.evaluation import attention_entropy
from seq2attn.inference.greedy import rows_at_once
from seq2attn.inference.intervals import Estimate, share
from seq2attn.inference.pair_results import PairAnswer, PairsResult
from seq2attn.inference.predictor import Prediction, Predictor
from seq2attn.inference.results import LengthResult


@dataclass(frozen=True)
class _Measured:
    """One pair."""

    answer: PairAnswer
    in_place: float
    """share of the right answer's symbols that are at their position"""
    loss: float
    """summed over the steps"""
    steps: int
    """symbols, or their characters with `task.split_targets`, and `<eos>`"""
    forced: float
    """share of symbols that are right under teacher forcing"""
    entropy: float | None


def measure_pairs(predictor: Predictor, pairs: Sequence[Pair]) -> PairsResult:
    """Measure the model of `predictor`, with its search, on `pairs`, at least one.

    A source with several right answers is one word: the right answer closest to the model's counts.
    """
    vocabulary = predictor.task.source_vocabulary
    by_length: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_length[len(vocabulary.encode(pair[0]))].append(pair)
    words: dict[str, list[_Measured]] = {source: [] for source, _ in pairs}
    for length in sorted(by_length):
        for one in _measure(predictor, length, by_length[length]):
            words[one.answer.source].append(one)
    closest = [min(found, key=lambda one: len(one.answer.edits)) for found in words.values()]
    every = [one for found in words.values() for one in found]
    at_length: dict[int, list[_Measured]] = defaultdict(list)
    for one in closest:
        at_length[one.answer.source_length].append(one)
    return PairsResult(
        answers=tuple(one.answer for one in closest),
        loss=sum(one.loss for one in every) / sum(one.steps for one in every),
        lengths=[
            _summarised(length, predictor.task.is_trained(length), at_length[length]) for length in sorted(at_length)
        ],
    )


def _summarised(length: int, trained: bool, rows: Sequence[_Measured]) -> LengthResult:
    def estimate(values: Sequence[float]) -> Estimate:
        return share(min(1.0, fmean(values)), len(rows))

    entropies = [one.entropy for one in rows if one.entropy is not None]
    return LengthResult(
        length,
        len(rows),
        trained,
        exact_match=estimate([one.answer.is_right for one in rows]),
        character_accuracy=estimate([one.in_place for one in rows]),
        teacher_forced=estimate([one.forced for one in rows]),
        alignment=None,
        entropy=fmean(entropies) if entropies else None,
    )


def _measure(predictor: Predictor, length: int, pairs: Sequence[Pair]) -> list[_Measured]:
    """Each of `pairs`, whose sources have `length` symbols."""
    rows = rows_at_once(predictor.model, predictor.device, length + 1, width=predictor.width)
    chunks = [pairs[start : start + rows] for start in range(0, len(pairs), rows)]
    return [one for chunk in chunks for one in _measure_chunk(predictor, chunk)]


@torch.no_grad()
def _measure_chunk(predictor: Predictor, pairs: Sequence[Pair]) -> list[_Measured]:
    predictions = predictor.predict([source for source, _ in pairs])
    examples = predictor.task.encode(pairs, predictor.device)
    batch = make_batch(examples, source_eos=predictor.source_eos)
    decoded = predictor.model(batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths)
    targets, real = batch.decoder_output, batch.decoder_output != PAD  # (B, L)
    losses = F.cross_entropy(decoded.logits.transpose(1, 2), targets, reduction="none").masked_fill(~real, 0).sum(1)
    inside = valid_mask(batch.target_lengths, targets.size(1))
    forced = ((decoded.logits.argmax(2) == targets) & inside).sum(1) / batch.target_lengths
    entropies = [None] * len(pairs)
    if decoded.weights is not None:
        entropies = (attention_entropy(decoded.weights) * inside).sum(1).div(batch.target_lengths).tolist()
    numbers = zip(pairs, predictions, losses.tolist(), forced.tolist(), entropies, strict=True)
    return [
        _compared(predictor, pair, prediction, loss, right, entropy)
        for pair, prediction, loss, right, entropy in numbers
    ]


def _compared(
    predictor: Predictor, pair: Pair, prediction: Prediction, loss: float, forced: float, entropy: float | None
) -> _Measured:
    """A pair beside its prediction."""
    source, target = pair
    read, write = predictor.task.source_vocabulary, predictor.task.target_vocabulary
    written = prediction.output_symbols[: len(prediction.output_symbols) - prediction.finished]  # without its <eos>
    right = write.symbols_of(target)
    wanted, found = write.joined(right), write.joined(written)
    symbols, unseen = read.symbols_of(source), set(read.unseen(source))
    answer = PairAnswer(
        source,
        right=target,
        answer=prediction.output,
        source_length=len(symbols),
        right_length=len(wanted),
        edits=tuple(edit for edit in align(wanted, found) if edit.is_error) if found != wanted else (),
        finished=prediction.finished,
        unseen=sum(symbol in unseen for symbol in symbols),
        reachable=not write.unseen(target),
    )
    in_place = sum(one == other for one, other in zip(wanted, found, strict=False)) / len(wanted)
    return _Measured(answer, in_place, loss, len(right) + 1, forced, entropy)
