"""The records in a run's JSON files: status, environment, metrics, attention. Imports no torch.

A run may come from somebody else, or be damaged: each value must have its field's type exactly, or
one sentence says what is wrong, and where. Unknown keys are ignored.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from seq2attn.errors import LARGEST_FILE, MOST_LINES, Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import Evaluation, Row
from seq2attn.runs.files import reading
from seq2attn.runs.machine import MOST_THREADS

LARGEST_NUMBER = 3.4e38  # of float32: a number beyond it was not measured

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Share = Annotated[float, Field(ge=0, le=1)]
Kind = TypeVar("Kind")


class Record(BaseModel):
    """The base of all records."""

    model_config = ConfigDict(frozen=True, strict=True)


class Status(Record):
    """status.json: how far the training of a run has come, and its last evaluation; None for what
    is unknown.
    """

    state: str | None = None
    """training, finished, interrupted or failed, when it was written"""
    step: Count | None = None
    """optimiser steps done"""
    steps: Count | None = None
    task: str | None = None
    score: str | None = None
    seed: Count | None = None
    exact_match_worst: Share | None = None
    """of the trained lengths"""
    exact_match_mean: Share | None = None
    attention_entropy: Annotated[float, Field(ge=0, le=100)] | None = None
    wer: Share | None = None
    """word error rate on the dev file, of a run on pairs of strings, as the next two"""
    ser: Annotated[float, Field(ge=0, le=1e6)] | None = None
    dev_loss: Annotated[float, Field(ge=0, le=1e6)] | None = None


class Environment(Record):
    """environment.json: when a run was made, and with which versions, machine and code; None or
    empty for the unknown.
    """

    created: AwareDatetime | None = None
    command: tuple[str, ...] = ()
    device: str | None = None
    device_name: str | None = None
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    kernels: str | None = None
    plugins: tuple[str, ...] = ()
    plugin_contents: tuple[str, ...] = ()
    """the SHA-256 of each plug-in's file"""
    commit: str | None = None
    """of the working directory, with `-dirty` if it had changes"""
    platform: str | None = None
    versions: dict[str, str | None] = {}
    experiment: str | None = None
    """the comparison that the run is a trial of"""
    note: str | None = None
    """what the user wrote about the run"""

    def shown(self) -> dict[str, Any]:
        """What is known, for a page that shows time, comparison and note elsewhere."""
        record = self.model_dump(exclude={"created", "experiment", "note"})
        return {name: value for name, value in record.items() if value not in (None, ())}


class Progress(BaseModel):
    """The state of training in a checkpoint: with weights and optimiser, all that resuming needs."""

    model_config = ConfigDict(strict=True)

    step: Count = 0
    """optimiser steps done"""
    best: list[Annotated[float, Field(allow_inf_nan=False)]] = []
    """of the best evaluation so far: worst and mean exact match, teacher-forced accuracy; of pairs:
    1 - word error rate, minus loss. Compared in this order"""
    summary: Status = Status()
    """of the last evaluation"""
    stale: Count = 0
    """evaluations since the last one that was better than all before it"""
    formulas: bool = False
    """whether the leaf was found to differ from the formulas, which compute every step since"""
    positions: dict[str, Count] | None = None
    """bytes of each file of records at the last checkpoint; None before there is one"""


class MetricsLine(Record):
    """One line of metrics.jsonl: the numbers logged at a step, or an evaluation after it."""

    step: Count
    loss: float | None = None
    accuracy: float | None = None
    gradient_norm: float | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    evaluation: tuple[Row, ...] | None = None


@dataclass(frozen=True)
class Metrics:
    """metrics.jsonl: what was logged while a run trained."""

    steps: list[MetricsLine]
    """the lines with the numbers of a step"""
    evaluations: list[tuple[int, Evaluation]]
    """after which step, and what was measured"""

    def curve(self, name: str) -> list[tuple[int, float]]:
        """A number by step, where there is one and it is finite: a logged one, otherwise what
        evaluations measured, an error rate or the mean of a metric over the trained lengths.
        """
        if name in MetricsLine.model_fields:
            points = [(line.step, getattr(line, name)) for line in self.steps]
        else:
            rates = ((step, one.get(name), one.mean(name)) for step, one in self.evaluations)
            points = [(step, row.value if row else mean) for step, row, mean in rates]
        return [
            (step, value)
            for step, value in points
            if value is not None and abs(value) <= LARGEST_NUMBER
        ]


class Snapshot(Record):
    """One line of attention.jsonl: the attention maps after a step."""

    step: Count
    maps: Annotated[tuple[AttentionMap, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_whole_maps(self) -> Self:
        for one in self.maps:
            one.check()
        return self


# ---- reading ----


def read_record(kind: type[Kind], path: Path, what: str = "record", *, strict: bool = True) -> Kind:
    """The record in a file. Raises `Seq2AttnError` for anything else, and if there is no file."""
    with reading(path, LARGEST_FILE[what]) as file:
        return parse(kind, file.read(), path, strict=strict)


def read_records(kind: type[Kind], path: Path) -> Iterator[Kind]:
    """The record in each line of a file; an incomplete last line is ignored, and a missing file is
    empty.
    """
    if not path.exists():
        return
    longest, hint = LARGEST_FILE["line"], "Move it elsewhere: the run can be used without it."
    with reading(path, LARGEST_FILE["log"], hint) as file:
        for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), start=1):
            if number > MOST_LINES or len(line) > longest:
                reason = f"line {number}: at most {longest:,} bytes a line, and {MOST_LINES:,} lines, are read"
                raise OSError(errno.EFBIG, reason)
            if line.endswith(b"\n"):
                yield parse(kind, line, path, number)


def parse(
    kind: type[Kind], text: bytes, path: Path, line: int | None = None, *, strict: bool = True
) -> Kind:
    """The record in a JSON text, which is that of `path`, or of one line of it."""
    try:
        record: Kind = _reader(kind).validate_json(text, strict=strict)
        return record
    except ValidationError as error:
        place, hint = (
            (path, None)
            if line is None
            else (f"{path}:{line}", "Remove that line; the others are kept.")
        )
        raise Seq2AttnError(f"{place}: not a valid record: {reason_of(error)}", hint=hint) from None


def reason_of(error: ValidationError) -> str:
    """The first problem of a record in our words."""
    from seq2attn.config.messages import describe_errors

    if error.errors(include_url=False)[0]["type"] == "json_invalid":
        return "it is not valid JSON"
    problem = describe_errors(error)[0]
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


_reader: Any = cache(TypeAdapter)
