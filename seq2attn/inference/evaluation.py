"""Accuracy by input length, teacher-forced and free-running, and what the attention looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from seq2attn.data.batches import Batch, generator, make_batch, random_strings
from seq2attn.inference.intervals import Estimate, share
from seq2attn.inference.predictor import CELLS, Predictor, greedy_decode, rows_at_once
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.masks import valid_mask

TINY = 1e-30
DRAWN = 1000  # strings drawn together


@dataclass(frozen=True)
class LengthResult:
    """What `samples` strings of one length gave. Shares carry 95 % intervals over strings."""

    length: int
    samples: int
    trained: bool
    """whether strings of this length occur in training"""
    exact_match: Estimate
    """greedy, with the model's own `<eos>`: the whole string is right"""
    character_accuracy: Estimate
    """greedy: characters right at their position, of the target's"""
    teacher_forced: Estimate
    """the same with the right previous character given: the accuracy usually published"""
    alignment: Estimate | None
    """share of characters whose largest weight lies on the ideal source position; None without attention"""
    entropy: float | None
    """mean entropy of the attention weights at the target's characters, nats; None without attention"""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


@torch.no_grad()
def evaluate(
    predictor: Predictor,
    lengths: Sequence[int],
    *,
    samples: int,
    seed: int | str,
    is_trained: Callable[[int], bool],
    progress: Callable[[], None] | None = None,
) -> list[LengthResult]:
    """Measure `samples` random strings of each length.

    The strings depend on seed, task and length alone: every model is asked the same. Memory does not grow with
    `samples`. `progress` is called after each length.
    """
    results = []
    for length in lengths:
        results.append(_evaluate_length(predictor, length, samples, seed, is_trained(length)))
        if progress is not None:
            progress()
    return results


def _evaluate_length(predictor: Predictor, length: int, samples: int, seed: int | str, trained: bool) -> LengthResult:
    totals: dict[str, float] = {}
    rows = rows_at_once(predictor.device, length + 1)
    for strings in _questions(length, samples, seed, len(predictor.vocabulary.alphabet)):
        for chunk in torch.split(strings.to(predictor.device), rows):
            lengths = torch.full((len(chunk),), length, device=predictor.device)
            batch = make_batch(predictor.task, chunk, lengths, source_eos=predictor.source_eos)
            for name, per_string in _measure(predictor, batch).items():
                totals[name] = totals.get(name, 0.0) + float(per_string.double().sum())
    means = {name: total / samples for name, total in totals.items()}

    def estimate(name: str) -> Estimate:
        return share(min(1.0, means[name]), samples)

    attends = "alignment" in means
    return LengthResult(
        length=length,
        samples=samples,
        trained=trained,
        exact_match=estimate("exact_match"),
        character_accuracy=estimate("character_accuracy"),
        teacher_forced=estimate("teacher_forced"),
        alignment=estimate("alignment") if attends else None,
        entropy=means["entropy"] if attends else None,
    )


def _questions(length: int, samples: int, seed: int | str, alphabet_size: int) -> Iterator[Tensor]:
    """`samples` strings (B, length), some at a time: more samples begin with the same strings as fewer."""
    for first in range(0, samples, DRAWN):
        random = generator(torch.device("cpu"), seed, "evaluation", length, first)
        strings, _ = random_strings(random, DRAWN, length, length, alphabet_size)
        yield strings[: samples - first]


def _measure(predictor: Predictor, batch: Batch) -> dict[str, Tensor]:
    """Per string (B,): exact match, and the shares and means over its characters that `LengthResult` names.

    A string that the model gets right on its own it reads with the right characters given: it is not decoded again.
    """
    watcher = _Watcher(batch)
    steps = batch.decoder_output.size(1)  # one more than the right answer's characters: any longer answer is wrong
    decoding = greedy_decode(
        predictor.model, batch.source, batch.source_lengths, max_steps=steps, watch=watcher.position
    )
    missing = steps - decoding.tokens.size(1)
    tokens = torch.nn.functional.pad(decoding.tokens, (0, missing))  # (B, L); steps not taken are <pad>
    right = tokens == batch.decoder_output
    inside = valid_mask(batch.target_lengths, steps)
    measured = {
        "exact_match": decoding.finished & (right | ~valid_mask(batch.target_lengths + 1, steps)).all(dim=1),
        "character_accuracy": (right & inside).sum(dim=1) / batch.target_lengths,
    }
    off = (measured["character_accuracy"] < 1).nonzero().squeeze(1)  # (b,) rows that went astray
    forced = watcher.means()
    if len(off):
        for name, values in _teacher_forced(predictor.model, batch.select(off)).items():
            forced[name][off] = values
    return {**measured, **forced}


def _teacher_forced(model: Model, batch: Batch) -> dict[str, Tensor]:
    """Per string (B,): what `_Watcher` sees with the right characters given."""
    watcher = _Watcher(batch)
    for position, decoded in enumerate(_decode(model, batch)):
        watcher.position(position, decoded)
    return watcher.means()


class _Watcher:
    """Sums over a string's characters: those right, those looked up at the right place, entropy of the weights."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.inside = valid_mask(batch.target_lengths, batch.decoder_output.size(1))  # (B, L)
        self.totals: dict[str, Tensor] = {}

    def position(self, first: int, decoded: Decoded) -> None:
        """Output positions first, first + 1, ... of each string."""
        part = slice(first, first + decoded.logits.size(1))
        self._add("teacher_forced", decoded.logits.argmax(dim=2) == self.batch.decoder_output[:, part], part)
        if decoded.weights is not None:
            self._add("alignment", decoded.weights.argmax(dim=2) == self.batch.alignment[:, part], part)
            self._add("entropy", attention_entropy(decoded.weights), part)

    def means(self) -> dict[str, Tensor]:
        """Per string (B,), over its characters."""
        return {name: total / self.batch.target_lengths for name, total in self.totals.items()}

    def _add(self, name: str, values: Tensor, part: slice) -> None:
        total = (values * self.inside[:, part]).sum(dim=1)
        if name in self.totals:
            self.totals[name] += total
        else:
            self.totals[name] = total


def _decode(model: Model, batch: Batch) -> Iterator[Decoded]:
    """Teacher forcing, all positions at once; one after another where their weights (B, L, S) would take too much memory."""
    rows, steps = batch.decoder_input.shape
    if rows * steps * batch.source.size(1) <= CELLS:
        yield model(batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths)
        return
    memory, state = model.encode(batch.source, batch.source_lengths)
    for tokens in batch.decoder_input.unbind(1):  # (B,) each
        decoded, state = model.step(tokens, state, memory)
        yield decoded


def attention_entropy(weights: Tensor) -> Tensor:
    """weights (..., S) -> entropy (...) in nats, 0 ln 0 = 0."""
    return -(weights * weights.clamp(min=TINY).log()).sum(dim=-1)
