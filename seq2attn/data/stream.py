"""The stream of training batches of a task.

Batch n of seed s is a pure function of (s, n) on one kind of device: two models trained with the
same seed see the same strings, and resuming needs no loader state.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from seq2attn.data.batches import Batch, EncodedPair, drop_words, generator, make_batch, pad_pairs
from seq2attn.data.tasks import Task

BLOCK = 4096  # strings drawn together at most
CELLS = 2**20  # characters drawn together at most, except for a single batch
POOL = 50  # batches of a finite set of pairs that are sorted by length together


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
        """Yield batches number `start`, `start` + 1, ... without end, the longest sources of each
        first.

        Many batches are drawn together, as a block, which is faster; each is a view of its block.
        """
        # Blocks depend on task and batch size alone, so that batch n is the same from any `start`.
        longest_target = self.task.target_length(self.task.max_length)
        strings = min(BLOCK, CELLS // longest_target)  # at most, in a block: it bounds memory
        per_block = max(1, strings // self.batch_size)  # batches
        for block in itertools.count(start // per_block):
            drawn = self._draw(block, per_block * self.batch_size)
            first = block * per_block  # number of its first batch
            for number in range(max(start, first), first + per_block):
                row = (number - first) * self.batch_size
                yield drawn.select(slice(row, row + self.batch_size))

    def _draw(self, block: int, count: int) -> Batch:
        """Draw the `count` examples of the block of this number, each batch of them with its
        longest sources first.

        Row i belongs to batch i // batch size. All rows are sorted by length, then by their batch;
        the second sort is stable, so it keeps the order by length within a batch.
        """
        random = generator(self.device, self.seed, "training", block)
        batch = make_batch(self.task.examples(random, count), source_eos=self.source_eos)
        by_length = batch.source_lengths.argsort(descending=True, stable=True)
        by_batch = (by_length // self.batch_size).argsort(stable=True)
        return drop_words(batch.select(by_length[by_batch]), self.word_dropout, random)


@dataclass(frozen=True)
class EpochData(TrainingData):
    """The stream of training batches of one seed, from the finite training set of a task.

    Batches hold sources of similar length, which saves padding. So that this does not bias
    training, lengths are sorted only within pools of `POOL` batches of a random order, ties stay in
    that order, and the batches are shuffled again. If the pairs do not fill the last batch, the
    smaller batch is a random sample of all.
    """

    @cached_property
    def encoded(self) -> list[EncodedPair]:
        """The ids of each pair."""
        return self.task.encode_pairs(self.task.training_set or ())

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return math.ceil(len(self.encoded) / self.batch_size)

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yield batches number `start`, `start` + 1, ... without end."""
        for epoch in itertools.count(start // self.per_epoch):
            first = epoch * self.per_epoch
            for number, rows in enumerate(self.epoch_rows(epoch), first):
                if number < start:  # an earlier batch of the epoch, which is drawn as a whole
                    continue
                # made on the CPU, so that every device trains on the same batches
                examples = pad_pairs([self.encoded[row] for row in rows], "cpu")
                batch = make_batch(examples, source_eos=self.source_eos)
                random = generator("cpu", self.seed, "word dropout", number)
                yield drop_words(batch, self.word_dropout, random).to(self.device)

    def epoch_rows(self, epoch: int) -> list[list[int]]:
        """Return the rows of the training set in each batch of an epoch, longest sources first.

        The rows of `POOL` batches are drawn together and sorted by length before they are divided,
        so that a batch has little padding; the batches are then shuffled. The batch that has fewer
        rows, if there is one, is drawn by itself.
        """
        random = generator("cpu", self.seed, "epoch", epoch)
        order = torch.randperm(len(self.encoded), generator=random).tolist()
        remainder = len(order) % self.batch_size  # rows of the smaller batch
        batches = [self._longest_first(order[:remainder])] if remainder else []
        pool_size = POOL * self.batch_size
        for start in range(remainder, len(order), pool_size):
            pool = self._longest_first(order[start : start + pool_size])
            for first in range(0, len(pool), self.batch_size):
                batches.append(pool[first : first + self.batch_size])
        return [batches[index] for index in torch.randperm(len(batches), generator=random).tolist()]

    def _longest_first(self, rows: list[int]) -> list[int]:
        return sorted(rows, key=lambda row: len(self.encoded[row][0]), reverse=True)
