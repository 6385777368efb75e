"""`walk V;PST -> walked`, from files"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Generator

from seq2attn.data.batches import Examples, draw_integers
from seq2attn.data.format import Format, PairFile
from seq2attn.data.pairs import left_out_of, load_pairs
from seq2attn.data.tasks import Task
from seq2attn.data.warnings import warnings
from seq2attn.errors import Seq2AttnError, left_out_notes


class Pairs(Task):
    """Pairs of strings from tab-separated files: pronunciation, inflection, transliteration,
    spelling.

    train, dev: the paths of the files of training and of the dev set. form: the fields of `Format`.

    Symbols and lengths are those of the training file. With `learned`, which `learned()` returned,
    no file is opened and the task has no pairs. Raises `Seq2AttnError` for a file that cannot be
    read.
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
            files = {
                "train": load_pairs(Path(train), self.form),
                "dev": load_pairs(Path(dev), self.form),
            }
            self.training_set = files["train"].pairs
            self.dev_set = files["dev"].pairs
            learned = self._learn(files)
            self.notes = [
                *left_out_notes(left_out_of(file.record for file in files.values())),
                *warnings(self.training_set, self.dev_set, self.form),
            ]
        self._learned = learned
        self.source_vocabulary, self.target_vocabulary = self.form.vocabularies(
            learned["source"], learned["target"], learned["features"] or ()
        )
        self.min_length, self.max_length = learned["source_lengths"]

    def sources(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the number of each line of input that has a source, from 1, and its source: lines
        are words, or those of a file whose last columns, such as the answer, may be missing.
        Comments have no source, nor has the header of a file, which says where the columns are.
        """
        form = self.form
        for index, (number, line) in enumerate(form.rows(lines)):
            # (a first line of one column is a word, not a header)
            if index == 0 and form.has_header and len(form.split(line)) > 1:
                form = form.named(line)
            else:
                yield number, form.source_of(line)

    def source(self, text: str) -> str:
        return self.form.canonical(text)

    @property
    def left_out(self) -> dict[str, int]:
        return left_out_of(self._learned["files"].values())

    def learned(self) -> Mapping[str, Any]:
        return self._learned

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw training pairs, with replacement. Raises `Seq2AttnError` if there are none, and for
        a `length`: no pairs are drawn by that.
        """
        pool = self.training_set
        if not pool or length is not None:
            raise Seq2AttnError("pairs are only drawn for training, from its file, of any length")
        rows = draw_integers(random, 0, len(pool) - 1, count)
        return self.encode([pool[row] for row in rows.tolist()], random.device)

    def target_length(self, source_length: int) -> int:
        """Return the length of the longest target of the training file; for sources longer than
        those there, in proportion.
        """
        length = max(source_length, self.max_length)
        return -(-self._learned["longest_target"] * length // self.max_length)  # rounded up

    def _learn(self, files: Mapping[str, PairFile]) -> dict[str, Any]:
        """Return what a run keeps: of training, the symbols of sources and targets, and the
        features, None if the format has none; how many symbols and features the shortest and the
        longest source have together; how many symbols the longest target has; and a record of each
        file.

        files: name of a split, train or dev -> its file.
        """
        read, write = self.form.vocabularies()
        sources = [read.split(source) for source, _ in files["train"].pairs]
        targets = [write.symbols_of(target) for _, target in files["train"].pairs]
        lengths = [len(symbols) + len(features) for symbols, features in sources]
        features = set().union(*(features for _, features in sources))
        return {
            "source": sorted(set().union(*(symbols for symbols, _ in sources))),
            "target": sorted(set().union(*targets)),
            "features": sorted(features) if self.form.features_column else None,
            "source_lengths": [min(lengths), max(lengths)],
            "longest_target": max(map(len, targets)),
            "files": {split: file.record for split, file in files.items()},
        }
