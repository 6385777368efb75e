"""Pairs of strings from files of columns, read strictly: every malformed line is reported, and
nothing is guessed.

Imports no torch.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import itertools
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mode
from typing import Any

from seq2attn.data.vocabulary import FEATURE, composed
from seq2attn.errors import LARGEST_FILE, Seq2AttnError
from seq2attn.text import did_you_mean, first_of, quoted

LONGEST_LINE = 10_000  # characters
MOST_LISTED = 10  # kinds of malformed lines in one message
SAMPLE = 1000  # lines with which other formats are tried

Pair = tuple[str, str]
"""a source, with its features after a tab if it has any, and its right answer"""


@dataclass(frozen=True)
class Format:
    """How a file is read. Columns are counted from 1."""

    source_column: int = 1
    target_column: int = 2
    features_column: int | None = None
    columns: int | None = None  # columns of each line; None: as many as the last one named
    delimiter: str = "\t"
    header: bool = False
    comment: str = ""
    strip: bool = False
    source_separator: str = ""
    target_separator: str = ""
    normalise: str = "nfc"
    """Unicode's normal form in which symbols are read; texts are composed, also with nfd, unless it
    is none"""

    @property
    def width(self) -> int:
        """The columns that each line must have."""
        return self.columns or max(
            self.source_column, self.target_column, self.features_column or 0
        )

    def fields(self, line: str) -> list[str]:
        """The columns of a line; none if its quotation marks do not match."""
        if self.delimiter == " ":  # one or more; the last column may have some in it
            line = re.sub(" +", "\t", line.strip(" "), count=self.width - 1)
        plain = self.delimiter in "\t "
        try:
            fields = (
                line.split("\t")
                if plain
                else next(csv.reader([line], delimiter=self.delimiter, strict=True))
            )
        except csv.Error:
            return []
        return [field.strip() for field in fields] if self.strip else fields

    def read(self, line: str) -> Pair:
        """The pair of one line, without its end. Raises `ValueError` with what is wrong with it."""
        if wrong := re.search(
            "[\0\r\t\ud800-\udfff]", line.replace("\t", "") if self.delimiter == "\t" else line
        ):
            foreign = wrong[0] >= "\ud800"
            raise ValueError(
                "not UTF-8 text; save it as UTF-8" if foreign else f"it contains {quoted(wrong[0])}"
            )
        if not line.strip():
            raise ValueError("blank; remove it (only the last line may be blank)")
        if len(line) > LONGEST_LINE:
            raise ValueError(f"more than {LONGEST_LINE:,} characters")
        fields = self.fields(line)
        if len(fields) != self.width:
            columns = f"columns: found {len(fields)}, expected {self.width}"
            raise ValueError(columns if fields else "unmatched quotation marks")
        source = self._field("source", fields, self.source_column, self.source_separator)
        if self.features_column is not None:
            source += "\t" + self._field("features", fields, self.features_column, FEATURE)
        return source, self._field("target", fields, self.target_column, self.target_separator)

    def _field(self, what: str, fields: list[str], column: int, separator: str) -> str:
        field = composed(fields[column - 1], self.normalise)
        if not field or field != field.strip() or (separator and "" in field.split(separator)):
            raise ValueError(
                f"the {what} (column {column}) is empty, has an empty part, or a blank at an end"
            )
        return field


@dataclass(frozen=True)
class PairFile:
    """The pairs of one file, in its order."""

    record: dict[
        str, Any
    ]  # what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256
    pairs: tuple[Pair, ...]


def read_pairs(path: Path, form: Format) -> PairFile:
    """Read a file in UTF-8, or in UTF-16 with a byte order mark, one pair a line.

    Raises `Seq2AttnError` for a file or lines that cannot be read.
    """
    data, text = _read_text(path)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    pairs, problems = _pairs_in(lines, form)
    if problems:
        listed = [
            f"{path}: {sum(map(len, problems.values())):,} of {len(lines):,} lines cannot be read"
        ]
        for problem, numbers in problems.items():
            first = first_of([*map(str, numbers)])
            where = f"{len(numbers):,} lines ({first})" if numbers[1:] else f"line {first}"
            listed.append(f"  {where}: {problem}: {quoted(lines[numbers[0] - 1])}")
        listed[MOST_LISTED + 1 :] = ["  ..."] * (len(listed) > MOST_LISTED + 1)
        raise Seq2AttnError("\n".join(listed), hint=_advice(lines, form, problems))
    sha256 = hashlib.sha256(data).hexdigest()
    record = {"name": path.name, "bytes": len(data), "pairs": len(pairs), "sha256": sha256}
    return PairFile(record, tuple(pairs))


def _pairs_in(lines: Sequence[str], form: Format) -> tuple[list[Pair], dict[str, list[int]]]:
    """The pairs, and the numbers of the malformed lines by what is wrong with them."""
    pairs, problems = list[Pair](), dict[str, list[int]]()
    rows = [
        row
        for row in enumerate(lines, start=1)
        if not (form.comment and row[1].startswith(form.comment))
    ]
    for number, line in rows[form.header :]:
        try:
            pairs.append(form.read(line))
        except ValueError as error:
            problems.setdefault(str(error), []).append(number)
    return pairs, problems if pairs or problems else {"no pair follows": [len(lines)]}


def _advice(lines: Sequence[str], form: Format, problems: Mapping[str, Sequence[int]]) -> str:
    """The options with which more of the lines can be read; where none helps, what a file should
    be.
    """
    malformed = sorted(itertools.chain(*problems.values()))
    sample = [
        *lines[:SAMPLE],
        *(lines[number - 1] for number in malformed[:SAMPLE] if number > SAMPLE),
    ]
    trials = [form]
    for delimiter, strip, comment in itertools.product(
        "\t,;| ", (False, True), (form.comment, "#", "sep=")
    ):
        trial = replace(form, delimiter=delimiter, strip=strip, comment=comment, columns=None)
        columns = mode(len(trial.fields(line)) for line in sample)
        trials.append(replace(trial, columns=columns if columns > trial.width else None))

    def changes(trial: Format) -> list[str]:
        return [
            f"task.{key}={json.dumps(value)}"
            for key, value in vars(trial).items()
            if value != vars(form)[key]
        ]

    def cost(trial: Format) -> tuple[int, ...]:
        pairs, wrong = _pairs_in(sample, trial)
        return (
            sum(map(len, wrong.values())) - len(pairs),
            trial.delimiter == " ",
            len(changes(trial)),
        )

    best = min(trials, key=cost)
    pairs, _ = _pairs_in(lines, best)
    advice = (
        "Save it as UTF-8, one pair a line, a tab between columns. task.source_column, task.target_column and "
        f"task.features_column say which columns are used; if there are more than {form.width}, set task.columns."
    )
    if pairs and best != form:
        options = "train " + " ".join(f"--set {shlex.quote(change)}" for change in changes(best))
        first = " -> ".join(map(quoted, pairs[0]))
        advice = f"{len(pairs):,} of {len(lines):,} lines are read with these options, the first as {first}: {options}"
    return (
        f"{advice}\nIf line 1 is a header: --set task.header=true"
        if malformed[0] == 1 > form.header
        else advice
    )


def _read_text(path: Path) -> tuple[bytes, str]:
    """The contents of a regular file; a pipe or a device is not waited for. Bytes that are no text
    become surrogates.
    """
    most = LARGEST_FILE["pairs"]
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a regular file")
        if path.stat().st_size > most:
            raise ValueError(f"it is larger than {most:,} bytes; train on a part of it")
        data = path.read_bytes()
        utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return data, data.decode("utf-16") if utf_16 else data.decode(
            "utf-8-sig", "surrogateescape"
        )
    except FileNotFoundError:
        guess = did_you_mean(
            path.name, [other.name for other in path.parent.glob("*") if other.is_file()]
        )
        hint = "Name your files: train takes --set task.train=FILE --set task.dev=FILE, and eval takes --data FILE."
        raise Seq2AttnError(
            f"{path}: no such file{guess and f'; {guess[:-1]}'}", hint=hint
        ) from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
