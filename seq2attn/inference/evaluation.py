"""Measures a model by string length on strings that its task draws, or on the pairs of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batches import Batch, generator, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.pairs import Pair
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD
from seq2attn.inference.decoding import MAX_WEIGHTS, Decoding, rows_at_once
from seq2attn.inference.edits import align
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.results import SHARES, Evaluation, PairAnswer, Row, rows_of
from seq2attn.inference.statistics import Estimate, bootstrap_ratio, share
from seq2attn.model.interface import Decoded, Model
from seq2attn.parts import RANDOM

TINY = 1e-30
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
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure `samples` strings of each family and length.

    The strings depend only on seed, task, family and length: every model is tested on the same ones. Memory does not grow
    with `samples`. `progress` is called after each length of a family. Raises `Seq2AttnError` for a family that the task
    does not have.
    """
    predictor.task.check_families(families)
    rows: list[Row] = []
    for family in families:
        for length in lengths:
            totals: dict[str, float] = defaultdict(float)
            for batch in _batches(predictor, family, length, samples, seed):
                for name, values in _measure(predictor, batch)[1].items():
                    totals[name] += float(values.double().sum())
            rows += _rows({name: total / samples for name, total in totals.items()}, samples, length, predictor, family)
            if progress is not None:
                progress()
    return Evaluation(tuple(rows))


@torch.no_grad()
def evaluate_pairs(predictor: Predictor, pairs: Sequence[Pair], *, resamples: int = 2000) -> Evaluation:
    """Measure the model on pairs, at least one, by word and symbol error rate and by source length.

    A source with several right answers is one word: the right answer closest to the model's counts. resamples: of each
    bootstrap interval; 0: without them.
    """
    task, by_length = predictor.task, defaultdict(list)
    for pair in pairs:
        by_length[len(task.source_vocabulary.encode(pair[0]))].append(pair)
    words: dict[str, list[tuple[PairAnswer, dict[str, float]]]] = {source: [] for source, _ in pairs}
    loss = steps = 0.0
    for length, equally_long in sorted(by_length.items()):
        at_once = rows_at_once(predictor.model, predictor.device, length + 1, width=predictor.width)
        for start in range(0, len(equally_long), at_once):
            chunk = equally_long[start : start + at_once]
            batch = make_batch(task.encode(chunk, predictor.device), source_eos=predictor.source_eos)
            decoding, measured = _measure(predictor, batch, to_the_end=True)
            loss, steps = loss + float(measured["loss"].double().sum()), steps + int(batch.decoder_lengths.sum())
            columns = {name: values.tolist() for name, values in measured.items()}
            for row, pair in enumerate(chunk):
                answer, in_place = _answer(task, pair, decoding, row)
                numbers = {name: values[row] for name, values in columns.items()}
                numbers |= {"exact_match": float(answer.is_right), "character_accuracy": in_place}
                words[pair[0]].append((answer, numbers))
    closest = [min(candidates, key=lambda candidate: len(candidate[0].edits)) for candidates in words.values()]
    answers = [answer for answer, _ in closest]
    rows = [*rows_of(_rates(answers, loss / steps, resamples), len(answers), length=None, trained=True)]
    for length in sorted({answer.source_length for answer in answers}):
        at_length = [numbers for answer, numbers in closest if answer.source_length == length]
        means = {name: fmean(numbers[name] for numbers in at_length) for name in at_length[0]}
        rows += _rows(means, len(at_length), length, predictor)
    return Evaluation(tuple(rows), tuple(answers))


def _rows(
    means: dict[str, float], count: int, length: int, predictor: Predictor, family: str = RANDOM
) -> Iterator[Row]:
    measured = {
        name: share(min(1.0, mean), count) if name in SHARES else mean for name, mean in means.items() if name != "loss"
    }
    return rows_of(measured, count, length=length, trained=predictor.task.is_trained(length), family=family)


def _rates(answers: Sequence[PairAnswer], loss: float, resamples: int) -> dict[str, Estimate | float]:
    def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate | float:
        return bootstrap_ratio(above, below, seed=0, resamples=resamples) if resamples else sum(above) / sum(below)

    count = len(answers)
    return {
        "wer": share(sum(not answer.is_right for answer in answers) / count, count),
        "ser": ratio([len(answer.edits) for answer in answers], [answer.right_length for answer in answers]),
        "loss": loss,
        "unseen": ratio([answer.unseen for answer in answers], [answer.source_length for answer in answers]),
        "unreachable": share(sum(not answer.reachable for answer in answers) / count, count),
    }


def _batches(predictor: Predictor, family: str, length: int, samples: int, seed: int | str) -> Iterator[Batch]:
    """`samples` examples of one family and length, in blocks; a larger sample begins with a smaller one's examples."""
    rows = rows_at_once(predictor.model, predictor.device, length + 1, width=predictor.width)
    block = max(1, min(BLOCK, CELLS // length))
    for first in range(0, samples, block):
        key = (length, first) if family == RANDOM else (family, length, first)
        random = generator(torch.device("cpu"), seed, "evaluation", *key)
        drawn = make_batch(predictor.task.family(family, random, block, length), source_eos=predictor.source_eos)
        count = min(block, samples - first)
        for start in range(0, count, rows):
            yield drawn.select(slice(start, min(start + rows, count))).to(predictor.device)


def _measure(predictor: Predictor, batch: Batch, *, to_the_end: bool = False) -> tuple[Decoding, dict[str, Tensor]]:
    """The outputs, and per string (B,) what `Row` names: means over its characters, and the sum of its losses.

    Unless `to_the_end`, a greedy output may be cut off after the steps of the longest target: it is wrong by then. Where
    the greedy output is right, teacher forcing reads the same characters: only the other strings are decoded again.
    """
    steps = batch.decoder_output.size(1)  # of the longest target, with its <eos>
    bound = output_bound(predictor.task, batch.source.size(1) - predictor.source_eos)
    forced, greedy = _Forced(batch), predictor.search is None
    bound = steps if greedy and not to_the_end else bound
    decoding, _ = predictor.decode(batch.source, batch.source_lengths, max_steps=bound, watch=forced.add)
    tokens = F.pad(decoding.tokens, (0, steps - decoding.tokens.size(1)), value=PAD)  # (B, L); longer outputs are cut
    right = tokens == batch.decoder_output
    inside = valid_mask(batch.target_lengths, steps)
    correct = (right & inside).sum(dim=1) / batch.target_lengths
    again = (correct < 1).nonzero().squeeze(1) if greedy else torch.arange(len(correct), device=correct.device)  # (b,)
    measured = forced.means() if greedy else {}
    if len(again):
        others = _Forced(batch.select(again))
        for decoded in _forced(predictor.model, others.batch):
            others.add(decoded)
        for name, values in others.means().items():
            measured.setdefault(name, torch.zeros_like(correct))[again] = values
    exact = decoding.finished & (right | ~valid_mask(batch.decoder_lengths, steps)).all(dim=1)
    return decoding, {"exact_match": exact, "character_accuracy": correct, **measured}


class _Forced:
    """Sums per string (B,) over what the decoder returns position by position, with the right characters as input."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self.position = batch, 0
        self.totals: dict[str, Tensor] = {}

    def add(self, decoded: Decoded) -> None:
        """The next output positions; those past the longest target are not counted."""
        part = slice(self.position, self.position + decoded.logits.size(1))
        self.position = part.stop
        targets = self.batch.decoder_output[:, part]  # (B, l)
        if not targets.size(1):
            return
        inside = valid_mask(self.batch.target_lengths, self.batch.decoder_output.size(1))[:, part]
        losses = F.cross_entropy(decoded.logits.transpose(1, 2), targets, reduction="none")
        values = {"loss": losses * (targets != PAD), "teacher_forced": (decoded.logits.argmax(2) == targets) & inside}
        if decoded.weights is not None:
            if self.batch.alignment is not None:
                values["alignment"] = (decoded.weights.argmax(dim=2) == self.batch.alignment[:, part]) & inside
            values["entropy"] = attention_entropy(decoded.weights) * inside
        for name, value in values.items():
            self.totals[name] = self.totals.get(name, 0) + value.sum(dim=1)

    def means(self) -> dict[str, Tensor]:
        """Over each string's characters; of the losses the sum."""
        lengths = self.batch.target_lengths
        return {name: total if name == "loss" else total / lengths for name, total in self.totals.items()}


def _forced(model: Model, batch: Batch) -> Iterator[Decoded]:
    """Teacher forcing, all positions at once, or one by one if their weights (B, L, S) would take too much memory."""
    rows, steps = batch.decoder_input.shape
    if rows * steps * batch.source.size(1) <= MAX_WEIGHTS:
        yield model(batch)
        return
    memory, state = model.encode(batch.source, batch.source_lengths)
    for tokens in batch.decoder_input.unbind(1):  # (B,) each
        decoded, state = model.step(tokens, state, memory)
        yield decoded


def attention_entropy(weights: Tensor) -> Tensor:
    """weights (..., S) -> entropy (...) in nats, 0 ln 0 = 0."""
    return -(weights * weights.clamp(min=TINY).log()).sum(dim=-1)


def _answer(task: Task, pair: Pair, decoding: Decoding, row: int) -> tuple[PairAnswer, float]:
    """A pair beside the output of its row, and the share of the right answer's symbols that are at their position."""
    source, target = pair
    read, write = task.source_vocabulary, task.target_vocabulary
    tokens = decoding.tokens[row, : int(decoding.lengths[row])].tolist()  # without <eos>
    wanted, written = write.joined(write.symbols_of(target)), write.joined([write.symbol(token) for token in tokens])
    symbols, unseen = read.symbols_of(source), set(read.unseen(source))
    answer = PairAnswer(
        source,
        right=target,
        answer=write.decode(tokens),
        source_length=len(symbols),
        right_length=len(wanted),
        edits=tuple(edit for edit in align(wanted, written) if edit.is_error) if written != wanted else (),
        finished=bool(decoding.finished[row]),
        unseen=sum(symbol in unseen for symbol in symbols),
        reachable=not write.unseen(target),
    )
    return answer, sum(map(str.__eq__, wanted, written)) / len(wanted)
