"""Greedy decoding: the model runs on its own output until its own `<eos>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.batches import encode_strings, make_batch
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import EOS, SOS, Vocabulary
from seq2attn.model.interface import Decoded, Model

ROWS = 1024  # strings decoded together at most
CELLS = 2**24  # source tokens x steps x strings whose weights are kept together at most: 64 MiB
# Source tokens decoded together at most, but for one string: what a step works on is to stay in a processor's cache.
TOKENS_ON_CPU, TOKENS = 2**13, 2**20


@dataclass(frozen=True)
class GreedyDecoding:
    """What a batch of B strings was answered with, T steps at most."""

    tokens: Tensor
    """(B, T) emitted ids; `<eos>` at the end of each row and past it"""
    lengths: Tensor
    """(B,) tokens before the `<eos>`; T where none came"""
    finished: Tensor
    """(B,) True where the model emitted `<eos>`"""
    weights: Tensor | None
    """(B, T, S) attention weights, if asked for and the model has any"""


@torch.no_grad()
def greedy_decode(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    *,
    max_steps: int,
    keep_weights: bool = False,
    watch: Callable[[int, Decoded], None] | None = None,
) -> GreedyDecoding:
    """Emit the likeliest token until each row has emitted `<eos>`, or for `max_steps`.

    source (B, S) ids, right-padded; lengths (B,). `watch` is shown each position, counted from 0, as it comes.
    """
    memory, state = model.encode(source, lengths)
    token = torch.full_like(lengths, SOS)  # (B,)
    finished = torch.zeros_like(lengths, dtype=torch.bool)
    emitted = token.new_full(
        (len(token), max_steps), EOS
    )  # made at once: a piece kept each step would scatter the memory
    weights = []
    for position in range(max_steps):
        decoded, state = model.step(token, state, memory)
        if watch is not None:
            watch(position, decoded)
        token = decoded.logits.squeeze(1).argmax(dim=1).masked_fill(finished, EOS)
        emitted[:, position] = token
        if keep_weights and decoded.weights is not None:
            weights.append(decoded.weights)
        finished = finished | (token == EOS)
        if finished.all():
            emitted = emitted[:, : position + 1]  # (B, T)
            break
    return GreedyDecoding(
        tokens=emitted,
        lengths=(emitted != EOS).int().cumprod(dim=1).sum(dim=1),
        finished=finished,
        weights=torch.cat(weights, dim=1) if weights else None,
    )


@dataclass(frozen=True)
class Prediction:
    """One answered string."""

    source: str
    output: str
    finished: bool
    """False: the model emitted no `<eos>` within the bound on its output"""
    source_symbols: tuple[str, ...] = ()
    """the source's tokens, columns of `weights`; `<eos>` counted where the model sees it"""
    output_symbols: tuple[str, ...] = ()
    """the emitted tokens, rows of `weights`, `<eos>` counted"""
    weights: tuple[tuple[float, ...], ...] | None = None
    """attention: one row an emitted token, one column a source token; None when not asked for, or without attention"""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        record: dict[str, object] = {"source": self.source, "output": self.output, "finished": self.finished}
        if self.weights is not None:
            record["source_symbols"] = list(self.source_symbols)
            record["output_symbols"] = list(self.output_symbols)
            record["weights"] = [[round(weight, 6) for weight in row] for row in self.weights]
        return record


def output_bound(task: Task, length: int) -> int:
    """The steps after which decoding a string of `length` characters gives up: twice the right answer, and 10."""
    return 2 * task.expansion * length + 10


def rows_at_once(device: torch.device, source_length: int, steps: int | None = None) -> int:
    """How many strings of one length are decoded together, so that memory stays bounded; steps: if weights are kept."""
    tokens = TOKENS_ON_CPU if device.type == "cpu" else TOKENS
    kept = ROWS if steps is None else CELLS // (source_length * steps)
    return max(1, min(ROWS, tokens // source_length, kept))


class Predictor:
    """A model with its task and vocabulary: strings in, strings out.

    Strings of one length are answered together and never padded, so an answer does not depend on the other strings.
    """

    def __init__(
        self, model: Model, task: Task, vocabulary: Vocabulary, *, source_eos: bool, device: torch.device
    ) -> None:
        self.model = model.to(device).eval()
        self.task = task
        self.vocabulary = vocabulary
        self.source_eos = source_eos
        self.device = device

    def predict(self, texts: Sequence[str], *, keep_weights: bool = False) -> list[Prediction]:
        """Answer `texts`, in order. The empty string, and one with characters outside the alphabet, are
        `Seq2AttnError`s, before anything is computed.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, text in enumerate(texts):
            self.vocabulary.check(text)
            by_length[len(text)].append(index)
        answers: dict[int, Prediction] = {}
        for length, indices in by_length.items():
            rows = rows_at_once(self.device, length + 1, output_bound(self.task, length) if keep_weights else None)
            for chunk in _chunks(indices, rows):
                answers.update(zip(chunk, self._answer([texts[i] for i in chunk], keep_weights), strict=True))
        return [answers[index] for index in range(len(texts))]

    def solve(self, text: str) -> str:
        """The right answer to one string."""
        strings, lengths = encode_strings(self.vocabulary, [text], torch.device("cpu"))
        target, _ = self.task.solve(strings, lengths)
        return self.vocabulary.decode(target[0].tolist())

    def _answer(self, texts: Sequence[str], keep_weights: bool) -> list[Prediction]:
        """Answer strings of one length."""
        strings, lengths = encode_strings(self.vocabulary, texts, self.device)
        batch = make_batch(self.task, strings, lengths, source_eos=self.source_eos)
        decoding = greedy_decode(
            self.model,
            batch.source,
            batch.source_lengths,
            max_steps=output_bound(self.task, len(texts[0])),
            keep_weights=keep_weights,
        )
        emitted = decoding.tokens.tolist()
        finished = decoding.finished.tolist()
        counts = decoding.lengths.tolist()
        predictions = []
        for row, text in enumerate(texts):
            output = emitted[row][: counts[row]]
            extra: dict[str, object] = {}
            if decoding.weights is not None:
                shown = emitted[row][: counts[row] + finished[row]]
                extra = {
                    "source_symbols": tuple(map(self.vocabulary.symbol, batch.source[row].tolist())),
                    "output_symbols": tuple(map(self.vocabulary.symbol, shown)),
                    "weights": tuple(map(tuple, decoding.weights[row, : len(shown)].tolist())),
                }
            predictions.append(
                Prediction(text, self.vocabulary.decode(output), finished[row], **extra)  # type: ignore[arg-type]
            )
        return predictions


def _chunks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
