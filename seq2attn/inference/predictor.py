"""A trained model as a function from strings to strings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.batches import read_sources
from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.decoding import BeamDecoding, BeamSearch, Decoding, beam_decode, greedy_decode, rows_at_once
from seq2attn.inference.interventions import Changes
from seq2attn.inference.maps import AttentionMap
from seq2attn.model.interface import Decoded, Model
from seq2attn.parts import LONGEST

BLOCK = 2**16  # characters that `predict_blocks` decodes together
LONGEST_WITH_WEIGHTS = 1000  # characters of a text whose attention it keeps: the map grows with the square
MAX_WEIGHTS = 2**21  # attention weights that it keeps together


class Source(NamedTuple):
    """A text as it is shown, and its ids, without `<eos>`."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class Hypothesis:
    """One of the outputs that beam search found for a string."""

    output: str
    log_probability: float  # nats, natural logarithm of the probability of the whole output with its `<eos>`
    score: float  # what hypotheses are ranked by: the log-probability after the length penalty
    finished: bool  # False if it was cut off before an `<eos>`


@dataclass(frozen=True, eq=False)
class Prediction:
    """The model's output for one string."""

    source: str
    output: str
    finished: bool  # False if the model emitted no `<eos>` within the maximum number of steps
    source_symbols: tuple[str, ...] = ()  # as the model reads them, with `<eos>` if it does: the columns of `weights`
    output_symbols: tuple[str, ...] = ()  # the emitted tokens, with `<eos>`: the rows of `weights`
    weights: NDArray[np.floating] | None = None  # (T, S) attention; None if not requested, or without attention
    hypotheses: tuple[Hypothesis, ...] = ()  # what beam search found, best first: the first is the output

    def attention_map(self, ideal: Sequence[int] = ()) -> AttentionMap | None:
        """The weights as a map, with the ideal alignment if it is known; None without weights."""
        if self.weights is None:
            return None
        rows = tuple(map(tuple, np.asarray(self.weights).tolist()))
        return AttentionMap(self.source, self.output, self.source_symbols, self.output_symbols, rows, tuple(ideal))

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        record = asdict(self)
        if not self.hypotheses:
            del record["hypotheses"]
        if self.weights is None:
            return {
                name: value
                for name, value in record.items()
                if name not in ("source_symbols", "output_symbols", "weights")
            }
        return {**record, "weights": [[round(weight, 6) for weight in row] for row in self.weights.tolist()]}


def output_bound(task: Task, length: int) -> int:
    """Maximum number of decoding steps for a source of `length` symbols: twice the longest target, plus 10."""
    return 2 * task.target_length(length) + 10


class Predictor:
    """A model with its task: strings in, strings out.

    Strings of one length are decoded together, without padding, so an output does not depend on the other strings.
    """

    def __init__(
        self, model: Model, task: Task, *, source_eos: bool, device: torch.device, search: BeamSearch | None = None
    ) -> None:
        """search: how to search; None: greedy decoding."""
        self.model = model.to(device).eval()
        self.task, self.source_eos, self.device, self.search = task, source_eos, device, search

    @property
    def width(self) -> int:
        """Hypotheses decoded together for each source."""
        return 1 if self.search is None else self.search.width

    def read(self, text: str) -> Source:
        """A text as the model reads it. Raises `Seq2AttnError` if it is empty, too long, or has unknown characters."""
        if len(text) > LONGEST:
            raise Seq2AttnError(f"the string is longer than {LONGEST:,} characters")
        vocabulary = self.task.source_vocabulary
        ids = vocabulary.encode(text)
        return Source(vocabulary.shown(text), ids)

    def predict(
        self, texts: Sequence[str | Source], *, keep_weights: bool = False, changes: Changes | None = None
    ) -> list[Prediction]:
        """Predictions for `texts`, in order. Raises as `read` does, before any is decoded.

        keep_weights: of texts of at most `LONGEST_WITH_WEIGHTS` symbols.
        changes: made while each of the texts is decoded, greedily; weights are then kept. Raises
            `Seq2AttnError` if they do not fit the text.
        """
        sources = [text if isinstance(text, Source) else self.read(text) for text in texts]
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, source in enumerate(sources):
            by_length[len(source.ids)].append(index)
        predictions: dict[int, Prediction] = {}
        for length, indices in by_length.items():
            steps = output_bound(self.task, length)
            keep = keep_weights and length <= LONGEST_WITH_WEIGHTS
            rows = rows_at_once(self.model, self.device, length + 1, steps if keep else None, width=self.width)
            for start in range(0, len(indices), rows):
                chunk = indices[start : start + rows]
                predicted = self._predict_equally_long([sources[index] for index in chunk], keep, changes)
                predictions.update(zip(chunk, predicted, strict=True))
        return [predictions[index] for index in range(len(sources))]

    def predict_blocks(
        self, texts: Iterable[str | Source], *, keep_weights: bool = False
    ) -> Iterator[list[Prediction]]:
        """Predictions for a stream of texts, in order, a block at a time."""
        for block in _blocks((text if isinstance(text, Source) else self.read(text) for text in texts), keep_weights):
            yield self.predict(block, keep_weights=keep_weights)

    def attention_maps(self, texts: Sequence[str | Source]) -> list[AttentionMap]:
        """Attention while decoding `texts`, with the ideal alignment if the task knows it; empty without attention."""
        maps = []
        for prediction in self.predict(texts, keep_weights=True):
            answer = self.task.answer(prediction.source)
            found = prediction.attention_map((answer and answer.alignment) or ())
            maps += [found] if found is not None else []
        return maps

    def decode(
        self,
        source: Tensor,
        lengths: Tensor,
        *,
        max_steps: int,
        keep_weights: bool = False,
        watch: Callable[[Decoded], None] | None = None,
        changes: Changes | None = None,
    ) -> tuple[Decoding, BeamDecoding | None]:
        """The output for source (B, S), as the encoder reads it, lengths (B,); with a beam search also all that it found.

        watch: called with the result of each greedy step.
        """
        if self.search is not None:
            if changes is not None:
                raise Seq2AttnError("changes need greedy decoding, not a beam search")
            beam = beam_decode(self.model, source, lengths, self.search, max_steps=max_steps, keep_weights=keep_weights)
            return beam.best(), beam
        options: dict[str, Any] = {"keep_weights": keep_weights, "watch": watch}
        if changes is not None:
            width, dtype = source.size(1), next(self.model.parameters()).dtype
            changes.check(width)
            options = {
                "keep_weights": True,
                "intervene": lambda step: changes.at(step, lengths, width, dtype),
                "write": changes.written(self.task.target_vocabulary),
            }
        decoding = greedy_decode(self.model, source, lengths, max_steps=max_steps, **options)
        if changes is not None and decoding.weights is None and changes.need_attention:
            raise Seq2AttnError("this model has no attention to change (its score is `none`)")
        return decoding, None

    def _predict_equally_long(
        self, sources: Sequence[Source], keep_weights: bool, changes: Changes | None
    ) -> list[Prediction]:
        read, write = self.task.source_vocabulary, self.task.target_vocabulary
        ids, lengths = pad_rows([source.ids for source in sources], self.device)
        batch, batch_lengths = read_sources(ids, lengths, source_eos=self.source_eos)
        if changes is not None:
            batch = F.pad(batch, (0, changes.padding), value=PAD)
        bound = output_bound(self.task, len(sources[0].ids))
        decoding, beam = self.decode(batch, batch_lengths, max_steps=bound, keep_weights=keep_weights, changes=changes)
        predictions = []
        columns = (decoding.tokens, decoding.lengths, decoding.finished, batch)
        rows = zip(sources, *(column.tolist() for column in columns), strict=True)
        for row, (source, tokens, count, finished, read_ids) in enumerate(rows):
            steps = count + finished  # with its <eos>
            predictions.append(
                Prediction(
                    source.text,
                    write.decode(tokens[:count]),
                    finished,
                    source_symbols=tuple(map(read.symbol, read_ids)),
                    output_symbols=tuple(map(write.symbol, tokens[:steps])),
                    weights=None if decoding.weights is None else decoding.weights[row, :steps].cpu().numpy().copy(),
                    hypotheses=() if beam is None else _hypotheses(beam, row, write),
                )
            )
        return predictions


def _hypotheses(beam: BeamDecoding, row: int, vocabulary: Vocabulary) -> tuple[Hypothesis, ...]:
    """The hypotheses of one source, those that exist."""
    numbers = (beam.log_probabilities, beam.scores, beam.finished)
    columns = (field[row].tolist() for field in (beam.tokens, beam.lengths, *numbers))
    return tuple(
        Hypothesis(vocabulary.decode(tokens[:length]), log_probability, *others)
        for tokens, length, log_probability, *others in zip(*columns, strict=True)
        if log_probability > -math.inf
    )


def _blocks(sources: Iterable[Source], weights: bool) -> Iterator[list[Source]]:
    """Sources in blocks of about `BLOCK` symbols, fewer if `weights` are kept."""
    block: list[Source] = []
    held = 0
    for source in sources:
        length = len(source.ids)
        block.append(source)
        kept = length**2 * BLOCK // MAX_WEIGHTS if weights and length <= LONGEST_WITH_WEIGHTS else 0
        held += max(length, kept)
        if held >= BLOCK:
            yield block
            block, held = [], 0
    if block:
        yield block
