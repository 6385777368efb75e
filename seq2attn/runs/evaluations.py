"""The files of `evaluations/`, which `eval` and `compare` write. Imports no torch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import Evaluation
from seq2attn.runs.environment import utc_time
from seq2attn.runs.files import file_time
from seq2attn.runs.reading import read_record
from seq2attn.runs.records import read_metrics
from seq2attn.runs.run import Run


def save_evaluation(evaluation: Evaluation, run: Run) -> Path:
    """Write it as a new file of the run."""
    return run.save_evaluation(evaluation.checkpoint, evaluation.to_json(run.name))


def read_evaluation(path: Path) -> Evaluation:
    """Read one file; `Seq2AttnError` if it is damaged."""
    return read_record(Evaluation, path)


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


def newest_evaluation(run: Run) -> tuple[str, Evaluation] | None:
    """File name and contents of the last evaluation; None if there is none. `Seq2AttnError` if it is damaged."""
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
    return name, newest


def newest_pairs(run: Run) -> Evaluation | None:
    """The last readable evaluation on a file of pairs; None if there is none."""
    found = [(time_measured(path, one), path.name, one) for path, one in readable_evaluations(run) if one.answers]
    return max(found, key=lambda one: one[:2])[2] if found else None


def latest_by_length(run: Run) -> tuple[str, Evaluation] | None:
    """The last `eval`, otherwise the last evaluation in training, and a text that says which."""
    saved = newest_evaluation(run)
    if saved is not None:
        return f"eval, {saved[0]}", saved[1]
    evaluations = read_metrics(run).evaluations
    return (f"training, after step {evaluations[-1][0]:,}", evaluations[-1][1]) if evaluations else None
