"""What a run has recorded: metrics and attention through training, and the files of `evaluations/`.
Imports no torch.
"""

import contextlib
import itertools
import os
import re
from pathlib import Path

from seq2attn.errors import Seq2AttnError
from seq2attn.files import reading, write_json, writing
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.maps import AttentionMap
from seq2attn.runs.records import Metrics, MetricsLine, Snapshot, read_record, read_records
from seq2attn.runs.run import Run

TAIL = 100_000  # bytes: an evaluation of a hundred lengths, and more


def read_metrics(run: Run, *, losses: bool = True) -> Metrics:
    """Read the run's metrics so far, with or without the many lines that hold losses."""
    metrics = Metrics([], [])
    containing = b"" if losses else b'"evaluation"'
    for line in read_records(MetricsLine, run.metrics_file, containing):
        if line.loss is not None:
            metrics.losses.append((line.step, line.loss))
        if line.evaluation:
            metrics.evaluations.append((line.step, Evaluation(line.evaluation)))
    return metrics


def last_step(run: Run) -> int:
    """Return the last step at the end of the run's metrics, for a display of progress, or 0."""
    with contextlib.suppress(Seq2AttnError, IndexError), reading(run.metrics_file) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        return int(re.findall(rb'"step": ([0-9]{1,18}),', file.read())[-1])
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """Read the attention maps recorded in training, by step, each time of the same strings; empty
    for a run that has none.
    """
    lines = list(read_records(Snapshot, run.attention_file))
    for line in lines:
        if line.strings != lines[0].strings:
            reason = f"the maps after step {line.step:,} are of other strings"
            message = f"{run.attention_file}: not a valid record: {reason}"
            raise Seq2AttnError(message, hint="Remove that line.")
    return [(line.step, list(line.maps)) for line in lines]


# ---- evaluations ----


def save_evaluation(evaluation: Evaluation, run: Run) -> Path:
    """Write an evaluation to a new file of the run, and return its path; nothing is replaced."""
    from filelock import FileLock  # not at the top: `--help` does not wait for it

    with writing(run.evaluations):  # an error of the folder or the lock is told as one of writing
        run.evaluations.mkdir(exist_ok=True)
        held = FileLock(run.evaluations_lock).acquire()
    with held:  # to its end, which releases it: another process may want the same number
        for number in itertools.count(1):
            path = run.evaluations / f"{evaluation.checkpoint}-{number:03d}.json"
            if not path.exists() or not path.stat().st_size:  # empty after a crash
                break
        write_json(path, evaluation.to_json(run.name))
    return path


def evaluations(
    run: Run, checkpoint: str = "*", *, skip_damaged: bool = False
) -> list[tuple[str, Evaluation]]:
    """Return the name and contents of each file, of one checkpoint or of all, in the order in which
    they were measured.

    Raises `Seq2AttnError` for a damaged file, unless it is to be skipped.
    """
    saved = []
    for path in run.evaluations.glob(f"{checkpoint}-*.json"):
        try:
            if path.lstat().st_size:  # otherwise nothing was written to it before a crash
                saved.append((path.name, read_record(Evaluation, path)))
        except Seq2AttnError:
            if not skip_damaged:
                raise
    return sorted(saved, key=lambda file: (file[1].created or "", file[0]))


def latest_by_length(run: Run) -> tuple[str, Evaluation] | None:
    """Return the newest accuracy by length, after a text that says where it comes from; None if
    there is none.

    It is what `eval` measured: the newest row of each kind from all calls that measured the same
    weights on the same data as the last call. Without any, it is the last evaluation in training.
    """
    saved = [evaluation for _, evaluation in evaluations(run) if evaluation.lengths]
    if saved:
        newest = saved[-1]
        subject = (newest.checkpoint, newest.step, newest.data)
        for older in reversed(saved):  # of equal rows the newest stays
            if (older.checkpoint, older.step, older.data) == subject:
                newest = newest.completed(older)
        return f"eval of {newest.checkpoint}", newest
    for step, evaluation in reversed(read_metrics(run, losses=False).evaluations):
        if evaluation.lengths:
            return f"training, after step {step:,}", evaluation
    return None
