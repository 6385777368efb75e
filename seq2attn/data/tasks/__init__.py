"""Tasks: a task draws its own examples and has its own vocabularies. There are two base classes.

`StringTask`  each character of the target copies a character of the source: write `alignment`, as
              in `strings.py`
`Task`        anything else, such as a computed target, as in `computed.py`

docs/plugins.md has a task of each kind in a file of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator

from seq2attn import parts
from seq2attn.data.batches import EncodedPair, Examples, pad_pairs
from seq2attn.data.format import Pair
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Registry


@dataclass(frozen=True)
class Solution:
    """The right answer to one source, and the source position that each of its characters copies;
    None if it copies none.
    """

    text: str
    alignment: tuple[int, ...] | None = None


class Task(ABC):
    """Pairs of source and target strings.

    The constructor takes the options as keywords, and sets the attributes below that have no
    default.
    """

    registry: ClassVar[Registry] = parts.TASKS

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    min_length: int  #: shortest source in training, symbols
    max_length: int  #: longest source in training
    training_set: Sequence[Pair] | None = None
    """the pairs that training goes through, epoch after epoch; None: examples are drawn without end
    """
    dev_set: Sequence[Pair] = ()
    """with a training set: the pairs that training is measured on, to choose the best weights"""
    notes: Sequence[str] = ()  #: what a user should know about the task's data before training

    @abstractmethod
    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw `count` examples on the generator's device: sources of the lengths of training, or,
        if `length` is given, all of this length.

        They depend only on `random` and the arguments. Training draws without `length`, evaluation
        with it: a task that keeps sources for evaluation draws those then. Raises `Seq2AttnError`
        for a `length` that no source has.
        """

    @abstractmethod
    def target_length(self, source_length: int) -> int:
        """Return the length of the longest target of sources of this length."""

    @property
    def families(self) -> Sequence[str]:
        """The families of strings that the task can be measured on; `parts.FAMILIES` describes
        them.
        """
        return (parts.RANDOM,)

    def family(self, name: str, random: Generator, count: int, length: int) -> Examples:
        """Draw `count` examples with sources of `length` of one of `families`; `random` is the
        family that `examples` draws.
        """
        assert name == parts.RANDOM, "check_evaluation refuses others"
        return self.examples(random, count, length)

    def check_evaluation(self, names: Sequence[str], lengths: Sequence[int]) -> None:
        """Raise `Seq2AttnError` unless the task can be measured on the families of these names and,
        if it draws its examples, on sources of these lengths.
        """
        if missing := [name for name in names if name not in self.families]:
            raise Seq2AttnError(
                f"the task {type(self).__name__} cannot be measured on {', '.join(missing)}; "
                f"its families: {', '.join(self.families)}",
                hint="Families of strings need a task on free strings over one alphabet, "
                "such as reverse or copy.",
            )
        if self.training_set is None:  # otherwise a file is measured, which has its own lengths
            for length in lengths:
                # only to see whether it raises, for a length without sources
                self.examples(Generator(), 1, length)

    def answer(self, text: str) -> Solution | None:
        """Return the right answer to `text`; None if the task does not know it."""
        return None

    def source(self, text: str) -> str:
        """Return a source as the model reads it."""
        return text

    def sources(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the number of each line of input that has a source, from 1, and its source."""
        return enumerate(lines, start=1)

    def learned(self) -> Mapping[str, Any] | None:
        """Return what the task took from its files, as plain JSON values: its constructor rebuilds
        it from them, as `learned`, without opening a file. None for a task without files.
        """
        return None

    @property
    def left_out(self) -> dict[str, int]:
        """How many malformed lines of its files were left out, by the name of the file."""
        return {}

    def share_drawn(self, length: int, examples: int) -> float | None:
        """Return the expected share of all sources of `length` that so many training examples
        contain; None if it is unknown.
        """
        return None

    @property
    def is_aligned(self) -> bool:
        """True if it knows the source position that each character of a target copies: examples of
        a task that draws them show it; pairs of a file have none.
        """
        return self.training_set is None and self.examples(Generator(), 1).alignment is not None

    def is_trained(self, length: int) -> bool:
        """True if sources of this length occur in training."""
        return self.min_length <= length <= self.max_length

    @property
    def trained_lengths(self) -> Sequence[int]:
        """The lengths that sources have in training."""
        return list(filter(self.is_trained, range(self.min_length, self.max_length + 1)))

    def encode(self, pairs: Sequence[Pair], device: torch.device) -> Examples:
        """Return pairs of texts as examples without alignment. Raises `Seq2AttnError` for an empty
        text or a character outside its vocabulary.
        """
        return pad_pairs(self.encode_pairs(pairs), device)

    def encode_pairs(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Return the ids of each pair; raises as `encode` does."""
        return [
            (self.source_vocabulary.encode(source), self.target_vocabulary.encode(target))
            for source, target in pairs
        ]
