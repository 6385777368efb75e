"""A trained model as a function from strings to strings."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.batches import Batch, EncodedPair, Examples, make_batch, pad_pairs
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import EOS, PAD, UNK
from seq2attn.errors import Seq2AttnError, quoted
from seq2attn.inference.answer import Answer, Cache, Collector, Hypothesis
from seq2attn.inference.changes import UNCHANGED, Changes
from seq2attn.inference.decoding import BeamSearch, Decoding, beam_decode, greedy_decode, measuring
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.points import Rank, hooked_places, of_strings
from seq2attn.parts import LONGEST
from seq2attn.registry import composed

MAX_ROWS = 1024  # strings decoded together
# Attention weights computed together, L x S for each string, except for a single string: 16 MiB of
# each head.
MAX_WEIGHTS = 2**22
# Source symbols that are decoded before the first of their outputs is returned.
BLOCK, BLOCK_WITH_WEIGHTS = 2**16, 2**11
# Symbols of a source whose attention is kept: the map grows with the square.
LONGEST_WITH_WEIGHTS = 1000

Source = tuple[str, list[int]]
"""a text as it is shown, and its ids, without `<eos>`"""


def output_bound(task: Task, length: int) -> int:
    """Return the maximum number of decoding steps for a source of `length` symbols: twice the
    longest target, plus 10, so that an output that goes on too long is seen to do so.
    """
    return 2 * task.target_length(length) + 10


def _blocks(sources: Iterable[Source], limit: int) -> Iterator[list[Source]]:
    """Yield lists of sources, in order: each ends with the source that brings it to `limit` symbols
    or more, the last one with what is left, perhaps nothing.
    """
    block: list[Source] = []
    symbols = 0
    for source in sources:
        block.append(source)
        symbols += len(source[1])
        if symbols >= limit:
            yield block
            block, symbols = [], 0
    yield block


@dataclass(frozen=True)
class Predictor:
    """A model with its task: strings in, strings out.

    Strings of one length are decoded together, without padding, so an output does not depend on the
    other strings.
    """

    model: Model
    task: Task
    source_eos: bool
    device: torch.device
    search: BeamSearch | None = None
    """None: greedy decoding"""
    changes: Changes = UNCHANGED
    """made while each string is decoded"""

    def __post_init__(self) -> None:
        self.model.to(self.device)

    def read(self, text: str) -> Source:
        """Return a text as it is shown, in composed form, and the ids of the form that the model
        reads, which may be a decomposed one, without `<eos>`. Raises `Seq2AttnError` if it is not a
        string, if it is empty or longer than `LONGEST` characters, or if it has characters that the
        vocabulary lacks.
        """
        if not isinstance(text, str):
            raise Seq2AttnError(f"predict takes a string, or several; found {quoted(text)}")
        if len(text) > LONGEST:
            raise Seq2AttnError(f"the string is longer than {LONGEST:,} characters")
        vocabulary = self.task.source_vocabulary
        text = self.task.source(text)
        return composed(text), vocabulary.encode(text)

    def predict(self, texts: Iterable[str], *, keep_weights: bool = False) -> Iterator[Answer]:
        """Yield the answers to a stream of texts, in order. It is read and decoded a block at a
        time, to need little memory. Raises `Seq2AttnError` for a text that `read` refuses, before
        any text of its block is decoded.

        keep_weights: True to keep attention weights, of texts of at most `LONGEST_WITH_WEIGHTS`
            symbols.
        """
        limit = BLOCK_WITH_WEIGHTS if keep_weights else BLOCK
        first = 0
        for block in _blocks(map(self.read, texts), limit):
            yield from self.answer(block, first, keep_weights)
            first += len(block)

    def run_with_cache(self, texts: Iterable[str]) -> tuple[list[Answer], Cache]:
        """Return the answers to texts with their weights, and what the model computed for them."""
        collector = Collector(self.model)
        sources = [self.read(text) for text in texts]
        with hooked_places(collector.hooks, Rank.CACHE):
            answers = self.answer(sources, 0, True)
        return answers, collector.cache(answers)

    def answer(self, sources: Sequence[Source], first: int, keep_weights: bool) -> list[Answer]:
        """Return the answers to the sources, in their order. Raises `Seq2AttnError` for changes
        that do not fit the model or a source, and if logits are nan.

        first: the index of the first source among all strings of the caller, by which hooks are
            told which strings these are.
        keep_weights: True to keep attention weights, of sources of at most `LONGEST_WITH_WEIGHTS`
            symbols.
        """
        answers: dict[int, Answer] = {}

        for indices in self.decoded_together([len(ids) for _, ids in sources]):
            texts = [sources[index][0] for index in indices]
            pairs: list[EncodedPair] = [(sources[index][1], []) for index in indices]  # no targets
            batch = self.batch(pad_pairs(pairs, self.device))
            ids = batch.source
            with of_strings(first + index for index in indices):
                decoding = self.decode(ids, batch.source_lengths, keep_weights=keep_weights)
            decoded = self.answers(texts, ids, decoding, keep_weights=keep_weights)
            answers.update(zip(indices, decoded, strict=True))
        return [answers[index] for index in sorted(answers)]

    def decoded_together(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield groups of sources to decode together, by their indices: at most `rows_at_once`, all
        of one length, the shortest first.

        lengths: of all sources, in symbols.
        """
        order = sorted(range(len(lengths)), key=lengths.__getitem__)

        for length, group in itertools.groupby(order, key=lengths.__getitem__):
            indices = list(group)
            rows = self.rows_at_once(length)
            for start in range(0, len(indices), rows):
                yield indices[start : start + rows]

    def rows_at_once(self, length: int) -> int:
        """Return how many sources of `length` symbols to decode together, at least 1: as many as
        the limits at the top of this file allow, which bound memory.
        """
        rows = min(MAX_ROWS, MAX_WEIGHTS // length**2)  # L is about as long as S
        if self.search is not None:  # each source has a row for each hypothesis
            rows //= self.search.width
        return max(1, rows)

    def batch(self, examples: Examples) -> Batch:
        """Return the examples as the model takes them, with the padding of `changes`."""
        batch = make_batch(examples, source_eos=self.source_eos)
        source = F.pad(batch.source, (0, self.changes.padding), value=PAD)
        return replace(batch, source=source)

    def decode(
        self,
        source: Tensor,
        lengths: Tensor,
        *,
        max_steps: int | None = None,
        keep_weights: bool = False,
    ) -> Decoding:
        """Decode source ids (B, S), as the encoder reads them, of lengths (B,), which count an
        `<eos>` that it reads: with the beam search, or without one greedily.

        max_steps: None: the `output_bound` of the longest source. keep_weights: True to keep
        attention weights, unless a source is longer than `LONGEST_WITH_WEIGHTS` symbols. Raises
        `Seq2AttnError` for changes that do not fit the model or the source, and if logits are nan.
        """
        longest = int(lengths.max()) - self.source_eos  # symbols, without the <eos>
        if max_steps is None:
            max_steps = output_bound(self.task, longest)
        # where an `<unk>` copies a symbol, the weights say which: `answers` needs them
        keep_weights = (keep_weights or self._copies) and longest <= LONGEST_WITH_WEIGHTS

        if self.search is None:
            write = self.changes.written(self.task.target_vocabulary)
            decode = partial(greedy_decode, write=write)
        elif self.changes.write:
            raise Seq2AttnError("write needs greedy decoding, not a beam search")
        else:
            decode = partial(beam_decode, search=self.search)

        inputs = self.model, source, lengths
        with measuring(self.model), hooked_places(self.changes.hooks(*inputs), Rank.CHANGE):
            return decode(*inputs, max_steps=max_steps, keep_weights=keep_weights)

    @property
    def _copies(self) -> bool:
        """True if `<unk>` in an output stands for a symbol of the source."""
        return self.model.copies and self.task.target_vocabulary.unknown

    def forced(self, batch: Batch) -> tuple[Decoded, Tensor]:
        """Read the right outputs of a batch instead of the model's own (teacher forcing). Returns
        the model's outputs, and -ln p (B, L) of each right symbol, in nats; past a row's end both
        are undefined.
        """
        hooks = self.changes.hooks(self.model, batch.source, batch.source_lengths)
        with measuring(self.model), hooked_places(hooks, Rank.CHANGE):
            decoded = self.model(batch)
        logits = decoded.logits.mT  # (B, V, L)
        return decoded, F.cross_entropy(logits, batch.decoder_output, reduction="none")

    def losses(self, answers: Sequence[Answer]) -> NDArray[np.floating]:
        """Compute -ln p of each symbol of the outputs of N answers, an `<eos>` included, given the
        source and the symbols before it: (N, T) in nats, nan past an output's end. Raises
        `Seq2AttnError` for changes that do not fit.
        """
        sources = [self.task.source_vocabulary.encode(answer.source) for answer in answers]
        outputs = [answer.output_ids for answer in answers]
        found = np.full((len(answers), max(map(len, outputs))), np.nan)

        for indices in self.decoded_together(list(map(len, sources))):
            pairs = []
            for index in indices:
                target = [id_ for id_ in outputs[index] if id_ != EOS]  # `batch` appends one
                pairs.append((sources[index], target))
            batch = self.batch(pad_pairs(pairs, self.device))

            with of_strings(indices):
                _, losses = self.forced(batch)
            for index, of_one in zip(indices, losses.tolist(), strict=True):
                steps = len(outputs[index])  # without an <eos> that it never wrote
                found[index, :steps] = of_one[:steps]
        return found

    # ---- from ids to text ----

    def answers(
        self,
        texts: Sequence[str],
        source: Tensor,
        decoding: Decoding,
        *,
        keep_weights: bool = False,
    ) -> list[Answer]:
        """Return the answers to B texts, with symbols in place of ids.

        source (B, S): the texts' ids as the encoder reads them, padding included. decoding: the
        outputs for them. keep_weights: True to give the answers its attention weights, if it has
        any.
        """
        # all at once: reading a row at a time would wait for a GPU each time
        source, decoding = source.cpu(), replace(decoding, tokens=decoding.tokens.cpu())
        answers = []
        for row, text in enumerate(texts):
            asked = text, source[row], decoding, row
            hypotheses = []
            for rank, log_probability in enumerate(decoding.log_probabilities[row].tolist()):
                # it exists, and is not the one output of greedy decoding, whose number is nan
                if log_probability > -math.inf:
                    one = self._answer(*asked, rank)
                    score = float(decoding.scores[row, rank])
                    hypothesis = Hypothesis(one.output, log_probability, score, one.finished)
                    hypotheses.append(hypothesis)
            best = self._answer(*asked, 0, keep_weights)
            answers.append(replace(best, hypotheses=tuple(hypotheses)))
        return answers

    def _answer(
        self,
        text: str,
        source: Tensor,
        decoding: Decoding,
        row: int,
        rank: int,
        keep_weights: bool = False,
    ) -> Answer:
        """Return one of the outputs for a text, that of `rank`, from 0, as an answer.

        source: (S,) the text's ids. row: that of the text in the decoding. keep_weights: True to
        give the answer its attention weights, if the decoding has any.
        """
        read, write = self.task.source_vocabulary, self.task.target_vocabulary
        ids, weights = decoding.output(row, rank)
        symbols = self._symbols(text, ids, weights)
        finished = EOS in ids
        return Answer(
            text,
            write.text(symbols[:-1] if finished else symbols),
            finished,
            source_symbols=tuple(read.tokens[index] for index in source.tolist()),
            output_symbols=tuple(symbols),
            output_ids=tuple(ids),
            # a copy: a view would keep those of all texts
            weights=weights.cpu().numpy().copy() if keep_weights and weights is not None else None,
            task=self.task,
        )

    def _symbols(self, text: str, ids: Sequence[int], weights: Tensor | None) -> list[str]:
        """Return the symbols of an output. text: the source. weights: (T, S).

        In a model that copies, `<unk>` stands for a symbol of `text` that has no id of its own,
        since the vocabulary of the source or of the target lacks it: of several, the one with the
        largest weight at that step.
        """
        vocabulary = self.task.target_vocabulary
        symbols = [vocabulary.tokens[token] for token in ids]
        if not self._copies or weights is None or UNK not in ids:
            return symbols  # `<unk>` stays where no weights say what it copies
        source = self.task.source_vocabulary
        read, _ = source.split(text)  # its symbols, without features
        known = vocabulary.ids.keys() - source.unseen(text)  # an unseen symbol is `<unk>`, too
        # the positions of what `<unk>` may stand for
        lacking = [position for position, symbol in enumerate(read) if symbol not in known]

        for step, token in enumerate(ids):
            if token == UNK and lacking:
                likeliest = int(weights[step, lacking].argmax())
                symbols[step] = read[lacking[likeliest]]

        return symbols


def symbols_of(predictor: Predictor) -> tuple[Any, ...]:
    """Return everything that describes the symbols that are read and written: it is equal for
    models that can decode together.
    """
    task = predictor.task
    return vars(task.source_vocabulary), vars(task.target_vocabulary), predictor.source_eos
