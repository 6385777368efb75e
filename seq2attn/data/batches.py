"""Batches: made from a seed and a number, or from given strings.

Batch n of seed s is a pure function of (s, n) on one kind of device: two models trained with the same seed see the same
strings, and resuming needs no loader state.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import EOS, PAD, SOS, SPECIAL, Vocabulary
from seq2attn.model.masks import valid_mask

BLOCK = 4096  # strings drawn together at most
CELLS = 2**20  # characters drawn together at most, but for one batch


@dataclass(frozen=True)
class Batch:
    """B strings with their targets. L = T + 1 for the `<eos>`; S counts the source's `<eos>` where there is one."""

    source: Tensor
    """(B, S) ids, right-padded"""
    source_lengths: Tensor
    """(B,) real tokens of each source, `<eos>` counted"""
    decoder_input: Tensor
    """(B, L) `<sos>` + target, right-padded"""
    decoder_output: Tensor
    """(B, L) target + `<eos>`, right-padded"""
    target_lengths: Tensor
    """(B,) characters of each target, `<eos>` not counted"""
    alignment: Tensor
    """(B, L) ideal source position of each output position; -1 at `<eos>` and past it"""

    @property
    def decoder_lengths(self) -> Tensor:
        """(B,) real tokens of `decoder_input`, and of `decoder_output`"""
        return self.target_lengths + 1

    def rows(self, start: int, stop: int) -> Batch:
        """The batch of rows `start` to `stop`, as views."""
        return Batch(*(getattr(self, field.name)[start:stop] for field in fields(self)))

    def select(self, index: Tensor) -> Batch:
        """The batch of the rows that `index` (b,) names."""
        return Batch(*(getattr(self, field.name)[index] for field in fields(self)))


def generator(device: torch.device, *key: int | str) -> torch.Generator:
    """A generator whose stream is decided by `key` alone, such as (seed, "training", 17)."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)


def random_strings(
    random: torch.Generator, count: int, min_length: int, max_length: int, alphabet_size: int
) -> tuple[Tensor, Tensor]:
    """`count` strings of i.i.d. uniform characters, lengths uniform in [min_length, max_length].

    Returns ids (count, max_length), right-padded, and lengths (count,), on the generator's device.
    """
    device = random.device
    lengths = torch.randint(min_length, max_length + 1, (count,), generator=random, device=device)
    ids = torch.randint(alphabet_size, (count, max_length), generator=random, device=device) + len(SPECIAL)
    return ids.masked_fill(~valid_mask(lengths, max_length), PAD), lengths


def make_batch(task: Task, strings: Tensor, lengths: Tensor, *, source_eos: bool) -> Batch:
    """The batch of these strings: ids (B, N), right-padded, and lengths (B,)."""
    target, alignment = task.solve(strings, lengths)  # (B, T) each
    target_lengths = task.expansion * lengths
    column = target.new_zeros(len(target), 1)
    source = torch.cat([strings, column], dim=1) if source_eos else strings
    if source_eos:
        source = source.scatter(1, lengths.unsqueeze(1), EOS)
    return Batch(
        source=source,
        source_lengths=lengths + 1 if source_eos else lengths,
        decoder_input=torch.cat([column + SOS, target], dim=1),  # (B, L)
        decoder_output=torch.cat([target, column], dim=1).scatter(1, target_lengths.unsqueeze(1), EOS),
        target_lengths=target_lengths,
        alignment=torch.cat([alignment, column - 1], dim=1),
    )


def encode_strings(vocabulary: Vocabulary, texts: Sequence[str], device: torch.device) -> tuple[Tensor, Tensor]:
    """Texts -> ids (B, N), right-padded, and lengths (B,). An unseen character is a `Seq2AttnError`."""
    rows = [vocabulary.encode(text) for text in texts]
    width = max(map(len, rows), default=0)
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows], dtype=torch.int64, device=device)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64, device=device)
    return ids.view(len(rows), width), lengths


def ideal_alignment(task: Task, vocabulary: Vocabulary, text: str) -> list[int]:
    """The source position that each character of the right answer to `text` copies."""
    strings, lengths = encode_strings(vocabulary, [text], torch.device("cpu"))
    positions: list[int] = task.solve(strings, lengths)[1][0].tolist()
    return positions


@dataclass(frozen=True)
class TrainingData:
    """The stream of training batches of one seed.

    word_dropout: the share of the decoder's input characters that are blanked out (`<pad>`), so that the decoder has to know
    where it is rather than what it wrote last (Bowman et al. 2016, section 3.2).
    """

    task: Task
    alphabet_size: int
    min_length: int
    max_length: int
    source_eos: bool
    batch_size: int
    seed: int
    device: torch.device
    word_dropout: float = 0.0
    """share of the decoder's input characters that are blanked out"""

    def batch(self, index: int) -> Batch:
        """Batch number `index` (from 0): the longest strings first, padded to `max_length`."""
        return next(self.batches(index))

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Batches number `start`, `start` + 1, ... without end.

        They are drawn and solved a block at a time, which costs little more than one batch would, and given as views.
        """
        at_once = max(1, min(BLOCK, CELLS // (self.task.expansion * self.max_length)) // self.batch_size)
        for block in itertools.count(start // at_once):
            whole = self._block(block, at_once)
            for index in range(max(start, block * at_once), (block + 1) * at_once):
                first = (index - block * at_once) * self.batch_size
                yield whole.rows(first, first + self.batch_size)

    def _block(self, block: int, at_once: int) -> Batch:
        random = generator(self.device, self.seed, "training", block)
        count = at_once * self.batch_size
        strings, lengths = random_strings(random, count, self.min_length, self.max_length, self.alphabet_size)
        order = lengths.view(at_once, -1).argsort(dim=1, descending=True, stable=True)
        order = (order + torch.arange(at_once, device=self.device).unsqueeze(1) * self.batch_size).flatten()
        batch = make_batch(self.task, strings[order], lengths[order], source_eos=self.source_eos)
        if self.word_dropout == 0:
            return batch
        blank = torch.rand(batch.decoder_input.shape, generator=random, device=self.device) < self.word_dropout
        blank &= batch.decoder_input != SOS
        return replace(batch, decoder_input=batch.decoder_input.masked_fill(blank, PAD))
