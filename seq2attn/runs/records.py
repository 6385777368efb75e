"""The records of training, metrics.jsonl and attention.jsonl, read back as plain values. Imports no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import Evaluation, Row
from seq2attn.runs.reading import check_count, parse, read_records
from seq2attn.runs.run import Run

TAIL = 65_536  # bytes at the end of metrics.jsonl that `steps_done` reads
LARGEST_NUMBER = 3.4e38  # of float32: a number beyond it was not measured


@dataclass(frozen=True)
class MetricsLine:
    """One line of metrics.jsonl: the numbers logged at a step, or an evaluation after it."""

    step: int
    loss: float | None = None
    accuracy: float | None = None
    gradient_norm: float | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    evaluation: tuple[Row, ...] | None = None

    def __post_init__(self) -> None:
        check_count("step", self.step)

    def number(self, name: str) -> float | None:
        """A logged number; None if there is none, or if it is not finite."""
        value: float | None = getattr(self, name)
        return value if value is not None and abs(value) <= LARGEST_NUMBER else None


@dataclass(frozen=True)
class Metrics:
    """metrics.jsonl: what was logged while a run trained."""

    steps: list[MetricsLine]
    """the lines with the numbers of a step"""
    evaluations: list[tuple[int, Evaluation]]
    """after which step, and what was measured"""

    def curve(self, name: str) -> list[tuple[int, float]]:
        """A logged number by step, where there is one."""
        points = [(line.step, line.number(name)) for line in self.steps]
        return [(step, value) for step, value in points if value is not None]


@dataclass(frozen=True)
class _Snapshot:
    """One line of attention.jsonl: the attention maps after a step."""

    step: int
    maps: tuple[AttentionMap, ...]

    def __post_init__(self) -> None:
        check_count("step", self.step)
        if not self.maps:
            raise ValueError("it has no maps")
        for one in self.maps:
            one.check()


def read_metrics(run: Run) -> Metrics:
    """The run's metrics so far; an incomplete last line is ignored."""
    steps: list[MetricsLine] = []
    evaluations: list[tuple[int, Evaluation]] = []
    for line in read_records(MetricsLine, run.metrics_file):
        if line.evaluation is None:
            steps.append(line)
        elif line.evaluation:
            evaluations.append((line.step, Evaluation(line.evaluation)))
    return Metrics(steps, evaluations)


def steps_done(run: Run) -> int:
    """The last step in metrics.jsonl, read from the file's end while the run trains; 0 before there is one."""
    try:
        with run.metrics_file.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return parse(MetricsLine, line, run.metrics_file).step
        except Seq2AttnError:  # the first line of the tail may be cut off, the last one incomplete
            continue
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """The attention maps of the same strings, by step; empty for a run that has none."""
    snapshots: list[tuple[int, list[AttentionMap]]] = []
    for line in read_records(_Snapshot, run.attention_file):
        strings = [one.source for one in line.maps]
        first = [one.source for one in snapshots[0][1]] if snapshots else strings
        if strings != first:
            reason = f"the maps after step {line.step:,} are of other strings"
            raise Seq2AttnError(f"{run.attention_file}: not a valid record: {reason}", hint="Remove that line.")
        snapshots.append((line.step, list(line.maps)))
    return snapshots
