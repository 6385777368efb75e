"""The records of training, metrics.jsonl and attention.jsonl, read back as plain values. Imports no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import LengthResult
from seq2attn.runs.run import Run

TAIL = 65_536  # bytes at the end of metrics.jsonl that `steps_done` reads


@dataclass(frozen=True)
class Metrics:
    """metrics.jsonl: what was logged while a run trained."""

    steps: list[dict[str, float]]
    """step, loss, accuracy, gradient_norm, learning_rate, tokens_per_second"""
    evaluations: list[tuple[int, list[LengthResult]]]
    """after which step, and the results by length"""


def read_metrics(run: Run) -> Metrics:
    """The run's metrics so far; an incomplete last line is ignored."""
    steps: list[dict[str, float]] = []
    evaluations: list[tuple[int, list[LengthResult]]] = []
    for number, record in _lines(run.metrics_file):
        try:
            if "evaluation" in record:
                evaluations.append((int(record["step"]), list(map(LengthResult.from_json, record["evaluation"]))))
            else:
                steps.append({name: float(value) for name, value in record.items()} | {"step": int(record["step"])})
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
        except (ValueError, KeyError, TypeError):  # the first line of the tail may be cut off, the last one incomplete
            continue
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """The attention maps of the same strings, by step; empty for a run that has none."""
    snapshots: list[tuple[int, list[AttentionMap]]] = []
    for number, record in _lines(run.attention_file):
        try:
            maps = list(map(AttentionMap.from_json, record["maps"]))
            strings = [one.source for one in maps]
            if not maps or (snapshots and strings != [one.source for one in snapshots[0][1]]):
                raise ValueError(f"maps of other strings: {strings}")
            snapshots.append((int(record["step"]), maps))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(run.attention_file, error, number) from None
    return snapshots


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and JSON object of each line of a file; an incomplete last line is ignored."""
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
        reason = f"it lacks {error}" if isinstance(error, KeyError) else "a value has the wrong type"
    is_log = path.suffix == ".jsonl"
    hint = "Remove that line; the others are kept." if is_log else "Remove that file; `seq2attn eval` makes another."
    return Seq2AttnError(f"{f'{path}:{line}' if line else path}: not a valid record: {reason}", hint=hint)
