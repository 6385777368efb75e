"""Accuracy by input length, teacher-forced and free-running, and attention statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from seq2attn.data.batches import Batch, generator, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.inference.greedy import MAX_WEIGHTS, greedy_decode, rows_at_once
from seq2attn.inference.intervals import share
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.inference.results import SHARES, LengthResult
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
) -> list[LengthResult]:
    """Measure `samples` strings of each family and length.

    The strings depend only on seed, task, family and length: every model is tested on the same ones. Memory does not grow
    with `samples`. `progress` is called after each length of a family. Raises `Seq2AttnError` for a family that the task
    does not have.
    """
    predictor.task.check_families(families)
    results = []
    for family in families:
        for length in lengths:
            results.append(_evaluate_length(predictor, family, length, samples, seed))
            if progress is not None:
                progress()
    return results


def _evaluate_length(predictor: Predictor, family: str, length: int, samples: int, seed: int | str) -> LengthResult:
    totals: dict[str, float] = {}
    for batch in _batches(predictor, family, length, samples, seed):
        for name, per_string in _measure(predictor, batch).items():
            totals[name] = totals.get(name, 0.0) + float(per_string.double().sum())
    means = {name: total / samples for name, total in totals.items()}
    shares = {name: share(min(1.0, means[name]), samples) if name in means else None for name in SHARES}
    trained = predictor.task.is_trained(length)
    entropy = means.get("entropy")
    if entropy is not None and math.isnan(entropy):  # of a model that has diverged
        entropy = None
    return LengthResult(length, samples, trained, **shares, entropy=entropy, family=family)  # type: ignore[arg-type]


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
            yield drawn.rows(start, min(start + rows, count)).to(predictor.device)


def _measure(predictor: Predictor, batch: Batch) -> dict[str, Tensor]:
    """Per string (B,): exact match, and the shares and means over its characters that `LengthResult` names.

    Where the greedy output is right, teacher forcing reads the same characters: only the other strings are decoded again.
    With a beam, whose steps read other hypotheses too, all strings are.
    """
    totals = _Totals(batch)
    steps = batch.decoder_output.size(1)  # of the longest target, with its <eos>: any longer output is wrong
    if predictor.search is None:
        decoding = greedy_decode(predictor.model, batch.source, batch.source_lengths, max_steps=steps, watch=totals.add)
    else:
        longest = output_bound(predictor.task, batch.source.size(1) - predictor.source_eos)
        decoding, _ = predictor.decode(batch.source, batch.source_lengths, max_steps=longest)
    missing = steps - decoding.tokens.size(1)  # below 0, the longer outputs are cut
    tokens = torch.nn.functional.pad(decoding.tokens, (0, missing))  # (B, L); steps not taken are <pad>
    right = tokens == batch.decoder_output
    inside = valid_mask(batch.target_lengths, steps)
    measured = {
        "exact_match": decoding.finished & (right | ~valid_mask(batch.target_lengths + 1, steps)).all(dim=1),
        "character_accuracy": (right & inside).sum(dim=1) / batch.target_lengths,
    }
    wrong = (measured["character_accuracy"] < 1).nonzero().squeeze(1)  # (b,) rows with a wrong character
    if predictor.search is not None:
        return {**measured, **_teacher_forced(predictor.model, batch)}
    forced = totals.means()
    if len(wrong):
        for name, values in _teacher_forced(predictor.model, batch.select(wrong)).items():
            forced[name][wrong] = values
    return {**measured, **forced}


def _teacher_forced(model: Model, batch: Batch) -> dict[str, Tensor]:
    """Per string (B,): the means of `_Totals` with the right previous characters as input."""
    totals = _Totals(batch)
    for position, decoded in enumerate(_decode(model, batch)):
        totals.add(position, decoded)
    return totals.means()


class _Totals:
    """Sums over a string's characters: right ones, those whose largest weight is at the ideal position, and entropy."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.inside = valid_mask(batch.target_lengths, batch.decoder_output.size(1))  # (B, L)
        self.totals: dict[str, Tensor] = {}

    def add(self, first: int, decoded: Decoded) -> None:
        """Output positions first, first + 1, ... of each string."""
        part = slice(first, first + decoded.logits.size(1))
        self._add("teacher_forced", decoded.logits.argmax(dim=2) == self.batch.decoder_output[:, part], part)
        if decoded.weights is not None:
            self._add("entropy", attention_entropy(decoded.weights), part)
            if self.batch.alignment is not None:
                self._add("alignment", decoded.weights.argmax(dim=2) == self.batch.alignment[:, part], part)

    def means(self) -> dict[str, Tensor]:
        """Per string (B,), over its characters."""
        return {name: total / self.batch.target_lengths for name, total in self.totals.items()}

    def _add(self, name: str, values: Tensor, part: slice) -> None:
        self.totals[name] = self.totals.get(name, 0) + (values * self.inside[:, part]).sum(dim=1)


def _decode(model: Model, batch: Batch) -> Iterator[Decoded]:
    """Teacher forcing, all positions at once, or one by one if their weights (B, L, S) would take too much memory."""
    rows, steps = batch.decoder_input.shape
    if rows * steps * batch.source.size(1) <= MAX_WEIGHTS:
        yield model(batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths)
        return
    memory, state = model.encode(batch.source, batch.source_lengths)
    for tokens in batch.decoder_input.unbind(1):  # (B,) each
        decoded, state = model.step(tokens, state, memory)
        yield decoded


def attention_entropy(weights: Tensor) -> Tensor:
    """weights (..., S) -> entropy (...) in nats, 0 ln 0 = 0."""
    return -(weights * weights.clamp(min=TINY).log()).sum(dim=-1)
