"""Word and symbol error rates on pairs of strings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
import torch.nn.functional as F

from seq2attn.data.batches import make_batch
from seq2attn.data.pairs import Pair
from seq2attn.data.vocabulary import PAD
from seq2attn.inference.edits import edit_distance
from seq2attn.inference.evaluation import attention_entropy
from seq2attn.inference.greedy import rows_at_once
from seq2attn.inference.intervals import Estimate, share
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import LengthResult


@dataclass(frozen=True)
class PairsResult:
    """Results on pairs of strings under greedy decoding."""

    wer: Estimate
    """word error rate: the share of sources whose answer is not exactly right; 95 % interval over pairs"""
    ser: float
    """symbol error rate: all edits / all symbols of the right answers"""
    loss: float
    """cross-entropy under teacher forcing, nats per symbol, `<eos>` counted"""
    lengths: list[LengthResult]
    """by source length"""

    def summary(self) -> dict[str, float]:
        """What metrics.jsonl and status.json record."""
        return {"wer": self.wer.value, "ser": self.ser, "dev_loss": self.loss}


@dataclass(frozen=True)
class _Measured:
    """One pair."""

    right: bool
    edits: int
    symbols: int
    """of the right answer"""
    in_place: float
    """share of the right answer's symbols that are at their position"""
    loss: float
    """summed over the symbols and `<eos>`"""
    forced: float
    """share of symbols that are right under teacher forcing"""
    entropy: float | None


def measure_pairs(predictor: Predictor, pairs: Sequence[Pair]) -> PairsResult:
    """Measure the model of `predictor` on `pairs`, at least one."""
    by_length: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_length[len(predictor.task.source_vocabulary.encode(pair[0]))].append(pair)
    measured = {length: _measure(predictor, length, by_length[length]) for length in sorted(by_length)}
    every = [one for rows in measured.values() for one in rows]
    return PairsResult(
        wer=share(1 - fmean(one.right for one in every), len(every)),
        ser=sum(one.edits for one in every) / sum(one.symbols for one in every),
        loss=sum(one.loss for one in every) / sum(one.symbols + 1 for one in every),
        lengths=[_summarised(length, predictor.task.is_trained(length), rows) for length, rows in measured.items()],
    )


def _summarised(length: int, trained: bool, rows: Sequence[_Measured]) -> LengthResult:
    def estimate(values: Sequence[float]) -> Estimate:
        return share(min(1.0, fmean(values)), len(rows))

    entropies = [one.entropy for one in rows if one.entropy is not None]
    return LengthResult(
        length,
        len(rows),
        trained,
        exact_match=estimate([one.right for one in rows]),
        character_accuracy=estimate([one.in_place for one in rows]),
        teacher_forced=estimate([one.forced for one in rows]),
        alignment=None,
        entropy=fmean(entropies) if entropies else None,
    )


def _measure(predictor: Predictor, length: int, pairs: Sequence[Pair]) -> list[_Measured]:
    """Each of `pairs`, whose sources have `length` symbols."""
    rows = rows_at_once(predictor.device, length + 1, width=predictor.width)
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
    inside = torch.arange(targets.size(1), device=targets.device) < batch.target_lengths.unsqueeze(1)
    forced = ((decoded.logits.argmax(2) == targets) & inside).sum(1) / batch.target_lengths
    entropies = [None] * len(pairs)
    if decoded.weights is not None:
        entropies = (attention_entropy(decoded.weights) * inside).sum(1).div(batch.target_lengths).tolist()
    vocabulary = predictor.task.target_vocabulary
    measured = []
    numbers = zip(pairs, predictions, losses.tolist(), forced.tolist(), entropies, strict=True)
    for (_, target), prediction, loss, share_forced, entropy in numbers:
        wanted, found = vocabulary.symbols_of(target), prediction.output_symbols
        found = found[: len(found) - prediction.finished]
        edits = edit_distance(wanted, found) if found != wanted else 0
        in_place = sum(one == other for one, other in zip(wanted, found, strict=False)) / len(wanted)
        right = not edits and prediction.finished
        measured.append(_Measured(right, edits, len(wanted), in_place, loss, share_forced, entropy))
    return measured
