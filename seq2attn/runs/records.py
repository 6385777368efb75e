"""What a run's files say, read back as plain values. Imports no torch, so that figures are redrawn in a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import LengthResult
from seq2attn.runs.run import Run


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
            raise _damaged(run.metrics_file, error, number) from None
    return Metrics(steps, evaluations)


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
            raise _damaged(run.attention_file, error, number) from None
    return snapshots


def newest_evaluation(run: Run) -> tuple[str, list[LengthResult]] | None:
    """What `eval` measured last, with the file's name; None where it never did."""
    try:
        files = sorted(run.evaluations.glob("*.json"), key=lambda file: (file.stat().st_mtime, file.name))
    except OSError:
        return None
    for file in reversed(files):
        if not file.stat().st_size:  # claimed by an `eval` that is still writing
            continue
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            return file.name, sorted(map(LengthResult.from_json, record["lengths"].values()), key=lambda r: r.length)
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(file, error) from None
    return None


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
            raise _damaged(path, error, number) from None
        if not isinstance(record, dict):
            raise _damaged(path, TypeError("no JSON object"), number)
        yield number, record


def _damaged(path: Path, error: Exception, line: int | None = None) -> Seq2AttnError:
    """What is wrong with a file of a run's, and what to do: the rest of the run is as it was."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        line = line or getattr(error, "lineno", None)
        reason = "it is no JSON"
    else:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else "its values are of another kind"
    of_many = path.suffix == ".jsonl"
    hint = "Remove that line; the others are read." if of_many else "Remove that file; `seq2attn eval` makes another."
    return Seq2AttnError(f"{f'{path}:{line}' if line else path}: not what a run writes: {reason}", hint=hint)
