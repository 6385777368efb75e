"""Pairs of strings from files of columns, parsed strictly: every malformed line is reported, and
nothing is guessed.

Imports no torch.
"""

import codecs
import csv
import hashlib
import itertools
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mode
from typing import Any

from seq2attn.data.vocabulary import FEATURE, FEATURES, normal_form
from seq2attn.errors import Seq2AttnError
from seq2attn.files import MAX_BYTES
from seq2attn.text import did_you_mean, first_of, quoted

LONGEST_LINE = 10_000  # characters
MOST_LISTED = 10  # kinds of malformed lines in one message
SAMPLE = 1000  # lines on which other formats are tried

VARIANT = r"^([^\t]+)\(\d+\)(?=\t|$)"  # about(2), the second pronunciation; or before features

Pair = tuple[str, str]
"""a source, with its features after a tab if it has any, and its right answer"""


@dataclass(frozen=True)
class Format:
    """The format of a file's lines. Columns are counted from 1."""

    source_column: int = 1
    target_column: int = 2
    features_column: int | None = None
    columns: int | None = None  # columns of each line; None: as many as the last one named
    delimiter: str = "\t"
    header: bool = False
    comment: str = ""  # at the beginning of a line or after a blank
    variants: bool = False  # a number in parentheses at the end of a source counts its answers
    strip: bool = False
    source_separator: str = ""
    target_separator: str = ""
    normalise: str = "nfc"
    """the Unicode normal form of symbols; strings are composed, even with nfd, unless it is none"""

    @property
    def width(self) -> int:
        """The number of columns that each line must have."""
        named = (self.source_column, self.target_column, self.features_column or 0)
        return self.columns or max(named)

    def rows(self, lines: Iterable[str], *, allow_words: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the lines that have pairs, with their numbers and without comments: neither blank
        ones nor the header.

        allow_words: the lines may be words alone: a first line of one column is no header.
        """
        is_header = self.header
        for number, line in enumerate(lines, start=1):
            text, sign, _ = f" {line}".partition(f" {self.comment}")
            if self.comment and sign:
                line = text[1:].rstrip(" ")
            if not line.strip():
                continue
            if is_header:
                is_header = False
                if not allow_words or len(self.split(line)) > 1:
                    continue
            yield number, line

    def split(self, line: str) -> list[str]:
        """Split a line into fields; there are none if its quotation marks do not match."""
        if self.delimiter == "\t":
            fields = line.split("\t")
        elif self.delimiter == " ":  # one or more; the last column may contain some
            fields = re.split(" +", line.strip(" "), maxsplit=self.width - 1)
        else:
            try:
                fields = next(csv.reader([line], delimiter=self.delimiter, strict=True))
            except csv.Error:
                return []
        return [field.strip() for field in fields] if self.strip else fields

    def without_variant(self, source: str) -> str:
        """Return `about` for `about(2)` if the file's format says so."""
        return re.sub(VARIANT, r"\1", source) if self.variants else source

    def parse_pair(self, line: str) -> Pair:
        """Parse a line without its line end. Raises `ValueError` with what is wrong with it."""
        text = line.replace("\t", "") if self.delimiter == "\t" else line
        if wrong := re.search("[\0\r\t\ud800-\udfff]", text):
            if wrong[0] >= "\ud800":
                raise ValueError("not UTF-8 text; save it as UTF-8")
            raise ValueError(f"it contains {quoted(wrong[0])}")
        if len(line) > LONGEST_LINE:
            raise ValueError(f"more than {LONGEST_LINE:,} characters")
        fields = self.split(line)
        if not fields:
            raise ValueError("unmatched quotation marks")
        if len(fields) != self.width:
            raise ValueError(f"columns: found {len(fields)}, expected {self.width}")
        source = self._text_of("source", fields, self.source_column, self.source_separator)
        if self.features_column is not None:
            source += FEATURES + self._text_of("features", fields, self.features_column, FEATURE)
        target = self._text_of("target", fields, self.target_column, self.target_separator)
        return self.without_variant(source), target

    def _text_of(self, name: str, fields: list[str], column: int, separator: str) -> str:
        text = fields[column - 1]
        if self.normalise != "none":
            text = normal_form(text, "nfc")
        has_empty_part = bool(separator) and "" in text.split(separator)
        if not text or text != text.strip() or has_empty_part:
            raise ValueError(
                f"the {name} (column {column}) is empty, has an empty part, or a blank at an end"
            )
        return text


@dataclass(frozen=True)
class PairFile:
    """The pairs of a file, in its order."""

    record: dict[str, Any]
    """what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256"""
    pairs: tuple[Pair, ...]


def load_pairs(path: Path, form: Format) -> PairFile:
    """Load a file in UTF-8, or in UTF-16 with a byte order mark, that has one pair a line.

    Raises `Seq2AttnError` for a file or lines that cannot be read.
    """
    data, lines = _read_lines(path)
    pairs, problems = _parse_lines(lines, form)
    if problems:
        message = _list_problems(problems, lines)
        raise Seq2AttnError(f"{path}: {message}", hint=_advise(problems, lines, form))
    sha256 = hashlib.sha256(data).hexdigest()
    record = {"name": path.name, "bytes": len(data), "pairs": len(pairs), "sha256": sha256}
    return PairFile(record, tuple(pairs))


@dataclass
class Part:
    """A part of a file: whole lines, with what precedes the file's first pair, such as a header."""

    lines: list[str]
    words: set[str] = field(default_factory=set)
    """the sources of the lines, without features"""


def split_by_word(
    path: Path, form: Format, shares: Mapping[str, float], seed: int
) -> dict[str, Part]:
    """Split a file into the parts that `shares` names and `train`, the rest, so that all lines of a
    word are in one part.

    shares: of the words. The same words, shares and seed give the same parts, in whatever order the
        lines are. Raises `Seq2AttnError` if a part with a share has no word, or `train` has none.
    """
    pairs = load_pairs(path, form).pairs
    _, lines = _read_lines(path)
    numbers = [number for number, _ in form.rows(lines)]
    words = [source.partition(FEATURES)[0] for source, _ in pairs]
    order = sorted(set(words), key=lambda word: hashlib.sha256(f"{seed} {word}".encode()).digest())
    part_of = dict.fromkeys(order, "train")
    start = 0
    for name, share in shares.items():
        end = start + round(share * len(order))
        part_of.update(dict.fromkeys(order[start:end], name))
        start = end
    parts = {name: Part(lines[: numbers[0] - 1]) for name in ("train", *shares)}
    for number, word in zip(numbers, words, strict=True):
        part = parts[part_of[word]]
        part.lines.append(lines[number - 1])
        part.words.add(word)
    for name, part in parts.items():
        if not part.words and shares.get(name) != 0:
            message = f"{path}: too few words: none is left for {name}"
            raise Seq2AttnError(message, hint="Choose other shares, or a larger file.")
    return parts


def _parse_lines(lines: Sequence[str], form: Format) -> tuple[list[Pair], dict[int, str]]:
    """Parse lines into pairs. Returns also what is wrong with malformed lines, by their numbers."""
    pairs: list[Pair] = []
    problems: dict[int, str] = {}
    for number, line in form.rows(lines):
        try:
            pairs.append(form.parse_pair(line))
        except ValueError as error:
            problems[number] = str(error)
    if not pairs and not problems:
        problems[len(lines)] = "no pair follows"
    return pairs, problems


def _list_problems(problems: Mapping[int, str], lines: Sequence[str]) -> str:
    """List the malformed lines, those with the same problem together."""
    message = f"{len(problems):,} of {len(lines):,} lines cannot be read"
    kinds = list(dict.fromkeys(problems.values()))
    for kind in kinds[:MOST_LISTED]:
        numbers = [number for number, problem in problems.items() if problem == kind]
        where = f"line {numbers[0]}"
        if len(numbers) > 1:
            where = f"{len(numbers):,} lines ({first_of(list(map(str, numbers)))})"
        message += f"\n  {where}: {kind}: {quoted(lines[numbers[0] - 1])}"
    return message if len(kinds) <= MOST_LISTED else f"{message}\n  ..."


def _advise(problems: Mapping[int, str], lines: Sequence[str], form: Format) -> str:
    """Name the options that read more of the lines; if none do, say what a file should be."""
    sample = list(lines[:SAMPLE])
    sample += [lines[number - 1] for number in problems if number > SAMPLE][:SAMPLE]
    candidates = [form]
    delimiters = form.delimiter + "\t,;| "
    comments = (form.comment, "#", "sep=")
    for delimiter, strip, comment in itertools.product(delimiters, (form.strip, True), comments):
        candidate = replace(form, delimiter=delimiter, strip=strip, comment=comment, columns=None)
        columns = mode(len(candidate.split(line)) for line in sample)
        if columns > candidate.width:
            candidate = replace(candidate, columns=columns)
        candidates.append(candidate)

    def cost(candidate: Format) -> int:
        pairs, problems = _parse_lines(sample, candidate)
        return len(problems) - len(pairs)

    best = min(candidates, key=cost)  # the first of equals, which changes least
    changes = vars(best).items() - vars(form).items()
    pairs, _ = _parse_lines(lines, best)
    if pairs and changes:
        settings = [f"task.{key}={json.dumps(value)}" for key, value in sorted(changes)]
        command = " --set ".join(["train", *map(shlex.quote, settings)])
        first = " -> ".join(map(quoted, pairs[0]))
        advice = (
            f"{len(pairs):,} of {len(lines):,} lines are read with these options, "
            f"the first as {first}: {command}"
        )
    else:
        advice = (
            "Save it as UTF-8, one pair a line, a tab between columns. task.source_column, "
            "task.target_column and task.features_column say which columns are used; if there are "
            f"more than {form.width}, set task.columns."
        )
    if 1 in problems and not form.header:
        advice += "\nIf line 1 is a header: --set task.header=true"
    return advice


def _read_lines(path: Path) -> tuple[bytes, list[str]]:
    """Read a file, as bytes and as lines without their ends."""
    data, text = _read_file(path)
    lines = text.removesuffix("\n").split("\n")
    return data, [line.removesuffix("\r") for line in lines]


def _read_file(path: Path) -> tuple[bytes, str]:
    """Read a regular file, as bytes and as text, without waiting for a pipe or a device. Bytes that
    are not UTF-8 become surrogates.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ValueError("not a regular file")
        if size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes; train on a part of it")
        data = path.read_bytes()
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data, data.decode("utf-16")
        return data, data.decode("utf-8-sig", "surrogateescape")
    except FileNotFoundError:
        files = [other.name for other in path.parent.glob("*") if other.is_file()]
        guess = did_you_mean(path.name, files)
        message = f"{path}: no such file; {guess}".rstrip("; ")
        hint = (
            "Name your files: train takes --set task.train=FILE --set task.dev=FILE, "
            "and eval takes --data FILE."
        )
        raise Seq2AttnError(message, hint=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Seq2AttnError(f"{path}: cannot be read: {reason}") from None
