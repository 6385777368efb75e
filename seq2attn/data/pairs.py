"""Pairs of strings from tab-separated files, read strictly: every malformed line is reported, and nothing is guessed.

Imports no torch.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.data.vocabulary import composed
from seq2attn.errors import LARGEST_FILE, Seq2AttnError, closest, shown

LONGEST_LINE = 10_000  # bytes
MOST_LISTED = 10  # malformed lines in one message

Pair = tuple[str, str]
"""a source, with its features after a tab if it has any, and its right answer"""


@dataclass(frozen=True)
class Format:
    """How a line is read. Columns are counted from 1."""

    source_column: int = 1
    target_column: int = 2
    features_column: int | None = None
    columns: int | None = None  # columns of each line; None: as many as the last one named
    source_separator: str = ""
    target_separator: str = ""
    normalise: str = "nfc"
    """Unicode's normal form in which symbols are read; texts are composed, also with nfd, unless it is none"""

    @property
    def width(self) -> int:
        """The columns that each line must have."""
        return self.columns or max(number for number, _ in self.named)

    @property
    def named(self) -> list[tuple[int, str]]:
        """The columns that are used, from left to right, and what each one holds."""
        columns = [(self.source_column, "source"), (self.target_column, "target")]
        columns += [(self.features_column, "features")] if self.features_column is not None else []
        return sorted(columns)

    def read(self, line: bytes) -> Pair:
        """The pair of one line, without its end. Raises `ValueError` with what is wrong with it."""
        if len(line) > LONGEST_LINE:
            raise ValueError(f"it has {len(line):,} bytes; at most {LONGEST_LINE:,} are allowed")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 text (byte {error.start + 1} is 0x{line[error.start]:02x})") from None
        if found := re.search(r"[\0\r]", text):
            raise ValueError(f"it contains {found[0]!r} (character {found.start() + 1})")
        if not text.strip():
            raise ValueError("it is empty")
        fields = [composed(field, self.normalise) for field in text.split("\t")]
        if len(fields) != self.width:
            names = ", ".join(f"{what} in column {number}" for number, what in self.named)
            raise ValueError(f"found {_counted(len(fields), 'column')}, expected {self.width} ({names})")
        separators = {"source": self.source_separator, "target": self.target_separator, "features": ";"}
        read = {}
        for number, what in self.named:
            read[what] = field = fields[number - 1]
            if not field.strip():
                raise ValueError(f"the {what} (column {number}) is empty")
            separator = separators[what]
            if separator and "" in field.split(separator):
                raise ValueError(
                    f"the {what} {shown(field)} has an empty part; expected one {separator!r} between parts"
                )
        source = f"{read['source']}\t{read['features']}" if "features" in read else read["source"]
        return source, read["target"]


@dataclass(frozen=True)
class PairFile:
    """The pairs of one file, in its order."""

    path: Path
    record: dict[str, Any]  # what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256
    pairs: tuple[Pair, ...]

    def repetitions(self) -> str | None:
        """What a user should know about lines that repeat others; None if there are none."""
        repeated = len(self.pairs) - len(set(self.pairs))
        several = sum(count > 1 for count in Counter(source for source, _ in set(self.pairs)).values())
        found = [f"{_counted(repeated, 'line')} repeating an earlier one exactly"] if repeated else []
        found += [f"{_counted(several, 'source')} with more than one target"] if several else []
        return f"{self.path}: {'; '.join(found)}" if found else None


def read_pairs(path: Path, form: Format, if_missing: str = "") -> PairFile:
    """Read a UTF-8 file, one pair a line. Raises `Seq2AttnError` for a file or lines that cannot be read.

    if_missing: what to do if there is no such file.
    """
    data = _read_bytes(path, if_missing)
    lines = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")  # without a byte order mark
    if lines == [b""]:
        raise Seq2AttnError(f"{path}: the file is empty; expected one pair a line, its columns separated by tabs")
    pairs, problems = [], []
    for number, line in enumerate(lines, start=1):
        try:
            pairs.append(form.read(line.removesuffix(b"\r")))
        except ValueError as error:
            problems.append(f"  line {number}: {error}")
    if problems:
        more = [f"  and {len(problems) - MOST_LISTED:,} more"] if len(problems) > MOST_LISTED else []
        head = f"{path}: {len(problems):,} of {_counted(len(lines), 'line')} cannot be read"
        hint = (
            "Save it as UTF-8, one pair a line, a tab between columns. task.source_column, task.target_column and "
            f"task.features_column say which columns are used; if there are more than {form.width}, set task.columns."
        )
        raise Seq2AttnError("\n".join([head, *problems[:MOST_LISTED], *more]), hint=hint)
    sha256 = hashlib.sha256(data).hexdigest()
    record = {"name": path.name, "bytes": len(data), "pairs": len(pairs), "sha256": sha256}
    return PairFile(path, record, tuple(pairs))


def _read_bytes(path: Path, if_missing: str) -> bytes:
    """The contents of a regular file; a pipe or a device is not waited for."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "a directory, not a file of pairs" if path.is_dir() else "not a regular file")
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE["pairs"] + 1)
    except FileNotFoundError:
        names = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
        close = closest(path.name, names)
        hint = " ".join(filter(None, (close and f"Did you mean {path.parent / close}?", if_missing)))
        raise Seq2AttnError(f"{path}: no such file", hint=hint) from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST_FILE["pairs"]:
        message = f"{path}: the file is larger than {LARGEST_FILE['pairs']:,} bytes, the most that is read"
        raise Seq2AttnError(message, hint="Train on a part of it.")
    return data


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
