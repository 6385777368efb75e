"""A trained model as a function from strings to strings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import Batch, read_sources
from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD, UNKNOWN
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.answer import Answer, Hypothesis
from seq2attn.inference.cache import Cache, Recorder, collect
from seq2attn.inference.changes import UNCHANGED, Changes
from seq2attn.inference.decoding import BeamSearch, Decoding, beam_decode, greedy_decode
from seq2attn.model.interface import Model
from seq2attn.model.points import hooked_points
from seq2attn.parts import LONGEST
from seq2attn.text import quoted

MAX_ROWS = 1024  # strings decoded together
# Source tokens decoded together, except for a single string; self-attention needs memory for the
# square of a length.
MAX_TOKENS, MAX_TOKENS_OF_SELF_ATTENTION = 2**17, 2**13
# Source symbols that are decoded before the first of their outputs is returned.
BLOCK, BLOCK_WITH_WEIGHTS = 2**16, 2**11
LONGEST_WITH_WEIGHTS = (
    1000  # symbols of a source whose attention is kept: the map grows with the square
)


Source = tuple[str, list[int]]  # a text as it is shown, and its ids, without `<eos>`


def output_bound(task: Task, length: int) -> int:
    """Maximum number of decoding steps for a source of `length` symbols: twice the longest target,
    plus 10.
    """
    return 2 * task.target_length(length) + 10


@dataclass
class Predictor:
    """A model with its task: strings in, strings out.

    Strings of one length are decoded together, without padding, so an output does not depend on the
    other strings.
    """

    model: Model
    task: Task
    source_eos: bool
    device: torch.device
    search: BeamSearch | None = None  # None: greedy decoding
    changes: Changes = UNCHANGED  # made while each string is decoded, greedily

    def __post_init__(self) -> None:
        self.model.to(self.device).eval()

    def read(self, text: str) -> Source:
        """A text as the model reads it. Raises `Seq2AttnError` if it is empty, too long, or has
        unknown characters.
        """
        if not isinstance(text, str):
            raise Seq2AttnError(f"predict takes a string, or several; found {quoted(text)}")
        if len(text) > LONGEST:
            raise Seq2AttnError(f"the string is longer than {LONGEST:,} characters")
        return self.task.source_vocabulary.normalised(text), self.task.source_vocabulary.encode(
            text
        )

    def predict(self, texts: Iterable[str], *, keep_weights: bool = False) -> Iterator[Answer]:
        """Predictions for a stream of texts, in order. Raises as `read` does, before any text of a
        block is decoded.

        keep_weights: of texts of at most `LONGEST_WITH_WEIGHTS` symbols.
        """
        sources, size = map(self.read, texts), BLOCK_WITH_WEIGHTS if keep_weights else BLOCK
        while block := _next_block(sources, size):
            answers: dict[int, Answer] = {}
            for indices in self.decoded_together([len(ids) for _, ids in block]):
                predicted = self._predict([block[index] for index in indices], keep_weights)
                answers.update(zip(indices, predicted, strict=True))
            yield from (answers[index] for index in range(len(block)))

    def decoded_together(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """The indices of sources of one length, at most as many as memory allows, of sources of
        `lengths` symbols.
        """
        shortest_first = sorted(range(len(lengths)), key=lengths.__getitem__)
        for length, group in itertools.groupby(shortest_first, key=lengths.__getitem__):
            indices, rows = list(group), self.rows_at_once(length)
            yield from (indices[start : start + rows] for start in range(0, len(indices), rows))

    def rows_at_once(self, length: int) -> int:
        """How many sources of `length` symbols to decode together, to bound memory."""
        attends_to_itself = any(
            isinstance(part, nn.TransformerEncoderLayer) for part in self.model.modules()
        )
        tokens = MAX_TOKENS_OF_SELF_ATTENTION if attends_to_itself else MAX_TOKENS
        hypotheses = 1 if self.search is None else self.search.width
        return max(1, min(MAX_ROWS, tokens // (length + 1)) // hypotheses)

    def decode(
        self,
        source: Tensor,
        lengths: Tensor,
        *,
        max_steps: int | None = None,
        keep_weights: bool = False,
    ) -> Decoding:
        """The outputs for source (B, S), as the encoder reads it, lengths (B,), by the search or
        greedily.

        max_steps: None: the `output_bound` of the longest. Raises `Seq2AttnError` for changes that
        do not fit the source.
        """
        most = max_steps or output_bound(self.task, int(lengths.max()) - self.source_eos)
        needed = self._copies and source.size(1) <= LONGEST_WITH_WEIGHTS
        options: dict[str, Any] = {"max_steps": most, "keep_weights": keep_weights or needed}
        with hooked_points(self.changes.hooks(self.model, source, lengths)):
            if self.search is None:
                write = self.changes.written(self.task.target_vocabulary)
                return greedy_decode(self.model, source, lengths, write=write, **options)
            if self.changes.write:
                raise Seq2AttnError("write needs greedy decoding, not a beam search")
            return beam_decode(self.model, source, lengths, self.search, **options)

    @property
    def _copies(self) -> bool:
        return getattr(self.model, "copies", False) and self.task.target_vocabulary.unknown

    def written(self, text: str, tokens: Sequence[int], weights: Tensor | None) -> list[str]:
        """The symbols of an output's tokens. In a model that copies, `<unk>` is the symbol of
        `text` with the largest of the weights (T, S) at its step, of those that the target's
        vocabulary lacks.
        """
        vocabulary = self.task.target_vocabulary
        symbols = [vocabulary.tokens[token] for token in tokens]
        if self._copies and weights is not None and UNKNOWN in symbols:
            read, known = self.task.source_vocabulary.parts_of(text)[0], set(vocabulary.symbols)
            lacking = [position for position, symbol in enumerate(read) if symbol not in known]
            for step, symbol in enumerate(symbols):
                if symbol == UNKNOWN and lacking:
                    symbols[step] = read[max(lacking, key=weights[step].tolist().__getitem__)]
        return symbols

    def look_inside(self, texts: Sequence[str]) -> tuple[list[Answer], Cache]:
        """Predictions for texts, decoded greedily, and what the model computed for them."""
        sources = [self.read(text) for text in texts]
        recorder, batches = Recorder(self.model), []
        answers: dict[int, Answer] = {}
        for indices in self.decoded_together([len(ids) for _, ids in sources]):
            with hooked_points(recorder.hooks):
                predicted = list(self._predict([sources[index] for index in indices], True))
            answers.update(zip(indices, predicted, strict=True))
            batches.append(
                (indices, recorder.take(), [len(one.output_symbols) for one in predicted])
            )
        return [answers[index] for index in range(len(sources))], collect(len(sources), batches)

    def padded(self, batch: Batch) -> Batch:
        """Return the batch with as many `<pad>` after its sources as `changes` says."""
        return replace(batch, source=self._pad(batch.source))

    def _pad(self, source: Tensor) -> Tensor:
        return F.pad(source, (0, self.changes.padding), value=PAD)

    def _predict(self, sources: Sequence[Source], keep_weights: bool) -> Iterator[Answer]:
        """Predictions for sources of one length."""
        read, write = self.task.source_vocabulary, self.task.target_vocabulary
        ids, lengths = pad_rows([ids for _, ids in sources], self.device)
        batch, lengths = read_sources(ids, lengths, source_eos=self.source_eos)
        batch = self._pad(batch)
        shows = keep_weights and ids.size(1) <= LONGEST_WITH_WEIGHTS
        decoding = self.decode(batch, lengths, keep_weights=shows)
        best = decoding.best()
        columns = (column.tolist() for column in (best.tokens, best.lengths, best.finished, batch))
        for row, ((text, _), tokens, count, finished, read_ids) in enumerate(
            zip(sources, *columns, strict=True)
        ):
            steps = count + finished  # with its <eos>
            weights = None if best.weights is None else best.weights[row, :steps]
            symbols = self.written(text, tokens[:steps], weights)
            yield Answer(
                text,
                write.text(symbols[:count]),
                finished,
                source_symbols=tuple(map(read.tokens.__getitem__, read_ids)),
                output_symbols=tuple(symbols),
                weights=weights.cpu().numpy().copy() if shows and weights is not None else None,
                hypotheses=() if decoding.scores is None else self._hypotheses(text, decoding, row),
                task=self.task,
            )

    def _hypotheses(self, text: str, decoding: Decoding, row: int) -> tuple[Hypothesis, ...]:
        """The hypotheses of one source, those that exist."""
        fields = (
            decoding.tokens,
            decoding.lengths,
            decoding.log_probabilities,
            decoding.scores,
            decoding.finished,
        )
        columns = zip(*(field[row].tolist() for field in fields if field is not None), strict=True)
        made = []
        for rank, (tokens, length, log_probability, *others) in enumerate(columns):
            weights = None if decoding.weights is None else decoding.weights[row, rank]
            output = self.task.target_vocabulary.text(self.written(text, tokens[:length], weights))
            made += (
                [Hypothesis(output, log_probability, *others)]
                if log_probability > -math.inf
                else []
            )
        return tuple(made)


def _next_block(sources: Iterator[Source], size: int) -> list[Source]:
    """The next sources, until they have `size` symbols."""
    block, held = list[Source](), 0
    for source in sources:
        block.append(source)
        held += len(source[1])
        if held >= size:
            break
    return block
