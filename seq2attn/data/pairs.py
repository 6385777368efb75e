"""Pairs of strings from tab-separated files, read strictly: every malformed line is reported, and nothing is guessed.

Imports no torch.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from seq2attn.data.vocabulary import composed
from seq2attn.errors import Seq2AttnError, closest, shown

LARGEST_FILE = 200_000_000  # bytes
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
    columns: int | None = None
    """columns of each line; None: as many as the last one named"""
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

    def read(self, line: str) -> Pair:
        """The pair of one line. Raises `ValueError` with what is wrong with it."""
        fields = line.split("\t")
        if not line.strip():
            raise ValueError("it is empty")
        if len(fields) != self.width:
            names = ", ".join(f"{what} in column {number}" for number, what in self.named)
            raise ValueError(f"found {_counted(len(fields), 'column')}, expected {self.width} ({names})")
        for number, what in self.named:
            if not fields[number - 1].strip():
                raise ValueError(f"the {what} (column {number}) is empty")
        fields = [composed(field, self.normalise) for field in fields]
        source, target = fields[self.source_column - 1], fields[self.target_column - 1]
        for what, text, separator in (
            ("source", source, self.source_separator),
            ("target", target, self.target_separator),
        ):
            if separator and "" in text.split(separator):
                raise ValueError(
                    f"the {what} {shown(text)} has an empty symbol; expected symbols with one {separator!r} between them"
                )
        if self.features_column is not None:
            features = fields[self.features_column - 1]
            if "" in features.split(";"):
                raise ValueError(f"the features {shown(features)} have an empty one; expected ';' between them")
            source = f"{source}\t{features}"
        return source, target


@dataclass(frozen=True)
class FileRecord:
    """What a run keeps of a file of pairs, to recognise it."""

    name: str
    bytes: int
    pairs: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(str(record["name"]), int(record["bytes"]), int(record["pairs"]), str(record["sha256"]))


@dataclass(frozen=True)
class PairFile:
    """The pairs of one file, in its order."""

    path: Path
    record: FileRecord
    pairs: tuple[Pair, ...]

    def repetitions(self) -> str | None:
        """What a user should know about lines that repeat others; None if there are none."""
        repeated = len(self.pairs) - len(set(self.pairs))
        several = sum(count > 1 for count in Counter(source for source, _ in set(self.pairs)).values())
        repeat = "1 line repeats" if repeated == 1 else f"{repeated:,} lines repeat"
        found = [f"{repeat} an earlier one exactly"] if repeated else []
        found += [f"{_counted(several, 'source')} with more than one target"] if several else []
        return f"{self.path}: {'; '.join(found)}" if found else None


def read_pairs(path: Path, form: Format, if_missing: str = "") -> PairFile:
    """Read a UTF-8 file, one pair a line. Raises `Seq2AttnError` for a file or lines that cannot be read.

    if_missing: what to do if there is no such file.
    """
    data = _read_bytes(path, if_missing)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Seq2AttnError(f"{path}: the file is UTF-16 text", hint="Save it as UTF-8.")
    pairs, problems, count = [], [], 0
    for number, line in _lines(data):
        count += 1
        try:
            pairs.append(form.read(_decode(line)))
        except ValueError as error:
            problems.append(f"  line {number}: {error}")
    if problems:
        raise Seq2AttnError(_listed(path, problems, count), hint=_hint(form, problems))
    if not pairs:
        raise Seq2AttnError(f"{path}: the file is empty; expected one pair a line, its columns separated by tabs")
    return PairFile(path, FileRecord(path.name, len(data), len(pairs), hashlib.sha256(data).hexdigest()), tuple(pairs))


def _read_bytes(path: Path, if_missing: str) -> bytes:
    """The contents of a regular file; a pipe or a device is neither waited for nor read."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "a directory, not a file of pairs")
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise Seq2AttnError(f"{path}: no such file", hint=_nearby(path, if_missing)) from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST_FILE:
        message = f"{path}: the file is larger than {LARGEST_FILE:,} bytes, the most that is read"
        raise Seq2AttnError(message, hint="Train on a part of it.")
    return data


def _nearby(path: Path, advice: str) -> str:
    try:
        names = [item.name for item in path.parent.iterdir() if item.is_file()]
    except OSError:
        return advice
    close = closest(path.name, names)
    return " ".join(filter(None, (close and f"Did you mean {path.parent / close}?", advice)))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Line numbers, from 1, and lines without their ends; a byte order mark and a last line end are not part of them."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix(b"\r")


def _decode(line: bytes) -> str:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it has {len(line):,} bytes; at most {LONGEST_LINE:,} are allowed")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        found = line[error.start]
        raise ValueError(f"it is not UTF-8 text (byte {error.start + 1} is 0x{found:02x})") from None
    for character, name in (("\0", "a NUL byte"), ("\r", "a carriage return")):
        if character in text:
            raise ValueError(f"it contains {name} (character {text.index(character) + 1})")
    return text


def _listed(path: Path, problems: list[str], count: int) -> str:
    more = [f"  and {len(problems) - MOST_LISTED:,} more"] if len(problems) > MOST_LISTED else []
    head = f"{path}: {len(problems):,} of {_counted(count, 'line')} cannot be read"
    return "\n".join([head, *problems[:MOST_LISTED], *more])


def _hint(form: Format, problems: list[str]) -> str:
    rule = "Save it as UTF-8, one pair a line, a tab between columns."
    if not any(", expected " in problem for problem in problems):
        return rule
    return (
        f"{rule} task.source_column, task.target_column and task.features_column say which columns are used; "
        f"if there are more than {form.width}, set task.columns."
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
