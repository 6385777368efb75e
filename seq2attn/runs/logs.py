"""What a run has recorded: metrics and attention through training, and the files of `evaluations/`.
Imports no torch.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import Evaluation
from seq2attn.runs.files import write_json, writing
from seq2attn.runs.records import Metrics, MetricsLine, Snapshot, read_record, read_records
from seq2attn.runs.run import Run


def read_metrics(run: Run) -> Metrics:
    """The run's metrics so far."""
    lines = list(read_records(MetricsLine, run.metrics_file))
    evaluations = [(line.step, Evaluation(line.evaluation)) for line in lines if line.evaluation]
    return Metrics([line for line in lines if line.evaluation is None], evaluations)


def last_step(run: Run) -> int:
    """The last step in the run's metrics, for a display of progress: 0 if there is none to read."""
    with contextlib.suppress(OSError, IndexError), run.metrics_file.open("rb") as file:
        file.seek(-min(100_000, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return int(re.findall(rb'"step": ([0-9]{1,18})', file.read())[-1])
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """The attention maps of the same strings, by step; empty for a run that has none."""
    snapshots: list[tuple[int, list[AttentionMap]]] = []
    for line in read_records(Snapshot, run.attention_file):
        strings = [one.source for one in line.maps]
        if snapshots and strings != [one.source for one in snapshots[0][1]]:
            reason = f"the maps after step {line.step:,} are of other strings"
            raise Seq2AttnError(
                f"{run.attention_file}: not a valid record: {reason}", hint="Remove that line."
            )
        snapshots.append((line.step, list(line.maps)))
    return snapshots


# ---- evaluations ----


def save_evaluation(evaluation: Evaluation, run: Run) -> Path:
    """Write it as a new file of the run; nothing is replaced."""
    with writing(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        for number in itertools.count(1):
            path = run.evaluations / f"{evaluation.checkpoint}-{number:03d}.json"
            with contextlib.suppress(FileExistsError):
                path.touch(
                    exist_ok=False
                )  # of two processes that try the same number, one gets the next
                break
    try:
        write_json(path, evaluation.to_json(run.name))
    except Seq2AttnError:
        path.unlink(missing_ok=True)
        raise
    return path


def evaluations(
    run: Run, checkpoint: str = "*", *, skip_damaged: bool = False
) -> list[tuple[str, Evaluation]]:
    """The files, of one checkpoint or of all, and their contents, the last one measured last.

    Raises `Seq2AttnError` for one that is damaged, or skips it.
    """
    found = []
    for path in run.evaluations.glob(f"{checkpoint}-*.json"):
        try:
            if path.lstat().st_size:  # otherwise it is still being written
                found.append((path.name, read_record(Evaluation, path)))
        except Seq2AttnError:
            if not skip_damaged:
                raise
    return sorted(found, key=lambda one: (one[1].created or "", one[0]))


def latest_by_length(run: Run) -> tuple[str, Evaluation] | None:
    """The last `eval`, otherwise the last evaluation in training, and a text that says which."""
    saved = evaluations(run)
    if saved:
        return f"eval, {saved[-1][0]}", saved[-1][1]
    trained = read_metrics(run).evaluations
    return (f"training, after step {trained[-1][0]:,}", trained[-1][1]) if trained else None
