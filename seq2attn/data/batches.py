"""Rows of unequal length in one tensor, padded on the right: examples, and the batches that a model
takes, with `<sos>` and `<eos>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.vocabulary import EOS, PAD, SOS

EncodedPair = tuple[list[int], list[int]]
"""ids of a source and of its target"""


@dataclass(frozen=True)
class Examples:
    """N sources with their targets: ids without `<sos>` and `<eos>`, right-padded with `<pad>`."""

    source: Tensor  #: (N, S) ids of the source vocabulary
    source_lengths: Tensor  #: (N,)
    target: Tensor  #: (N, T) ids of the target vocabulary
    target_lengths: Tensor  #: (N,), 1 or more
    alignment: Tensor | None = None
    """(N, T) the source position that each target position copies, -1 past the target's end; None
    if nothing is copied"""


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
        """Return the rows `index` (b,); those of a slice are views."""
        return self._map(lambda tensor: tensor[index])

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        tensors = vars(self).items()
        mapped = {name: function(tensor) for name, tensor in tensors if tensor is not None}
        return replace(self, **mapped)


def valid_mask(lengths: Tensor, width: int) -> Tensor:
    """Return (B, width) bool of lengths (B,): True where a position holds a real token."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Pad B rows with `<pad>`, 0: return ids (B, N) int64, N the longest row, and lengths (B,)."""
    lengths = list(map(len, rows))
    width = max(lengths, default=0)
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    ids = torch.tensor(padded, dtype=torch.int64, device=device).view(len(rows), width)
    return ids, torch.tensor(lengths, dtype=torch.int64, device=device)


def pad_pairs(pairs: Sequence[EncodedPair], device: torch.device | str) -> Examples:
    """Return encoded pairs as examples without alignment."""
    source = pad_rows([source for source, _ in pairs], device)
    target = pad_rows([target for _, target in pairs], device)
    return Examples(*source, *target)


def append_eos(ids: Tensor, lengths: Tensor) -> Tensor:
    """Append `<eos>` to each row's last token: ids (B, N), right-padded, of lengths (B,) ->
    (B, N + 1).
    """
    return F.pad(ids, (0, 1), value=PAD).scatter(1, lengths.unsqueeze(1), EOS)


def encoder_input(ids: Tensor, lengths: Tensor, *, source_eos: bool) -> tuple[Tensor, Tensor]:
    """Return sources (B, N) and lengths (B,) as the encoder takes them: with `<eos>` if
    `source_eos`.
    """
    return (append_eos(ids, lengths), lengths + 1) if source_eos else (ids, lengths)


def make_batch(examples: Examples, *, source_eos: bool) -> Batch:
    """Return the batch of these examples: the decoder's input is `<sos>` and the target, its output
    the target and `<eos>`. With `source_eos`, each source ends with `<eos>`, too.
    """
    source, source_lengths = encoder_input(
        examples.source, examples.source_lengths, source_eos=source_eos
    )
    alignment = examples.alignment
    return Batch(
        source=source,
        source_lengths=source_lengths,
        decoder_input=F.pad(examples.target, (1, 0), value=SOS),  # (B, L)
        decoder_output=append_eos(examples.target, examples.target_lengths),
        target_lengths=examples.target_lengths,
        alignment=None if alignment is None else F.pad(alignment, (0, 1), value=-1),  # at `<eos>`
    )


def drop_words(batch: Batch, share: float, random: torch.Generator) -> Batch:
    """Replace each token of the decoder's input by `<pad>` with the probability `share`; `<sos>`
    stays. A share of 0 draws no random number.
    """
    if not share:
        return batch
    ids = batch.decoder_input
    dropped = torch.rand(ids.shape, generator=random, device=ids.device) < share
    return replace(batch, decoder_input=ids.masked_fill(dropped & (ids != SOS), PAD))


# ---- random numbers ----


def generator(device: torch.device | str, *key: int | str) -> torch.Generator:
    """Return a generator whose stream depends only on `key`, such as (seed, "training", 17)."""
    # 63 bits: a seed that a signed number of 64 holds, too
    return torch.Generator(device).manual_seed(stable_hash(repr(key)) >> 1)


def draw_integers(random: torch.Generator, low: int, high: int, *shape: int) -> Tensor:
    """Draw uniform whole numbers from `low` to `high`, both included, on the generator's device."""
    return torch.randint(low, high + 1, shape, generator=random, device=random.device)


def stable_hash(text: str) -> int:
    """Return a number below 2**64 that depends on `text` alone, unlike Python's `hash`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
