"""`walk V;PST -> walked`, from files"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from seq2attn.data.pairs import Format, PairFile, read_pairs
from seq2attn.data.tasks.base import Examples, Task
from seq2attn.data.vocabulary import FEATURES, Vocabulary
from seq2attn.errors import Seq2AttnError, first_of

FEW = 100  # pairs of a training file
IF_MISSING = (
    "Name your own with --set task.train=FILE --set task.dev=FILE. "
    "Paths in a config are relative to the config's file, those of --set to the working directory."
)
MANY = 0.9  # share of targets with a space, above which it probably separates symbols


class Pairs(Task):
    """Pairs of strings from tab-separated files: pronunciation, inflection, transliteration, spelling.

    Symbols and lengths are those of the training file. With `learned`, which is what `learned()` returned, no file is opened
    and the task has no pairs. Raises `Seq2AttnError` for a file that cannot be read.
    """

    def __init__(
        self,
        *,
        train: str | None = None,
        dev: str | None = None,
        test: str | None = None,
        source_column: int = 1,
        target_column: int = 2,
        features_column: int | None = None,
        columns: int | None = None,
        source_separator: str = "",
        target_separator: str = "",
        split_targets: bool = False,
        normalise: str = "nfc",
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        chosen_columns = (source_column, target_column, features_column, columns)
        self.form = Format(*chosen_columns, source_separator, target_separator, normalise)
        self.test, self.split_targets = test, split_targets
        if learned is None:
            if train is None or dev is None:
                message = "task 'pairs' needs two files: pairs to train on, and pairs to measure on during training"
                raise Seq2AttnError(message, hint="In a config: task: {name: pairs, train: train.tsv, dev: dev.tsv}")
            files = {
                split: read_pairs(Path(path), self.form, IF_MISSING) for split, path in (("train", train), ("dev", dev))
            }
            self.training_set, self.dev_set = files["train"].pairs, files["dev"].pairs
            self._restore(self._learn(files))
            self.notes = self._notes(files["train"], files["dev"])
            return
        try:
            self._restore(learned)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Seq2AttnError(f"what the task learned from its files is damaged: {error!r}") from None

    def read(self, path: str | Path) -> PairFile:
        """The pairs of another file of the same format."""
        return read_pairs(Path(path), self.form)

    def source_of(self, line: str) -> str:
        """The source in `line`: a whole line of a file, whose other columns are dropped, or the source itself."""
        fields, features = line.split("\t"), self.form.features_column
        if len(fields) != self.form.width or self.form.width <= 1 + (features is not None):
            return line
        source = fields[self.form.source_column - 1]
        return source if features is None else f"{source}{FEATURES}{fields[features - 1]}"

    def learned(self) -> Mapping[str, Any]:
        return self._learned

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """Training pairs, drawn with replacement."""
        if self.training_set is None:
            raise Seq2AttnError("a run keeps no pairs: they are in its files")
        vocabulary = self.source_vocabulary
        found = [pair for pair in self.training_set if length in (None, len(vocabulary.symbols_of(pair[0])))]
        if not found:
            raise Seq2AttnError(f"no source in the training file has {length} symbols")
        rows = torch.randint(len(found), (count,), generator=random, device=random.device)
        return self.encode([found[row] for row in rows.tolist()], random.device)

    def target_length(self, source_length: int) -> int:
        """The longest target of the training file; for longer sources than there, in proportion."""
        return -(-self.longest_target * max(source_length, self.max_length) // self.max_length)

    # ---- reading and restoring ----

    def _learn(self, files: Mapping[str, PairFile]) -> dict[str, Any]:
        """Vocabularies and lengths of the training file, and a record of both files."""
        pairs = files["train"].pairs
        read, write = self._vocabularies([], [], None if self.form.features_column is None else [])
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

    def _restore(self, learned: Mapping[str, Any]) -> None:
        form, features, self._learned = self.form, learned["features"], learned
        if (features is None) != (form.features_column is None):
            raise ValueError("features")
        self.source_vocabulary, self.target_vocabulary = self._vocabularies(
            _checked(learned["source"]), _checked(learned["target"]), None if features is None else _checked(features)
        )
        self.min_length, self.max_length = map(int, learned["source_lengths"])
        self.longest_target = int(learned["longest_target"])
        if not 1 <= self.min_length <= self.max_length or self.longest_target < 1:
            raise ValueError("lengths")
        if any(record.keys() != {"name", "bytes", "pairs", "sha256"} for record in learned["files"].values()):
            raise ValueError("files")

    def _vocabularies(
        self, source: list[str], target: list[str], features: list[str] | None
    ) -> tuple[Vocabulary, Vocabulary]:
        form, make = self.form, partial(Vocabulary, unknown=True, normalise=self.form.normalise)
        return (
            make(source, separator=form.source_separator, features=features),
            make(target, separator=form.target_separator, split=self.split_targets),
        )

    def _notes(self, train: PairFile, dev: PairFile) -> list[str]:
        """What a user should know about the files: repetitions, few pairs, unseen symbols, a separator that may be wrong."""
        notes = [note for file in (train, dev) if (note := file.repetitions())]
        if len(train.pairs) < FEW:
            few = f"{train.path}: {len(train.pairs):,} pairs are very few to learn from; expect wrong or empty answers"
            notes.append(few)
        both = sum(map(set(train.pairs).__contains__, dev.pairs))
        if train.record["sha256"] == dev.record["sha256"]:
            same = "dev file and training file have the same contents: dev figures will show memorisation"
            notes.append(f"warning: {dev.path}: {same}")
        elif both:
            notes.append(f"{dev.path}: {both:,} of {len(dev.pairs):,} pairs are also in the training file")
        for place, side, vocabulary, effect in (
            (0, "source", self.source_vocabulary, "read as <unk>"),
            (1, "target", self.target_vocabulary, "the model cannot write them"),
        ):
            unseen = Counter(symbol for pair in dev.pairs for symbol in vocabulary.unseen(pair[place]))
            if unseen:
                names = first_of([repr(symbol) for symbol, _ in unseen.most_common()])
                notes.append(f"{dev.path}: {side} symbols that the training file lacks: {names}; {effect}")
        separator, targets = self.form.target_separator, [target for _, target in train.pairs]
        if not separator and sum(" " in target for target in targets) >= MANY * len(targets):
            notes.append("most targets contain spaces; if they separate symbols, set task.target_separator to ' '")
        if separator and not any(separator in target for target in targets) and max(map(len, targets)) > 1:
            notes.append(
                f"warning: no target contains the separator {separator!r}, so that each target is one symbol; if each "
                "character is a symbol, set task.target_separator to ''"
            )
        return notes


def _distinct(rows: Iterable[Sequence[str]]) -> list[str]:
    return sorted({symbol for row in rows for symbol in row})


def _checked(symbols: Any) -> list[str]:
    """`symbols`, if it is a list of distinct texts."""
    distinct = isinstance(symbols, list) and len(set(symbols)) == len(symbols)
    if not distinct or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise ValueError("symbols")
    return list(symbols)
