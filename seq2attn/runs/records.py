"""The records of training, metrics.jsonl and attention.jsonl, read back as plain values. Imports no torch."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import LengthResult
from seq2attn.runs.run import Run

TAIL = 65_536  # bytes at the end of metrics.jsonl that `steps_done` reads


@dataclass(frozen=True)
class Summary:
    """Means over the trained lengths of one evaluation; over all its lengths where none of them is trained."""

    exact_match: float
    teacher_forced: float
    alignment: float | None
    entropy: float | None
    worst: LengthResult
    """the length with the lowest exact match, the first of equals"""

    def to_json(self) -> dict[str, float]:
        """What metrics.jsonl and status.json record."""
        record = {"exact_match_worst": self.worst.exact_match.value, "exact_match_mean": self.exact_match}
        return record if self.entropy is None else {**record, "attention_entropy": self.entropy}


def summarise(results: Sequence[LengthResult]) -> Summary:
    """The summary of an evaluation of at least one length."""
    trained = [result for result in results if result.trained] or results

    def mean(values: list[float]) -> float:
        return math.fsum(values) / len(values)

    alignments = [result.alignment.value for result in trained if result.alignment is not None]
    entropies = [result.entropy for result in trained if result.entropy is not None]
    return Summary(
        exact_match=mean([result.exact_match.value for result in trained]),
        teacher_forced=mean([result.teacher_forced.value for result in trained]),
        alignment=mean(alignments) if alignments else None,
        entropy=mean(entropies) if entropies else None,
        worst=min(trained, key=lambda result: result.exact_match.value),
    )


@dataclass(frozen=True)
class Metrics:
    """metrics.jsonl: what was logged while a run trained."""

    steps: list[dict[str, float]]
    """step, loss, accuracy, gradient_norm, learning_rate, tokens_per_second"""
    evaluations: list[tuple[int, list[LengthResult]]]
    """after which step, and the results by length"""


def read_metrics(run: Run) -> Metrics:
    """The run's metrics so far; a line that is being written is left out."""
    steps: list[dict[str, float]] = []
    evaluations: list[tuple[int, list[LengthResult]]] = []
    for number, record in _lines(run.metrics_file):
        try:
            if "evaluation" in record:
                evaluations.append((int(record["step"]), list(map(LengthResult.from_json, record["evaluation"]))))
            else:
                steps.append(
                    {str(name): float(value) for name, value in record.items()} | {"step": int(record["step"])}
                )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(run.metrics_file, error, number) from None
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
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):  # cut off at the start of the tail, or still being written
            continue
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """The maps of the watched strings, by step; empty for a run that has none."""
    snapshots: list[tuple[int, list[AttentionMap]]] = []
    for number, record in _lines(run.attention_file):
        try:
            maps = list(map(AttentionMap.from_json, record["maps"]))
            watched = [one.source for one in maps]
            if not maps or (snapshots and watched != [one.source for one in snapshots[0][1]]):
                raise ValueError(f"watches {watched}")
            snapshots.append((int(record["step"]), maps))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(run.attention_file, error, number) from None
    return snapshots


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, one a line, with the line's number; the last may be in the middle of being written."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and not line.endswith(b"\n"):
            return
        try:
            record = json.loads(line)
        except ValueError as error:
            raise damaged(path, error, number) from None
        if not isinstance(record, dict):
            raise damaged(path, TypeError("not a JSON object"), number)
        yield number, record


def damaged(path: Path, error: Exception, line: int | None = None) -> Seq2AttnError:
    """The error for a file of a run that could not be read because of `error`."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        line = line or getattr(error, "lineno", None)
        reason = "it is not valid JSON"
    elif isinstance(error, OSError):
        reason = error.strerror or str(error)
    else:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else "its values are of another kind"
    of_many = path.suffix == ".jsonl"
    hint = "Remove that line; the others are read." if of_many else "Remove that file; `seq2attn eval` makes another."
    return Seq2AttnError(f"{f'{path}:{line}' if line else path}: not what a run writes: {reason}", hint=hint)
