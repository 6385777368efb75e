"""The files of `evaluations/`, which `eval` and `compare` write. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.pair_results import PairsResult
from seq2attn.inference.results import LengthResult
from seq2attn.runs.files import read_plain
from seq2attn.runs.records import damaged, read_metrics
from seq2attn.runs.run import Run

LARGEST = 100_000_000  # bytes of one file


@dataclass(frozen=True)
class Evaluation:
    """One file: the checkpoint and the strings that were measured, and the results by length, in ascending order."""

    checkpoint: str
    samples: int
    seed: int
    lengths: Mapping[int, LengthResult]
    step: int | None = None
    """the run's last step at that time; only `compare` records this and the parameters"""
    parameters: Mapping[str, int] | None = None
    """by part, and their total"""
    pairs: PairsResult | None = None
    """of a run on pairs: everything that was measured on a file of them; `samples` is then its number of words"""
    data: Mapping[str, Any] | None = None
    """the record of that file: name, bytes, pairs and sha256"""

    def to_json(self, run: str) -> dict[str, Any]:
        """The file's contents."""
        extra = {} if self.parameters is None else {"step": self.step, "parameters": dict(self.parameters)}
        return {
            "run": run,
            "checkpoint": self.checkpoint,
            "samples": self.samples,
            "seed": self.seed,
            **extra,
            **({} if self.pairs is None else {"data": dict(self.data or {}), "pairs": self.pairs.to_json()}),
            "lengths": {str(length): result.to_json() for length, result in self.lengths.items()},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Evaluation:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        results = sorted(map(LengthResult.from_json, record["lengths"].values()), key=lambda result: result.length)
        parameters = record.get("parameters")
        if parameters is not None and not {type(parameters["total"]), *map(type, parameters.values())} <= {int}:
            raise TypeError("a number of parameters is not an integer")
        checkpoint, samples, seed = str(record["checkpoint"]), int(record["samples"]), int(record["seed"])
        by_length = {result.length: result for result in results}
        pairs, data = record.get("pairs"), record.get("data")
        result = None if pairs is None else PairsResult.from_json(pairs)
        return cls(checkpoint, samples, seed, by_length, record.get("step"), parameters, result, data and dict(data))

    def save(self, run: Run) -> Path:
        """Write it as a new file of the run."""
        return run.save_evaluation(self.checkpoint, self.to_json(run.name))


def read_evaluation(path: Path) -> Evaluation:
    """Read one file; `Seq2AttnError` if it is damaged."""
    try:
        return Evaluation.from_json(json.loads(read_plain(path, LARGEST)))
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None


def readable_evaluations(run: Run, checkpoint: str = "*") -> Iterator[tuple[Path, Evaluation]]:
    """Every readable file, of one checkpoint or of all, in the order of names; damaged files are skipped."""
    for path in sorted(run.evaluations.glob(f"{checkpoint}-*.json")):
        try:
            yield path, read_evaluation(path)
        except Seq2AttnError:
            continue


def newest_evaluation(run: Run) -> tuple[str, list[LengthResult]] | None:
    """File name and results of the last evaluation; None if there is none."""
    try:
        files = sorted(run.evaluations.glob("*.json"), key=lambda file: (file.stat().st_mtime, file.name))
        written = [file for file in files if file.stat().st_size]  # an empty one is still being written
    except OSError:
        return None
    return (written[-1].name, list(read_evaluation(written[-1]).lengths.values())) if written else None


def latest_by_length(run: Run) -> tuple[str, Sequence[LengthResult]] | None:
    """The results of the last `eval`, otherwise of the last evaluation in training, and a text that says which."""
    saved = newest_evaluation(run)
    if saved is not None:
        return f"eval, {saved[0]}", saved[1]
    evaluations = read_metrics(run).evaluations
    return (f"training, after step {evaluations[-1][0]:,}", evaluations[-1][1]) if evaluations else None
