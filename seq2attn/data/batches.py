"""Batches: examples as a model reads and writes them, with `<sos>` and `<eos>`.

Batch n of seed s is a pure function of (s, n) on one kind of device: two models trained with the
same seed see the same strings, and resuming needs no loader state.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import EOS, PAD, SOS

BLOCK = 4096  # strings drawn together at most
CELLS = 2**20  # characters drawn together at most, except for a single batch
POOL = 50  # batches of a finite set of pairs that are sorted by length together


@dataclass(frozen=True)
class Batch:
    """B strings with their targets. L = T + 1 for the `<eos>`; S includes the source's `<eos>` if
    there is one.
    """

    source: Tensor  # (B, S) ids, right-padded
    source_lengths: Tensor  # (B,) real tokens of each source, including `<eos>`
    decoder_input: Tensor  # (B, L) `<sos>` + target, right-padded
    decoder_output: Tensor  # (B, L) target + `<eos>`, right-padded
    target_lengths: Tensor  # (B,) characters of each target, without `<eos>`
    alignment: Tensor | None
    """(B, L) ideal source position of each output position, -1 at `<eos>` and past it; None if the
    task has none"""

    @property
    def decoder_lengths(self) -> Tensor:
        """(B,) real tokens of `decoder_input`, and of `decoder_output`"""
        return self.target_lengths + 1

    def select(self, index: Tensor | slice) -> Batch:
        """The batch of the rows `index` (b,); of a slice, as views."""
        return self._map(lambda tensor: tensor[index])

    def to(self, device: torch.device) -> Batch:
        """The batch on `device`."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            **{name: function(tensor) for name, tensor in vars(self).items() if tensor is not None},
        )


def generator(device: torch.device | str, *key: int | str) -> torch.Generator:
    """A generator whose stream depends only on `key`, such as (seed, "training", 17)."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)


def append_eos(ids: Tensor, lengths: Tensor) -> Tensor:
    """ids (B, N), right-padded, of `lengths` (B,) -> (B, N + 1) with an `<eos>` after each row's
    last token.
    """
    return torch.cat([ids, ids.new_zeros(len(ids), 1)], dim=1).scatter(1, lengths.unsqueeze(1), EOS)


def read_sources(ids: Tensor, lengths: Tensor, *, source_eos: bool) -> tuple[Tensor, Tensor]:
    """Sources (B, N) and lengths (B,) as the encoder reads them: each with an `<eos>` if
    `source_eos`.
    """
    return (append_eos(ids, lengths), lengths + 1) if source_eos else (ids, lengths)


def make_batch(examples: Examples, *, source_eos: bool) -> Batch:
    """The batch of these examples."""
    source, source_lengths = read_sources(
        examples.source, examples.source_lengths, source_eos=source_eos
    )
    column = examples.target.new_zeros(len(examples.target), 1)
    alignment = examples.alignment
    return Batch(
        source=source,
        source_lengths=source_lengths,
        decoder_input=torch.cat([column + SOS, examples.target], dim=1),  # (B, L)
        decoder_output=append_eos(examples.target, examples.target_lengths),
        target_lengths=examples.target_lengths,
        alignment=None if alignment is None else torch.cat([alignment, column - 1], dim=1),
    )


def drop_words(batch: Batch, share: float, random: torch.Generator) -> Batch:
    """The batch with this share of the decoder's input replaced by `<pad>`, `<sos>` excepted."""
    dropped = (
        torch.rand(batch.decoder_input.shape, generator=random, device=batch.decoder_input.device)
        < share
    )
    dropped &= batch.decoder_input != SOS
    return replace(batch, decoder_input=batch.decoder_input.masked_fill(dropped, PAD))


@dataclass(frozen=True)
class TrainingData:
    """The stream of training batches of one seed.

    word_dropout: the share of the decoder's input characters that are replaced by `<pad>`, so that
    the decoder has to track its position instead of reading its last output (Bowman et al. 2016,
    section 3.2).
    """

    task: Task
    source_eos: bool
    batch_size: int
    seed: int
    device: torch.device
    word_dropout: float = 0.0

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Batches number `start`, `start` + 1, ..., without end, the longest sources of each first:
        views of blocks.
        """
        longest_target = self.task.target_length(self.task.max_length)
        at_once = max(1, min(BLOCK, CELLS // longest_target) // self.batch_size)
        for block in itertools.count(start // at_once):
            drawn = self._block(block, at_once)
            for place in range(max(0, start - block * at_once), at_once):
                yield drawn.select(slice(place * self.batch_size, (place + 1) * self.batch_size))

    def _block(self, block: int, at_once: int) -> Batch:
        random = generator(self.device, self.seed, "training", block)
        examples = self.task.examples(random, at_once * self.batch_size)
        batch = make_batch(examples, source_eos=self.source_eos)
        order = batch.source_lengths.view(at_once, -1).argsort(dim=1, descending=True, stable=True)
        order = (
            order + torch.arange(at_once, device=self.device).unsqueeze(1) * self.batch_size
        ).flatten()
        batch = batch.select(order)
        return drop_words(batch, self.word_dropout, random) if self.word_dropout else batch


@dataclass(frozen=True)
class EpochData(TrainingData):
    """The stream of training batches of one seed, from the finite training set of a task.

    Batches hold sources of similar length, which saves padding. So that this does not bias
    training, lengths are sorted only within pools of `POOL` batches of a random order, ties stay in
    that order, and the batches are shuffled again. Where the pairs do not fill the last batch, the
    smaller batch is a random sample of all.
    """

    @cached_property
    def encoded(self) -> list[tuple[list[int], list[int]]]:
        """The ids of source and target of each pair."""
        read, write = self.task.source_vocabulary.encode, self.task.target_vocabulary.encode
        return [(read(source), write(target)) for source, target in self.task.training_set or ()]

    @cached_property
    def lengths(self) -> Tensor:
        """(N,) symbols of each source."""
        return torch.tensor([len(source) for source, _ in self.encoded])

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return -(-len(self.lengths) // self.batch_size)

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Batches number `start`, `start` + 1, ...: an endless stream."""
        for epoch in itertools.count(start // self.per_epoch):
            rows = self.epoch_rows(epoch)
            for place in range(max(0, start - epoch * self.per_epoch), self.per_epoch):
                yield self._make(rows[place], epoch * self.per_epoch + place)

    def epoch_rows(self, epoch: int) -> list[Tensor]:
        """The pairs of each batch of an epoch, as rows of the training set: (b,) each."""
        random = generator("cpu", self.seed, "epoch", epoch)
        order = torch.randperm(len(self.lengths), generator=random)  # (N,)
        left_over = len(order) % self.batch_size
        batches = [order[:left_over]] if left_over else []
        for start in range(left_over, len(order), POOL * self.batch_size):
            pool = self._longest_first(order[start : start + POOL * self.batch_size])
            batches += torch.split(pool, self.batch_size)
        return [batches[place] for place in torch.randperm(len(batches), generator=random).tolist()]

    def _make(self, rows: Tensor, index: int) -> Batch:
        pairs = [self.encoded[row] for row in self._longest_first(rows).tolist()]
        source, target = (pad_rows(side, "cpu") for side in zip(*pairs, strict=True))
        batch = make_batch(Examples(*source, *target), source_eos=self.source_eos)
        if self.word_dropout:
            random = generator("cpu", self.seed, "word dropout", index)
            batch = drop_words(batch, self.word_dropout, random)
        return batch.to(self.device)

    def _longest_first(self, rows: Tensor) -> Tensor:
        return rows[self.lengths[rows].argsort(stable=True, descending=True)]
