"""The records in a run's JSON files: status, environment, metrics, attention. Imports no torch.

A run may come from somebody else, or be damaged: each value must have its field's type exactly, or
one sentence says what is wrong, and where. Unknown keys are ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from seq2attn.errors import Seq2AttnError, sentence
from seq2attn.files import MAX_LINES, reading
from seq2attn.results.answers import AttentionMap
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import Row

FORMAT = 1  # of a run: CONTRIBUTING.md says when it rises
MAX_THREADS = 256  # of the CPU
LARGEST_NUMBER = 3.4e38  # of float32: a number beyond it was not measured

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Share = Annotated[float, Field(ge=0, le=1)]
Measure = Annotated[float, Field(ge=0, le=1e6)]
Kind = TypeVar("Kind")


class Record(BaseModel):
    """The base of all records."""

    model_config = ConfigDict(frozen=True, strict=True)


class Status(Record):
    """status.json: how far the training of a run has come, and its last evaluation; None for what
    is unknown.
    """

    state: str | None = None
    """training, finished, interrupted, failed, or saved by a loop of the user's own"""
    step: Count | None = None
    """optimiser steps done"""
    steps: Count | None = None
    task: str | None = None
    score: str | None = None
    seed: Count | None = None
    exact_match_worst: Share | None = None
    """of the trained lengths"""
    exact_match_mean: Share | None = None
    attention_entropy: Measure | None = None
    wer: Share | None = None
    """word error rate on the dev file, of a run on pairs of strings, as the next two"""
    ser: Measure | None = None
    dev_loss: Measure | None = None


class Environment(Record, extra="allow"):
    """environment.json: the format of a run, when it was made, and with which versions, machine and
    code; None or empty for the unknown. Values that only people read are any JSON: command,
    device_name, commit, platform, versions.
    """

    format: Any = None
    created: AwareDatetime | None = None
    device: str | None = None
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None = None
    dtype: Literal["bfloat16", "float16", "float32", "float64"] = "float32"
    """torch's default, with which the model was made"""
    kernels: str | None = None
    plugins: tuple[str, ...] = ()
    plugin_contents: tuple[str, ...] = ()
    """the SHA-256 of each plug-in's file"""
    code: str | None = None
    """the checksum of the package that made the run"""
    experiment: str | None = None
    """the comparison that the run is a trial of"""
    note: str | None = None
    """what the user wrote about the run"""
    own_loop: bool = False
    """True if a loop of the user's own trained it, by which it cannot be resumed"""
    loop: str = ""
    """name and checksum of that loop, in a comparison"""

    def known(self) -> dict[str, Any]:
        """Return what is known, for a page that shows time, comparison and note elsewhere."""
        elsewhere = {"format", "created", "experiment", "note"}
        return self.model_dump(exclude=elsewhere, exclude_defaults=True)


class DataFile(Record):
    """A data file in task.json."""

    sha256: str
    name: str
    bytes: Count
    pairs: Count
    left_out: Count = 0
    """malformed lines"""


class Learned(Record):
    """task.json: what the task learned from its training file, and the data files that the run was
    started on, by the option that names them.
    """

    files: dict[str, DataFile]
    source: list[str]
    """symbols, as in `target`"""
    target: list[str]
    features: list[str] | None
    source_lengths: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)]
    """symbols of the shortest and of the longest source"""
    longest_target: PositiveInt


class Progress(Record, frozen=False):
    """The state of training in a checkpoint: all that resuming needs but weights and optimiser."""

    step: Count
    """optimiser steps done"""
    best: list[FiniteFloat] = []
    """of the best evaluation so far: worst and mean exact match, teacher-forced accuracy; of pairs:
    minus the rate that `training.select` names, minus loss. Compared in this order"""
    summary: Status = Status()
    """of the last evaluation"""
    evaluations_without_improvement: Count = 0
    """evaluations since the last one that was better than all before it"""
    formulas: bool = False
    """True if the kernels were found to differ from the formulas, which compute every step since"""
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

    losses: list[tuple[int, float]]
    """by step; no other logged number is drawn, and there may be a million"""
    evaluations: list[tuple[int, Evaluation]]
    """after which step, and what was measured"""

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Return pairs of a step and a number: of `loss` the logged losses; of any other name what
        each evaluation measured (`Evaluation.mean`). Steps without the number, or where it is not
        finite in float32, are left out.
        """
        points: Sequence[tuple[int, float | None]] = self.losses
        if name != "loss":
            points = [(step, evaluation.mean(name)) for step, evaluation in self.evaluations]
        return [
            (step, value)
            for step, value in points
            if value is not None and abs(value) <= LARGEST_NUMBER  # False for NaN, too
        ]


class Snapshot(Record):
    """One line of attention.jsonl: the attention maps after a step."""

    step: Count
    maps: Annotated[tuple[AttentionMap, ...], Field(min_length=1)]

    @property
    def strings(self) -> list[str]:
        return [attention_map.source for attention_map in self.maps]

    @model_validator(mode="after")
    def _check_maps(self) -> Self:
        for attention_map in self.maps:
            attention_map.check()
        return self


# ---- reading ----


def read_record(kind: type[Kind], path: Path) -> Kind:
    """Read a record from a file. Raises `Seq2AttnError` for anything else, and if there is none."""
    with reading(path) as file:
        return parse(kind, file.read(), path)


def read_records(kind: type[Kind], path: Path, containing: bytes = b"") -> Iterator[Kind]:
    """Yield a record of each line of a file that has the bytes `containing` in it. A missing file
    has no lines.

    Raises `Seq2AttnError` for a line that is something else, and for a file that cannot be read, as
    one with too many lines.
    """
    if not path.exists():
        return
    with reading(path, hint="Move it elsewhere: the run can be used without it.") as file:
        for number, line in enumerate(file, start=1):
            if number > MAX_LINES:
                # `reading` makes a `Seq2AttnError` of it
                raise OSError(f"it has more than {MAX_LINES:,} lines")
            # a line without an end is incomplete: it is being written, or was when a process died
            if containing in line and line.endswith(b"\n"):
                yield parse(
                    kind, line, f"{path}:{number}", "Remove that line; the others are kept."
                )


def parse(kind: type[Kind], text: bytes, place: str | Path, hint: str | None = None) -> Kind:
    """Return the record in a JSON text; `place` names it in messages."""
    try:
        return _reader(kind).validate_json(text, strict=True)
    except ValidationError as error:
        message = f"{place}: not a valid record: {reason_of(error)}"
        raise Seq2AttnError(message, hint=hint) from None


def reason_of(error: ValidationError) -> str:
    """Return the first problem of a record, as messages say it."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "it is not valid JSON"
    path = ".".join(map(str, first["loc"]))
    return f"{path}: {sentence(first)}" if path else sentence(first)


_reader: Any = cache(TypeAdapter)
