"""`walk V;PST -> walked`, from files"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
from pydantic import Field, PositiveInt, ValidationError

from seq2attn.data.pairs import Format, Pair, PairFile, read_pairs
from seq2attn.data.tasks.base import Examples, Task
from seq2attn.data.vocabulary import FEATURES, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.options import Section
from seq2attn.text import character_name, first_of, quoted


class Learned(Section):
    """What a run keeps of its files: symbols and lengths of the training file, and a record of
    both.
    """

    source: list[str]
    target: list[str]
    features: list[str] | None
    source_lengths: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)]
    """of the shortest and the longest source, symbols"""
    longest_target: PositiveInt
    files: dict[str, dict[str, Any]]


class Pairs(Task):
    """Pairs of strings from tab-separated files: pronunciation, inflection, transliteration,
    spelling.

    Symbols and lengths are those of the training file. With `learned`, which is what `learned()`
    returned, no file is opened and the task has no pairs. form: how a line is read, the fields of
    `Format`. Raises `Seq2AttnError` for a file that cannot be read.
    """

    def __init__(
        self,
        *,
        train: str = "",
        dev: str = "",
        split_targets: bool = False,
        learned: Mapping[str, Any] | None = None,
        **form: Any,
    ) -> None:
        self.form, self.split_targets = Format(**form), split_targets
        if learned is None:
            files = {split: self.read(path) for split, path in (("train", train), ("dev", dev))}
            self.training_set, self.dev_set = files["train"].pairs, files["dev"].pairs
            learned = self._learn(files)
        try:
            kept = self._learned = Learned.model_validate(learned)
        except ValidationError as error:
            raise Seq2AttnError(
                f"what the task learned from its files is damaged: {error}"
            ) from None
        self.source_vocabulary, self.target_vocabulary = self._vocabularies(
            kept.source, kept.target, kept.features
        )
        self.min_length, self.max_length = kept.source_lengths
        self.notes = [*self._notes(self.training_set, self.dev_set)] if self.training_set else []

    def read(self, path: str | Path) -> PairFile:
        """The pairs of another file of the same format."""
        return read_pairs(Path(path), self.form)

    def source_of(self, line: str) -> str:
        """The source in `line`: a whole line of a file, whose other columns are dropped, or the
        source itself.
        """
        fields, features = self.form.fields(line), self.form.features_column
        if len(fields) != self.form.width:
            return line
        source = fields[self.form.source_column - 1]
        return source if features is None else f"{source}{FEATURES}{fields[features - 1]}"

    def learned(self) -> Mapping[str, Any]:
        return self._learned.model_dump()

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """Training pairs, drawn with replacement."""
        symbols_of, pairs = self.source_vocabulary.symbols_of, self.training_set or ()
        found = [pair for pair in pairs if length in (None, len(symbols_of(pair[0])))]
        if not found:
            raise Seq2AttnError(
                f"no pair at hand has a source of {length or 'any number of'} symbols"
            )
        rows = torch.randint(len(found), (count,), generator=random, device=random.device)
        return self.encode([found[row] for row in rows.tolist()], random.device)

    def target_length(self, source_length: int) -> int:
        """The longest target of the training file; for longer sources than there, in proportion."""
        return -(
            -self._learned.longest_target * max(source_length, self.max_length) // self.max_length
        )

    def _learn(self, files: Mapping[str, PairFile]) -> dict[str, Any]:
        read, write = self._vocabularies([], [], None if self.form.features_column is None else [])
        pairs = files["train"].pairs
        words, features = zip(*(read.parts_of(source) for source, _ in pairs), strict=True)
        targets = [write.symbols_of(target) for _, target in pairs]
        lengths = [len(word) + len(more) for word, more in zip(words, features, strict=True)]
        return {
            "source": _distinct(words),
            "target": _distinct(targets),
            "features": None if read.features is None else _distinct(features),
            "source_lengths": [min(lengths), max(lengths)],
            "longest_target": max(map(len, targets)),
            "files": {split: file.record for split, file in files.items()},
        }

    def _vocabularies(
        self, source: list[str], target: list[str], features: list[str] | None
    ) -> tuple[Vocabulary, Vocabulary]:
        form, make = self.form, partial(Vocabulary, unknown=True, normalise=self.form.normalise)
        read = make(source, separator=form.source_separator, features=features)
        return read, make(target, separator=form.target_separator, split=self.split_targets)

    def _notes(self, pairs: Sequence[Pair], measured: Sequence[Pair]) -> Iterator[str]:
        """What spoils a training: what may not be a pair, is on both sides, or cannot be learned."""
        if both := sum(map(set(pairs).__contains__, measured)):
            yield f"warning: {both:,} of {len(measured):,} dev pairs are also in the training file"
        usual, longest = median(sizes := [max(map(len, pair)) for pair in pairs]), max(sizes)
        if longest > max(1000, 20 * usual):
            yield f"warning: a pair has {longest:,} characters, the median {usual:g}; memory grows with the longest squared"
        (_, first), separator = pairs[0], self.form.target_separator
        targets = [target for _, target in pairs if len(target) > 1]
        whole = [target for target in targets if separator not in target]
        alone = (
            first in whole and len(first) > 2 and sum(first in target for target in targets) == 1
        )
        if whole and whole == targets:
            yield (
                f"warning: no target contains the separator {separator!r}, so that each target is one symbol; if each "
                "character is a symbol, set task.target_separator to ''"
            )
        elif not self.form.header and pairs != measured and (alone or pairs[0] == measured[0]):
            line = " -> ".join(map(quoted, pairs[0]))
            yield f"warning: line 1, {line}, is read as a pair; if it is a header, add --set task.header=true"
        if targets and all(target[0] == target[-1] == '"' for target in targets):
            yield "warning: all targets are in quotation marks, which only a task.delimiter such as ',' or ';' takes off"
        vocabularies = {"sources": self.source_vocabulary, "targets": self.target_vocabulary}
        for (what, vocabulary), texts in zip(
            vocabularies.items(), zip(*measured, strict=True), strict=True
        ):
            unseen = list(map(vocabulary.unseen, texts))
            if names := list(map(character_name, _distinct(unseen))):
                count = f"{sum(map(bool, unseen)):,} of {len(measured):,}"
                yield f"warning: {count} dev {what} have symbols that the training file lacks: {first_of(names)}"


def _distinct(rows: Sequence[Sequence[str]]) -> list[str]:
    return sorted({symbol for row in rows for symbol in row})
