"""Pairs of strings from files of columns, parsed strictly: every malformed line is reported, and
nothing is guessed.

Imports no torch.
"""

import codecs
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.data.advice import examine
from seq2attn.data.format import Format, Pair, Parsed
from seq2attn.errors import Seq2AttnError
from seq2attn.files import MAX_BYTES
from seq2attn.text import did_you_mean, first_of, left_out_notes, quoted

MOST_LISTED = 10  # kinds of malformed lines in one message


@dataclass(frozen=True)
class PairFile:
    """The pairs of a file, in its order."""

    record: dict[str, Any]
    """what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256; `left_out`:
    how many malformed lines it has"""
    lines: Sequence[str]
    """without their ends"""
    parsed: Parsed

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs."""
        return tuple(self.parsed.pairs)

    @property
    def left_out(self) -> dict[str, int]:
        """How many malformed lines are left out, by the file's name; empty if none is."""
        bad = len(self.parsed.problems)
        return {self.record["name"]: bad} if bad else {}

    @property
    def notes(self) -> list[str]:
        """What its user should know of what is left out."""
        return [f"note: {text}" for text in left_out_notes(self.left_out)]

    def cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the numbers of the lines that have pairs, and their columns."""
        for number, line in self.parsed.form.rows(self.lines):
            if number in self.parsed.rows:
                yield number, self.parsed.form.split(line)

    def part(self, numbers: Sequence[int]) -> str:
        """Return the text of a file that has only these of the lines with pairs, below what
        precedes all of them, such as the header.
        """
        first = min([*self.parsed.rows, *self.parsed.problems])  # a malformed one is no header
        lines = [*self.lines[: first - 1], *(self.lines[number - 1] for number in numbers)]
        return "".join(f"{line}\n" for line in lines)


def load_pairs(path: Path, form: Format) -> PairFile:
    """Load a file in UTF-8, or in UTF-16 or -32 with a byte order mark, that has one source a line.
    Up to `form.skip_bad` malformed lines are left out.

    Raises `Seq2AttnError` for a file or lines that cannot be read, with the options that would read
    them.
    """
    data, text = _read_file(path)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    try:
        parsed = form.parse_all(lines)
        bad, message = len(parsed.problems), ""
        # (without pairs, there is at least one problem: `parse_all` says so)
        if not parsed.rows or bad > form.skip_bad:
            message = _list_problems(parsed.problems, lines)
    except Seq2AttnError as error:  # the header lacks a column
        message = error.message
    if message:
        found = examine(lines, form, path)
        raise Seq2AttnError(f"{path}: {message}", hint=str(found), settings=found.settings)
    record: dict[str, Any] = {"name": path.name, "bytes": len(data), "pairs": len(parsed.pairs)}
    if bad:
        record["left_out"] = bad
    record["sha256"] = hashlib.sha256(data).hexdigest()
    return PairFile(record, lines, parsed)


def _list_problems(problems: Mapping[int, str], lines: Sequence[str]) -> str:
    """Return a message that lists the malformed lines, those with the same problem together, and
    at most `MOST_LISTED` problems.

    problems: line number -> what is wrong with the line. lines: all lines of the file.
    """
    message = f"{len(problems):,} of {len(lines):,} lines cannot be read"
    kinds = list(dict.fromkeys(problems.values()))
    for kind in kinds[:MOST_LISTED]:
        numbers = [number for number, problem in problems.items() if problem == kind]
        where = f"line {numbers[0]}"
        if len(numbers) > 1:
            where = f"{len(numbers):,} lines ({first_of(list(map(str, numbers)))})"
        message += f"\n  {where}: {kind}: {quoted(lines[numbers[0] - 1])}"
    return message if len(kinds) <= MOST_LISTED else f"{message}\n  ..."


def _read_file(path: Path) -> tuple[bytes, str]:
    """Return the content of a regular file, as bytes and as text, in which bytes that are not UTF-8
    have become surrogates. A pipe or a device, for which reading might wait, is refused.

    Raises `Seq2AttnError` for a file that cannot be read or is larger than `MAX_BYTES`.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ValueError("not a regular file")
        if size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes; train on a part of it")
        data = path.read_bytes()
        # UTF-32 first, since one of its byte order marks begins like one of UTF-16
        if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
            return data, data.decode("utf-32")
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
        reason = getattr(error, "strerror", None) or error  # an OSError's words, without its number
        raise Seq2AttnError(f"{path}: cannot be read: {reason}") from None
