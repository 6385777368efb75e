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
from seq2attn.results.answers import AttentionMap
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.records import Metrics, MetricsLine, Snapshot, read_record, read_records
from seq2attn.runs.run import Run

TAIL = 100_000  # bytes: an evaluation of a hundred lengths, and more


def read_metrics(run: Run, *, losses: bool = True) -> Metrics:
    """Read the run's metrics so far: evaluations, and losses if they are asked for, of which there
    may be a million lines. Raises `Seq2AttnError` for a damaged line.
    """
    metrics = Metrics([], [])
    containing = b"" if losses else b'"evaluation"'  # what the lines to read contain
    for line in read_records(MetricsLine, run.metrics_file, containing):
        if line.loss is not None:
            metrics.losses.append((line.step, line.loss))
        if line.evaluation:
            metrics.evaluations.append((line.step, Evaluation(line.evaluation)))
    return metrics


def last_step(run: Run) -> int:
    """Return the last step in the run's metrics, for a display of progress, reading only their end;
    0 if there is none.
    """
    with contextlib.suppress(Seq2AttnError, IndexError), reading(run.metrics_file) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        return int(re.findall(rb'"step": ([0-9]{1,18}),', file.read())[-1])
    return 0


def read_attention(run: Run) -> list[tuple[int, list[AttentionMap]]]:
    """Read the attention maps recorded in training: pairs of a step and its maps, which are of the
    same strings at each step; empty for a run that has none.

    Raises `Seq2AttnError` for a damaged line, and for one with maps of other strings than the first
    line's.
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
    """Write an evaluation to a new file of the run, `CHECKPOINT-NNN.json` with the first number
    that is free, and return its path. No file with contents is replaced.
    """
    from filelock import FileLock  # not at the top: `--help` does not wait for it

    with writing(run.evaluations):  # an error of the folder or the lock is told as one of writing
        run.evaluations.mkdir(exist_ok=True)
        held = FileLock(run.evaluations_lock).acquire()
    with held:  # until the file is written: another process may want the same number
        for number in itertools.count(1):
            path = run.evaluations / f"{evaluation.checkpoint}-{number:03d}.json"
            # a crash may have left an empty file, which counts as free
            if not path.exists() or not path.stat().st_size:
                break
        write_json(path, evaluation.to_json(run.name))
    return path


def evaluations(
    run: Run, checkpoint: str = "*", *, skip_damaged: bool = False
) -> list[tuple[str, Evaluation]]:
    """Return the evaluations that `save_evaluation` has written, each with the name of its file, in
    the order in which they were measured.

    checkpoint: the name of the only one that counts, such as `best`; `*`: all. skip_damaged: True
        to leave out a damaged file, for which otherwise `Seq2AttnError` is raised.
    """
    saved = []
    for path in run.evaluations.glob(f"{checkpoint}-*.json"):
        try:
            if path.lstat().st_size:  # a crash may have left an empty file
                saved.append((path.name, read_record(Evaluation, path)))
        except Seq2AttnError:
            if not skip_damaged:
                raise
    return sorted(saved, key=lambda file: (file[1].created or "", file[0]))


def latest_by_length(run: Run) -> tuple[str, Evaluation] | None:
    """Return the newest evaluation that has results by length, after a text that says where it
    comes from, such as "eval of best"; None if there is none.

    If `eval` has measured any, it is the last of these, completed by rows that only earlier ones
    have, of the same weights and data: other metrics, lengths or families. Otherwise it is the
    last evaluation in training.
    """
    saved = [evaluation for _, evaluation in evaluations(run) if evaluation.lengths]
    if saved:
        newest = saved[-1]
        subject = (newest.checkpoint, newest.step, newest.data)
        # newest first: `completed` keeps a row that is there already
        for older in reversed(saved):
            if (older.checkpoint, older.step, older.data) == subject:
                newest = newest.completed(older)
        return f"eval of {newest.checkpoint}", newest
    for step, evaluation in reversed(read_metrics(run, losses=False).evaluations):
        if evaluation.lengths:
            return f"training, after step {step:,}", evaluation
    return None
