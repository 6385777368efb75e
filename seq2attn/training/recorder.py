"""The records of a training: metrics.jsonl, attention.jsonl and TensorBoard's events."""

import contextlib
import io
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from seq2attn.config import Config
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, quoted
from seq2attn.files import append, writing
from seq2attn.inference.predictor import output_bound
from seq2attn.results.answers import LARGEST_SIDE, AttentionMap
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.run import Run

EVENTS = "events.out.tfevents.*"  # files
MAIN = "loss exact_match_mean exact_match_worst wer ser dev_loss"
"""TensorBoard sorts by group: these come first, in `main`"""


class Recorder:
    """Writes a run's measurements; raises `Seq2AttnError` (exit code 1) if that fails.

    `positions` returns the length of each file; a Recorder opened with those lengths cuts off
    everything written later, so that a resumed run records no step twice.
    """

    def __init__(self, run: Run, positions: dict[str, int] | None = None) -> None:
        """Cut the run's files of records back to what they held at a checkpoint, and begin a new
        file of TensorBoard's events.

        positions: the checkpoint's, file name -> bytes; a file that is not among them is deleted.
            None for a new run: all are deleted.
        """
        self.run = run
        for file in self._files():
            size = (positions or {}).get(file.name, 0)
            with writing(file):
                if size == 0:  # all of it was written after the checkpoint
                    file.unlink(missing_ok=True)
                elif file.exists() and file.stat().st_size > size:
                    os.truncate(file, size)
        # TensorBoard shows the events of all such files of a run together
        self._events = run.path / EVENTS.replace("*", str(time.time_ns()))
        self._event(file_version="brain.Event:2")  # each file must begin with this

    def step(self, step: int, values: dict[str, float]) -> None:
        """Record the numbers of a step, such as its loss and gradient norm, by name."""
        _add(self.run.metrics_file, {"step": step, **values})
        self._scalars("train", values, step)

    def evaluation(self, step: int, results: Evaluation) -> None:
        """Record an evaluation after a step: all its rows in metrics.jsonl; for TensorBoard its
        summary, and the rows that have a length, with tags such as `validation_exact_match/005`.
        """
        _add(self.run.metrics_file, {"step": step, "evaluation": results.records()})
        self._scalars("validation", results.summary(), step)
        for row in results.rows:
            if row.length is not None:
                group = f"validation_{row.metric}"
                # at least 3 digits, since TensorBoard sorts tags as texts
                self._scalars(group, {f"{row.length:03d}": row.value}, step)

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        """Record the attention maps of a few strings after a step, the same strings each time in
        the same order: as a line of attention.jsonl.
        """
        records = [attention.to_json() for attention in maps]
        _add(self.run.attention_file, {"step": step, "maps": records})

    def _scalars(self, group: str, values: dict[str, float], step: int) -> None:
        """Write numbers for TensorBoard, as `group/name`, or as `main/name` for the main ones."""
        scalars = []
        for name, value in values.items():
            tag = f"{'main' if name in MAIN.split() else group}/{name}"
            scalars.append(Summary.Value(tag=tag, simple_value=value))
        self._event(step=step, summary=Summary(value=scalars))

    def _event(self, **values: Any) -> None:
        """Write an event in this thread: TensorBoard's own dies with a traceback on a full disk."""
        event = Event(wall_time=time.time(), **values)
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        append(self._events, record.getvalue())

    def positions(self) -> dict[str, int]:
        """Return the length of each file in bytes."""
        sizes = {}
        with writing(self.run.path):
            for file in self._files():
                if file.exists():
                    sizes[file.name] = file.stat().st_size
        return sizes

    def _files(self) -> list[Path]:
        """Return the files that are written, whether or not they exist."""
        return [self.run.metrics_file, self.run.attention_file, *self.run.path.glob(EVENTS)]


def _add(file: Path, record: dict[str, Any]) -> None:
    """Append a line of JSON to a file."""
    append(file, f"{json.dumps(record)}\n".encode())


# ---- the strings whose attention is recorded ----


def watched_strings(config: Config, task: Task) -> list[str]:
    """Return the strings whose attention is recorded: `training.watched`, or if that is null those
    of `_chosen_strings` that are not too long to draw.

    Raises `Seq2AttnError` for a string in the config that has a symbol outside the vocabulary, or
    is too long to draw.
    """
    strings = config.training.watched
    if strings is None:
        return [text for text in _chosen_strings(task) if _can_be_drawn(task, text)]
    for text in strings:
        try:
            task.source_vocabulary.encode(text)
        except Seq2AttnError as error:
            raise Seq2AttnError(f"training.watched: {error.message}", hint=error.hint) from None
        if not _can_be_drawn(task, text):
            raise Seq2AttnError(
                f"training.watched: {quoted(text)} is too long to draw; watch a shorter string"
            )
    return list(strings)


def _can_be_drawn(task: Task, text: str) -> bool:
    """Return True if a text and its longest possible output, with an `<eos>` each, fit into a map
    of `LARGEST_SIDE` rows and columns.
    """
    length = len(task.source_vocabulary.symbols_of(text))
    return max(length, output_bound(task, length)) < LARGEST_SIDE


def _chosen_strings(task: Task) -> list[str]:
    """Return a few strings, the same in every run of a task.

    Of a task on pairs: the source of median length of the dev set, and a longest one. Of a task
    that draws its strings: `hello`, if training has strings of its length and letters; then a
    string of the middle trained length, and one of the longest.
    """
    vocabulary = task.source_vocabulary
    if task.dev_set:
        sources = {source for source, _ in task.dev_set}
        # by length, and those of one length by their text: in an order that never changes
        ordered = sorted(sources, key=lambda text: (len(vocabulary.encode(text)), text))
        chosen = [ordered[len(ordered) // 2], ordered[-1]]
        return list(dict.fromkeys(chosen))  # one, if the dev set has only one source
    strings = []
    # 5: symbols of `hello`
    if task.is_trained(5) and set("hello") <= set(vocabulary.symbols):
        strings.append("hello")
    lengths = task.trained_lengths
    for length in sorted({lengths[len(lengths) // 2], lengths[-1]}):
        with contextlib.suppress(Seq2AttnError):  # raised if the task has no source of this length
            random = generator("cpu", "watched", length)
            examples = task.examples(random, 1, length)
            strings.append(vocabulary.decode(examples.source[0].tolist()))
    return strings
