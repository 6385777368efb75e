"""A trained model as a function from strings to strings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batches import read_sources
from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.beam import BeamDecoding, BeamSearch, beam_decode
from seq2attn.inference.changes import Changes
from seq2attn.inference.greedy import Decoding, greedy_decode, rows_at_once
from seq2attn.inference.maps import AttentionMap
from seq2attn.model.interface import Model

BLOCK = 2**16  # characters that `predict_blocks` decodes together
LONGEST_WITH_WEIGHTS = 1000  # characters of a text whose attention it keeps: the map grows with the square
MAX_WEIGHTS = 2**21  # attention weights that it keeps together


@dataclass(frozen=True)
class Hypothesis:
    """One of the outputs that beam search found for a string."""

    output: str
    log_probability: float
    """nats, natural logarithm of the probability of the whole output with its `<eos>`"""
    score: float
    """what hypotheses are ranked by: the log-probability after the length penalty"""
    finished: bool
    """False if it was cut off before an `<eos>`"""


@dataclass(frozen=True)
class Prediction:
    """The model's output for one string."""

    source: str
    output: str
    finished: bool
    """False if the model emitted no `<eos>` within the maximum number of steps"""
    source_symbols: tuple[str, ...] = ()
    """the source's tokens as the model reads them, columns of `weights`, including `<eos>` if the model reads it"""
    output_symbols: tuple[str, ...] = ()
    """the emitted tokens, rows of `weights`, including `<eos>`"""
    weights: tuple[tuple[float, ...], ...] | None = None
    """attention: one row per emitted token, one column per source token; None if not requested, or without attention"""
    hypotheses: tuple[Hypothesis, ...] = ()
    """what beam search found, best first: the first is the output; empty under greedy decoding"""

    def attention_map(self, ideal: Sequence[int] = ()) -> AttentionMap | None:
        """The weights as a map, with the ideal alignment if it is known; None without weights."""
        if self.weights is None:
            return None
        return AttentionMap(
            self.source, self.output, self.source_symbols, self.output_symbols, self.weights, tuple(ideal)
        )

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        record: dict[str, object] = {"source": self.source, "output": self.output, "finished": self.finished}
        if self.hypotheses:
            record["hypotheses"] = [asdict(one) for one in self.hypotheses]
        if self.weights is not None:
            record["source_symbols"] = list(self.source_symbols)
            record["output_symbols"] = list(self.output_symbols)
            record["weights"] = [[round(weight, 6) for weight in row] for row in self.weights]
        return record


def output_bound(task: Task, length: int) -> int:
    """Maximum number of decoding steps for a source of `length` symbols: twice the longest target, plus 10."""
    return 2 * task.target_length(length) + 10


class Predictor:
    """A model with its task: strings in, strings out.

    Strings of one length are decoded together, without padding, so an output does not depend on the other strings.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        *,
        source_eos: bool,
        device: torch.device,
        search: BeamSearch | None = None,
    ) -> None:
        """search: how to search; None: greedy decoding."""
        self.model = model.to(device).eval()
        self.task = task
        self.source_eos = source_eos
        self.device = device
        self.search = search

    def predict(
        self, texts: Sequence[str], *, keep_weights: bool = False, changes: Changes | None = None
    ) -> list[Prediction]:
        """Predictions for `texts`, in order. Raises first if one is empty or has characters outside the alphabet.

        changes: made while each of the texts is decoded, greedily; weights are then kept. Raises
            `Seq2AttnError` if they do not fit the text.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        texts = [self.task.source_vocabulary.check(text) for text in texts]
        for index, text in enumerate(texts):
            by_length[len(self.task.source_vocabulary.encode(text))].append(index)
        predictions: dict[int, Prediction] = {}
        for length, indices in by_length.items():
            steps = output_bound(self.task, length)
            rows = rows_at_once(self.model, self.device, length + 1, steps if keep_weights else None, width=self.width)
            for start in range(0, len(indices), rows):
                chunk = indices[start : start + rows]
                predicted = self._predict_equally_long([texts[index] for index in chunk], length, keep_weights, changes)
                predictions.update(zip(chunk, predicted, strict=True))
        return [predictions[index] for index in range(len(texts))]

    @property
    def width(self) -> int:
        """Hypotheses decoded together for each source."""
        return 1 if self.search is None else self.search.width

    def decode(
        self,
        source: Tensor,
        lengths: Tensor,
        *,
        max_steps: int,
        keep_weights: bool = False,
        changes: Changes | None = None,
    ) -> tuple[Decoding, BeamDecoding | None]:
        """The output for source (B, S), as the encoder reads it, lengths (B,); with a beam search also all that it found."""
        if changes is not None:
            if self.search is not None:
                raise Seq2AttnError("changes need greedy decoding, not a beam search")
            return self._decode_changed(source, lengths, changes, max_steps), None
        if self.search is None:
            found = greedy_decode(self.model, source, lengths, max_steps=max_steps, keep_weights=keep_weights)
            return found, None
        beam = beam_decode(self.model, source, lengths, self.search, max_steps=max_steps, keep_weights=keep_weights)
        return beam.best(), beam

    def _decode_changed(self, source: Tensor, lengths: Tensor, changes: Changes, max_steps: int) -> Decoding:
        vocabulary, width, dtype = self.task.target_vocabulary, source.size(1), next(self.model.parameters()).dtype
        changes.check(width, vocabulary)
        decoding = greedy_decode(
            self.model,
            source,
            lengths,
            max_steps=max_steps,
            keep_weights=True,
            intervene=lambda step: changes.at(step, lengths, width, dtype),
            write=changes.written(vocabulary),
        )
        if decoding.weights is None and changes.need_attention:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        return decoding

    def predict_blocks(self, texts: Iterable[str], *, keep_weights: bool = False) -> Iterator[list[Prediction]]:
        """Predictions for a stream of texts, in order, a block at a time.

        Texts of more than `LONGEST_WITH_WEIGHTS` characters come without weights.
        """
        for block in _blocks(texts, weights=keep_weights):
            yield self.predict(block, keep_weights=keep_weights and len(block[0]) <= LONGEST_WITH_WEIGHTS)

    def attention_maps(self, texts: Sequence[str]) -> list[AttentionMap]:
        """Attention while decoding `texts`, with the ideal alignment if the task knows it; empty without attention."""
        maps = []
        for prediction in self.predict(texts, keep_weights=True):
            answer = self.task.answer(prediction.source)
            found = prediction.attention_map((answer and answer.alignment) or ())
            maps += [found] if found is not None else []
        return maps

    def _predict_equally_long(
        self, texts: Sequence[str], length: int, keep_weights: bool, changes: Changes | None
    ) -> list[Prediction]:
        read, write = self.task.source_vocabulary, self.task.target_vocabulary
        ids, lengths = pad_rows([read.encode(text) for text in texts], self.device)
        source, source_lengths = read_sources(ids, lengths, source_eos=self.source_eos)
        if changes is not None:
            source = F.pad(source, (0, changes.padding), value=PAD)
        decoding, beam = self.decode(
            source,
            source_lengths,
            max_steps=output_bound(self.task, length),
            keep_weights=keep_weights,
            changes=changes,
        )
        rows = zip(texts, decoding.tokens.tolist(), decoding.lengths.tolist(), decoding.finished.tolist(), strict=True)
        predictions = []
        for row, (text, tokens, count, finished) in enumerate(rows):
            emitted = tokens[: count + finished]  # with its <eos>
            prediction = Prediction(
                text,
                write.decode(tokens[:count]),
                finished,
                source_symbols=tuple(map(read.symbol, source[row].tolist())),
                output_symbols=tuple(map(write.symbol, emitted)),
                hypotheses=() if beam is None else _hypotheses(beam, row, write),
            )
            if decoding.weights is not None:
                weights = tuple(map(tuple, decoding.weights[row, : len(emitted)].tolist()))
                prediction = replace(prediction, weights=weights)
            predictions.append(prediction)
        return predictions


def _hypotheses(beam: BeamDecoding, row: int, vocabulary: Vocabulary) -> tuple[Hypothesis, ...]:
    """The hypotheses of one source, those that exist."""
    fields = (beam.tokens, beam.lengths, beam.log_probabilities, beam.scores, beam.finished)
    found = zip(*(field[row].tolist() for field in fields), strict=True)
    return tuple(
        Hypothesis(vocabulary.decode(tokens[:length]), log_probability, score, finished)
        for tokens, length, log_probability, score, finished in found
        if log_probability > -math.inf
    )


def _blocks(texts: Iterable[str], *, weights: bool) -> Iterator[list[str]]:
    """`texts` in blocks of about `BLOCK` characters, fewer if their `weights` are kept; a block is all short or all long."""
    block: list[str] = []
    held = 0
    for text in texts:
        long = len(text) > LONGEST_WITH_WEIGHTS
        if block and long != (len(block[0]) > LONGEST_WITH_WEIGHTS):
            yield block
            block, held = [], 0
        block.append(text)
        held += len(text) if long or not weights else max(len(text), len(text) ** 2 * BLOCK // MAX_WEIGHTS)
        if held >= BLOCK:
            yield block
            block, held = [], 0
    if block:
        yield block
