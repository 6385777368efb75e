"""Training batches of a finite set of pairs: every epoch goes through each pair once, in a new order.

Batch n of seed s is a pure function of (s, n), as in `batches.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from seq2attn.data.batches import Batch, TrainingData, drop_words, generator, make_batch
from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Examples

POOL = 50  # batches whose pairs are sorted by length together


@dataclass(frozen=True)
class EpochData(TrainingData):
    """The stream of training batches of one seed, from the finite training set of a task.

    Batches hold sources of similar length, which saves padding. So that this does not bias training, lengths are sorted
    only within pools of `POOL` batches of a random order, ties stay in that order, and the batches are shuffled again.
    Where the pairs do not fill the last batch, the smaller batch is a random sample of all.
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
        random = generator(torch.device("cpu"), self.seed, "epoch", epoch)
        order = torch.randperm(len(self.lengths), generator=random)  # (N,)
        left_over = len(order) % self.batch_size
        batches = [order[:left_over]] if left_over else []
        for start in range(left_over, len(order), POOL * self.batch_size):
            pool = self._longest_first(order[start : start + POOL * self.batch_size])
            batches += torch.split(pool, self.batch_size)
        return [batches[place] for place in torch.randperm(len(batches), generator=random).tolist()]

    def _make(self, rows: Tensor, index: int) -> Batch:
        pairs = [self.encoded[row] for row in self._longest_first(rows).tolist()]
        source, target = (pad_rows(side, torch.device("cpu")) for side in zip(*pairs, strict=True))
        batch = make_batch(Examples(*source, *target), source_eos=self.source_eos)
        if self.word_dropout:
            random = generator(torch.device("cpu"), self.seed, "word dropout", index)
            batch = drop_words(batch, self.word_dropout, random)
        return batch.to(self.device)

    def _longest_first(self, rows: Tensor) -> Tensor:
        return rows[self.lengths[rows].argsort(stable=True, descending=True)]
