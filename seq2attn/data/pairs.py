"""Pairs of strings from tab-separated files, read strictly: every malformed line is reported, and nothing is guessed.

Imports no torch.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.data.vocabulary import FEATURE, composed
from seq2attn.errors import LARGEST_FILE, Seq2AttnError, shown

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
        return self.columns or max(self.source_column, self.target_column, self.features_column or 0)

    def read(self, line: bytes) -> Pair:
        """The pair of one line, without its end. Raises `ValueError` with what is wrong with it."""
        if len(line) > LONGEST_LINE:
            raise ValueError(f"it has {len(line):,} bytes; at most {LONGEST_LINE:,} are allowed")
        text = line.decode()
        if found := re.search(r"[\0\r]", text):
            raise ValueError(f"it contains {found[0]!r} (character {found.start() + 1})")
        fields = text.split("\t")
        if len(fields) != self.width:
            raise ValueError(f"columns: found {len(fields)}, expected {self.width}")
        source = self._field("source", fields, self.source_column, self.source_separator)
        if self.features_column is not None:
            source += "\t" + self._field("features", fields, self.features_column, FEATURE)
        return source, self._field("target", fields, self.target_column, self.target_separator)

    def _field(self, what: str, fields: list[str], column: int, separator: str) -> str:
        field = composed(fields[column - 1], self.normalise)
        if not field.strip() or (separator and "" in field.split(separator)):
            raise ValueError(f"the {what} {shown(field)} (column {column}) is empty, or a part of it is")
        return field


@dataclass(frozen=True)
class PairFile:
    """The pairs of one file, in its order."""

    path: Path
    record: dict[str, Any]  # what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256
    pairs: tuple[Pair, ...]


def read_pairs(path: Path, form: Format) -> PairFile:
    """Read a UTF-8 file, one pair a line. Raises `Seq2AttnError` for a file or lines that cannot be read."""
    data = _read_bytes(path)
    lines = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")  # without a byte order mark
    pairs, problems = [], []
    for number, line in enumerate(lines, start=1):
        try:
            pairs.append(form.read(line.removesuffix(b"\r")))
        except ValueError as error:
            problems.append(f"  line {number}: {error}")
    if problems:
        more = [f"  and {len(problems) - MOST_LISTED:,} more"] if len(problems) > MOST_LISTED else []
        head = f"{path}: {len(problems):,} of {len(lines):,} lines cannot be read"
        hint = (
            "Save it as UTF-8, one pair a line, a tab between columns. task.source_column, task.target_column and "
            f"task.features_column say which columns are used; if there are more than {form.width}, set task.columns."
        )
        raise Seq2AttnError("\n".join([head, *problems[:MOST_LISTED], *more]), hint=hint)
    sha256 = hashlib.sha256(data).hexdigest()
    record = {"name": path.name, "bytes": len(data), "pairs": len(pairs), "sha256": sha256}
    return PairFile(path, record, tuple(pairs))


def _read_bytes(path: Path) -> bytes:
    """The contents of a regular file; a pipe or a device is not waited for."""
    most = LARGEST_FILE["pairs"]
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a regular file")
        with path.open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"it is larger than {most:,} bytes; train on a part of it")
    except FileNotFoundError:
        hint = "Paths in a config are relative to the config's file, those of options to the working directory."
        raise Seq2AttnError(f"{path}: no such file", hint=hint) from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return data
