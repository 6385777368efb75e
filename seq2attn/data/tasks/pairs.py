"""`walk V;PST -> walked`, from files"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field, PositiveInt, ValidationError
from torch import Generator

from seq2attn.data.pairs import VARIANT, Format, PairFile, load_pairs
from seq2attn.data.tasks.base import Examples, Task, draw_integers
from seq2attn.data.vocabulary import FEATURES, SPECIAL, UNKNOWN, Vocabulary, normal_form
from seq2attn.errors import Seq2AttnError
from seq2attn.options import Section
from seq2attn.text import character_name, first_of, quoted


class Learned(Section):
    """What a run keeps of its files: the symbols and lengths of the training file, and a record of
    both files.
    """

    source: list[str]
    target: list[str]
    features: list[str] | None
    source_lengths: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)]
    """symbols of the shortest and of the longest source"""
    longest_target: PositiveInt
    files: dict[str, dict[str, Any]]


class Pairs(Task):
    """Pairs of strings from tab-separated files: pronunciation, inflection, transliteration,
    spelling.

    Symbols and lengths are those of the training file. With `learned`, which `learned()` returned,
    no file is opened and the task has no pairs. form: the fields of `Format`. Raises
    `Seq2AttnError` for a file that cannot be read.
    """

    def __init__(
        self,
        *,
        train: str = "",
        dev: str = "",
        learned: Mapping[str, Any] | None = None,
        **form: Any,
    ) -> None:
        self.form = Format(**form)
        if learned is None:
            files = {"train": self.load_pairs(train), "dev": self.load_pairs(dev)}
            self.training_set = files["train"].pairs
            self.dev_set = files["dev"].pairs
            learned = self._learn(files)
        try:
            self._learned = Learned.model_validate(learned)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            message = f"what the task learned from its files is damaged: {where}: {problem['msg']}"
            raise Seq2AttnError(message) from None
        self.source_vocabulary, self.target_vocabulary = self._vocabularies(
            self._learned.source, self._learned.target, self._learned.features
        )
        self.min_length, self.max_length = self._learned.source_lengths
        if self.training_set:
            self.notes = list(self._warnings())

    def load_pairs(self, path: str | Path) -> PairFile:
        """Load another file of the same format."""
        return load_pairs(Path(path), self.form)

    def sources(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Read words, or lines of a file, of which the columns after the last one that a source
        needs may be missing. Comments, and the header of a file, have no source.
        """
        column = self.form.source_column
        features = self.form.features_column
        for number, line in self.form.rows(lines, allow_words=True):
            fields = self.form.split(line)
            if len(fields) == 1:
                line = fields[0]
            elif max(column, features or 0) <= len(fields) <= self.form.width:
                line = fields[column - 1]
                line += FEATURES + fields[features - 1] if features else ""
            yield number, self.form.without_variant(line)

    def learned(self) -> Mapping[str, Any]:
        return self._learned.model_dump()

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw training pairs, with replacement."""
        symbols_of = self.source_vocabulary.symbols_of
        pool = [
            pair
            for pair in self.training_set or ()
            if length is None or len(symbols_of(pair[0])) == length
        ]
        if not pool:
            wanted = length or "any number of"
            raise Seq2AttnError(f"no pair at hand has a source of {wanted} symbols")
        rows = draw_integers(random, 0, len(pool) - 1, count)
        return self.encode([pool[row] for row in rows.tolist()], random.device)

    def target_length(self, source_length: int) -> int:
        """Return the length of the longest target of the training file; for sources longer than
        those there, in proportion.
        """
        length = max(source_length, self.max_length)
        return -(-self._learned.longest_target * length // self.max_length)  # rounded up

    def _learn(self, files: Mapping[str, PairFile]) -> dict[str, Any]:
        """Collect the symbols and lengths of the training file."""
        pairs = files["train"].pairs
        source_vocabulary, target_vocabulary = self._vocabularies([], [], [])
        sources = [source_vocabulary.split(source) for source, _ in pairs]
        targets = [target_vocabulary.symbols_of(target) for _, target in pairs]
        lengths = [len(symbols) + len(features) for symbols, features in sources]
        features = _distinct(features for _, features in sources)
        return {
            "source": _distinct(symbols for symbols, _ in sources),
            "target": _distinct(targets),
            "features": None if self.form.features_column is None else features,
            "source_lengths": [min(lengths), max(lengths)],
            "longest_target": max(map(len, targets)),
            "files": {split: file.record for split, file in files.items()},
        }

    def _vocabularies(
        self, source: list[str], target: list[str], features: list[str] | None
    ) -> tuple[Vocabulary, Vocabulary]:
        form = self.form
        make = partial(Vocabulary, unknown=True, normalise=form.normalise)
        return (
            make(source, separator=form.source_separator, features=features),
            make(target, separator=form.target_separator),
        )

    def _warnings(self) -> Iterator[str]:
        """Warn of what spoils training: a file in another format, or pairs that cannot be learned
        or measured.
        """
        pairs, dev_pairs = self.training_set or (), self.dev_set
        known = set(pairs)
        shared = sum(pair in known for pair in dev_pairs)
        if shared:
            yield (
                f"warning: {shared:,} of {len(dev_pairs):,} dev pairs are also in the training file"
            )
        lengths = [max(map(len, pair)) for pair in pairs]
        longest, usual = max(lengths), median(lengths)
        if longest > max(1000, 20 * usual):
            yield (
                f"warning: a pair has {longest:,} characters, the median {usual:g}; "
                "memory grows with the longest squared"
            )
        separator = self.form.target_separator
        targets = [target for _, target in pairs if len(target) > 1]
        if targets and separator and not any(separator in target for target in targets):
            yield (
                f"warning: no target contains the separator {separator!r}, so that each target is "
                "one symbol; if each character is a symbol, set task.target_separator to ''"
            )
        elif pairs[0] == dev_pairs[0] and pairs != dev_pairs and not self.form.header:
            line = " -> ".join(map(quoted, pairs[0]))
            yield (
                f"warning: line 1, {line}, is read as a pair; if it is a header, "
                "add --set task.header=true"
            )
        variants = [source for source, _ in pairs if re.match(VARIANT, source)]
        if variants:
            yield (
                f"warning: {len(variants):,} of the sources end in a number in parentheses, as "
                f"{quoted(variants[0])}; if it counts right answers, add --set task.variants=true"
            )
        commented = [target for _, target in pairs if " #" in target]
        if commented:
            yield (
                f"warning: {len(commented):,} of the targets contain ' #', as "
                f"{quoted(commented[0])}; if a comment begins there, add --set 'task.comment=\"#\"'"
            )
        if targets and all(target[0] == target[-1] == '"' for target in targets):
            yield (
                "warning: all targets are in quotation marks, which only a task.delimiter such as "
                "',' or ';' takes off"
            )
        vocabularies = {"sources": self.source_vocabulary, "targets": self.target_vocabulary}
        for side, (name, vocabulary) in enumerate(vocabularies.items()):
            special = [symbol for symbol in (*SPECIAL, UNKNOWN) if symbol in vocabulary.ids]
            if special:
                yield (
                    f"note: the {name} contain {first_of(special)}, read as a symbol of the file, "
                    "beside the model's own of that name"
                )
            unseen = [vocabulary.unseen(pair[side]) for pair in dev_pairs]
            unseen = [symbols for symbols in unseen if symbols]
            if unseen:
                symbols = _distinct(unseen)
                names = first_of([character_name(symbol) for symbol in symbols])
                note = (
                    f"warning: {len(unseen):,} of {len(dev_pairs):,} dev {name} have symbols that "
                    f"the training file lacks: {names}"
                )
                composed = any(symbol != normal_form(symbol, "nfd") for symbol in symbols)
                if composed and not vocabulary.separator:
                    note += "; --set task.normalise=nfd reads and writes a character's parts"
                yield note


def _distinct(rows: Iterable[Sequence[str]]) -> list[str]:
    return sorted({symbol for row in rows for symbol in row})
