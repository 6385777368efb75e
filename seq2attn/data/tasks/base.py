"""The interface of every task, and the examples that a task draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from seq2attn import parts
from seq2attn.data.padding import pad_rows
from seq2attn.data.pairs import Pair
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import RANDOM
from seq2attn.registry import Registry


@dataclass(frozen=True)
class Examples:
    """N sources with their targets: ids without `<sos>` and `<eos>`, right-padded with `<pad>`."""

    source: Tensor  # (N, S) ids of the source vocabulary
    source_lengths: Tensor  # (N,)
    target: Tensor  # (N, T) ids of the target vocabulary
    target_lengths: Tensor  # (N,), 1 or more
    alignment: Tensor | None = None
    """(N, T) the source position that each target position copies, -1 past the target's end; None
    if nothing is copied"""


@dataclass(frozen=True)
class Solution:
    """The right answer to one source, and the source position that each of its characters copies,
    if it copies any.
    """

    text: str
    alignment: tuple[int, ...] | None = None


class Task(ABC):
    """Pairs of source and target strings. The constructor takes the options as keywords and sets
    these attributes.
    """

    registry: ClassVar[Registry] = parts.TASKS

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    min_length: int  # shortest source in training, symbols
    max_length: int  # longest source in training
    training_set: Sequence[Pair] | None = None
    """the pairs that training goes through, epoch after epoch; None: examples are drawn without end
    """
    dev_set: Sequence[Pair] = ()
    """with a training set: the pairs that training is measured on, to choose the best weights"""
    notes: Sequence[str] = ()  # what a user should know about the task's data before training

    @abstractmethod
    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """`count` random examples on the generator's device: sources of training lengths, or all of
        `length`.

        They depend only on `random` and the arguments. Training draws without `length`, evaluation
        with it: a task that keeps sources for evaluation draws those then. Raises `Seq2AttnError`
        for a `length` that no source has.
        """

    @abstractmethod
    def target_length(self, source_length: int) -> int:
        """The length of the longest target of sources of this length."""

    @property
    def families(self) -> Sequence[str]:
        """The families of strings that the task can be measured on; `parts.FAMILIES` describes
        them.
        """
        return (RANDOM,)

    def family(self, name: str, random: torch.Generator, count: int, length: int) -> Examples:
        """`count` examples with sources of `length` of one of `families`; `random` is what
        `examples` draws.
        """
        assert name == RANDOM, "check_evaluation refuses others"
        return self.examples(random, count, length)

    def check_evaluation(self, names: Sequence[str], lengths: Sequence[int]) -> None:
        """Raise `Seq2AttnError` unless the task can be measured on these families and, if it draws
        them, lengths.
        """
        if missing := [name for name in names if name not in self.families]:
            name, own = type(self).__name__, ", ".join(self.families)
            raise Seq2AttnError(
                f"the task {name} cannot be measured on {', '.join(missing)}; its families: {own}",
                hint="Families of strings need a task on free strings over one alphabet, such as reverse or copy.",
            )
        for length in lengths if self.training_set is None else ():
            self.examples(torch.Generator(), 1, length)

    def answer(self, text: str) -> Solution | None:
        """The right answer to `text`; None if the task does not know it."""
        return None

    def source_of(self, line: str) -> str:
        """The source in a line of input."""
        return line

    def learned(self) -> Mapping[str, Any] | None:
        """What the task took from its files, as plain JSON values: its constructor rebuilds it from
        them, as `learned`, without opening a file. None for a task without files.
        """
        return None

    def is_trained(self, length: int) -> bool:
        """Whether sources of this length occur in training."""
        return self.min_length <= length <= self.max_length

    @property
    def trained_lengths(self) -> Sequence[int]:
        """The lengths that sources have in training."""
        return [
            length
            for length in range(self.min_length, self.max_length + 1)
            if self.is_trained(length)
        ]

    def encode(self, pairs: Sequence[tuple[str, str]], device: torch.device) -> Examples:
        """Examples without alignment. Raises `Seq2AttnError` for an empty text or a character
        outside its vocabulary.
        """
        source = pad_rows([self.source_vocabulary.encode(text) for text, _ in pairs], device)
        target = pad_rows([self.target_vocabulary.encode(text) for _, text in pairs], device)
        return Examples(*source, *target)
