"""The files of `evaluations/`, which `eval` and `compare` write. Imports no torch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.pair_results import PairsResult
from seq2attn.inference.results import LengthResult
from seq2attn.parts import RANDOM
from seq2attn.runs.environment import utc_time
from seq2attn.runs.files import file_time
from seq2attn.runs.reading import check_count, read_record
from seq2attn.runs.records import read_metrics
from seq2attn.runs.run import Run


@dataclass(frozen=True)
class Evaluation:
    """One file: the checkpoint and the strings that were measured, and the results by length, in ascending order."""

    checkpoint: str
    """best, last or step-N, whichever was measured"""
    samples: int
    seed: int
    lengths: dict[int, LengthResult]
    """of random strings; empty if only other families were measured"""
    step: int | None = None
    """after which the checkpoint was written"""
    created: str | None = None
    """when it was measured, ISO 8601"""
    trained_steps: int | None = None
    """the run's last step at that time; only `compare` records this and the parameters"""
    parameters: dict[str, int] | None = None
    """by part, and their total"""
    pairs: PairsResult | None = None
    """of a run on pairs: everything that was measured on a file of them; `samples` is then its number of words"""
    data: dict[str, Any] | None = None
    """the record of that file: name, bytes, pairs and sha256"""
    families: dict[str, dict[int, LengthResult]] = field(default_factory=dict)
    """of the other families of strings, by family and length"""

    @classmethod
    def of(cls, results: Sequence[LengthResult], checkpoint: str, samples: int, seed: int, **more: Any) -> Evaluation:
        """The evaluation with these results."""
        found: dict[str, dict[int, LengthResult]] = {RANDOM: {}}
        for result in results:
            found.setdefault(result.family, {})[result.length] = result
        return cls(checkpoint, samples, seed, found.pop(RANDOM), families=found, **more)

    @property
    def results(self) -> dict[tuple[str, int], LengthResult]:
        """All of them, by family and length."""
        by_family = {RANDOM: self.lengths, **self.families}
        return {(family, length): one for family, lengths in by_family.items() for length, one in lengths.items()}

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 1)
        for name in ("seed", "step", "trained_steps"):
            check_count(name, getattr(self, name))
        if not self.results or any((one.family, one.length) != key for key, one in self.results.items()):
            raise ValueError("its results are not those of its lengths")
        for part, count in (self.parameters or {}).items():
            check_count(f"parameters of {part}", count)
        if self.parameters is not None and "total" not in self.parameters:
            raise ValueError("it lacks the total of the parameters")
        if self.created is not None:
            utc_time(self.created)

    def to_json(self, run: str) -> dict[str, Any]:
        """The file's contents."""
        extra = {"trained_steps": self.trained_steps, "parameters": self.parameters}
        return {
            "run": run,
            "checkpoint": self.checkpoint,
            "step": self.step,
            "samples": self.samples,
            "seed": self.seed,
            "created": self.created,
            **({} if self.parameters is None else extra),
            **({} if self.pairs is None else {"data": dict(self.data or {}), "pairs": self.pairs.to_json()}),
            "lengths": _by_length(self.lengths),
            **({"families": {name: _by_length(one) for name, one in self.families.items()}} if self.families else {}),
        }

    def save(self, run: Run) -> Path:
        """Write it as a new file of the run."""
        return run.save_evaluation(self.checkpoint, self.to_json(run.name))


def _by_length(results: Mapping[int, LengthResult]) -> dict[str, Any]:
    return {str(length): result.to_json() for length, result in results.items()}


def read_evaluation(path: Path) -> Evaluation:
    """Read one file; `Seq2AttnError` if it is damaged."""
    saved = read_record(Evaluation, path)
    families = {name: dict(sorted(lengths.items())) for name, lengths in saved.families.items()}
    return replace(saved, lengths=dict(sorted(saved.lengths.items())), families=families)


def readable_evaluations(run: Run, checkpoint: str = "*") -> Iterator[tuple[Path, Evaluation]]:
    """Every readable file, of one checkpoint or of all, in the order of names; damaged files are skipped."""
    for path in sorted(run.evaluations.glob(f"{checkpoint}-*.json")):
        try:
            yield path, read_evaluation(path)
        except (OSError, Seq2AttnError):
            continue


def time_measured(path: Path, saved: Evaluation) -> datetime.datetime:
    """When a file was measured; the file's time where that is not recorded."""
    return file_time(path) if saved.created is None else utc_time(saved.created)


def newest_evaluation(run: Run) -> tuple[str, list[LengthResult]] | None:
    """File name and results of the last evaluation; None if there is none. `Seq2AttnError` if it is damaged."""
    found: list[tuple[datetime.datetime, str, Evaluation | Seq2AttnError]] = []
    for path in run.evaluations.glob("*.json"):
        try:
            if not path.lstat().st_size:  # it is still being written
                continue
            saved = read_evaluation(path)
            found.append((time_measured(path, saved), path.name, saved))
        except Seq2AttnError as error:
            found.append((file_time(path), path.name, error))
        except OSError:
            continue
    if not found:
        return None
    _, name, newest = max(found, key=lambda one: one[:2])
    if isinstance(newest, Seq2AttnError):
        raise newest
    return name, list(newest.results.values())


def newest_pairs(run: Run) -> Evaluation | None:
    """The last readable evaluation on a file of pairs; None if there is none."""
    found = [(time_measured(path, one), path.name, one) for path, one in readable_evaluations(run) if one.pairs]
    return max(found, key=lambda one: one[:2])[2] if found else None


def latest_by_length(run: Run) -> tuple[str, Sequence[LengthResult]] | None:
    """The results of the last `eval`, otherwise of the last evaluation in training, and a text that says which."""
    saved = newest_evaluation(run)
    if saved is not None:
        return f"eval, {saved[0]}", saved[1]
    evaluations = read_metrics(run).evaluations
    return (f"training, after step {evaluations[-1][0]:,}", evaluations[-1][1]) if evaluations else None
