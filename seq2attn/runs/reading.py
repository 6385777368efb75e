"""The one reader of a run's JSON files: a record of the expected type, or an error that says what is wrong, and where.

A run may come from somebody else, or be damaged. A record is a dataclass; each value must have its field's type exactly, and
the record must satisfy its own `__post_init__`. Unknown keys are ignored. Imports no torch, and pydantic only when called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import read_plain

if TYPE_CHECKING:
    from pydantic import ValidationError

LARGEST_FILE = 100_000_000  # bytes of a file with one record
LARGEST_LOG = 4_000_000_000  # bytes of a file with a record in each line
LARGEST_COUNT = 2**63 - 1  # of steps, samples, parameters

Record = TypeVar("Record")


def read_record(kind: type[Record], path: Path, limit: int = LARGEST_FILE) -> Record:
    """The record in a file. Raises `Seq2AttnError` for anything else, and `FileNotFoundError` if there is no file."""
    return parse(kind, _contents(path, limit), path)


def read_records(kind: type[Record], path: Path) -> Iterator[Record]:
    """The record in each line of a file; an incomplete last line is ignored, and a missing file is empty."""
    try:
        lines = _contents(path, LARGEST_LOG).splitlines(keepends=True)
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        if number < len(lines) or line.endswith(b"\n"):
            yield parse(kind, line, path, number)


def parse(kind: type[Record], text: bytes, path: Path, line: int | None = None) -> Record:
    """The record in a JSON text, which is that of `path`, or of one line of it."""
    from pydantic import ValidationError

    try:
        record: Record = _reader(cast(Any, kind)).validate_json(text, strict=True)
        return record
    except ValidationError as error:
        in_text = re.search(r"Invalid JSON: .* at line (\d+)", str(error))
        number = line or (in_text and in_text[1])
        place = f"{path}:{number}" if number else path
        raise Seq2AttnError(f"{place}: not a valid record: {_reason(error)}", hint=_hint(path)) from None


def check_count(name: str, value: int | None, least: int = 0) -> None:
    """Raise ValueError for a number of a record that is not from `least` to 2^63 - 1."""
    if value is not None and not least <= value <= LARGEST_COUNT:
        raise ValueError(f"{name} must be a number from {least} to {LARGEST_COUNT}")


@cache
def _reader(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _contents(path: Path, limit: int) -> bytes:
    try:
        return read_plain(path, limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be read: {error.strerror or error}") from None


def _reason(error: ValidationError) -> str:
    """The first problem in our words."""
    from seq2attn.config.describe import describe_errors

    problem = describe_errors(error)[0]
    if error.errors(include_url=False)[0]["type"] == "json_invalid":
        return "it is not valid JSON"
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def _hint(path: Path) -> str:
    if path.suffix == ".jsonl":
        return "Remove that line; the others are kept."
    made_again = "; `seq2attn eval` makes another" if path.parent.name == "evaluations" else ""
    return f"Remove that file{made_again}."
