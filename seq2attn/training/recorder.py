"""Writing a run's metrics.jsonl, attention.jsonl and TensorBoard events during training, in the
training's own thread.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from seq2attn.config import Config
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import LARGEST_SIDE, AttentionMap, colour
from seq2attn.inference.predictor import output_bound
from seq2attn.inference.results import Evaluation
from seq2attn.runs.files import append, writing
from seq2attn.runs.run import Run
from seq2attn.text import quoted

EVENTS = "events.out.tfevents.*"  # files
LONGEST_TAG = 40  # characters of a source
MAIN = ("loss", "exact_match_mean", "exact_match_worst", "wer", "ser", "dev_loss")
"""TensorBoard sorts by group: these come first, in `main`, then the attention `maps`, `train`, and
`validation` by length"""
CELL = 24  # pixels a side of one weight


class Recorder:
    """Writes a run's measurements; raises `Seq2AttnError` (exit code 1) if that fails.

    `positions` returns the length of each file; a Recorder opened with those lengths cuts off
    everything written later, so that a resumed run records no step twice.
    """

    def __init__(self, run: Run, positions: dict[str, int] | None = None) -> None:
        self.run = run
        _truncate(run, positions or {})
        self._events = (
            run.path
            / f"{EVENTS[:-1]}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        )
        self._event(file_version="brain.Event:2")

    def step(self, step: int, values: dict[str, float]) -> None:
        """One logged step: loss, learning_rate, gradient_norm, accuracy, tokens_per_second."""
        _add(self.run.metrics_file, {"step": step, **values})
        self._scalars("train", values, step)

    def evaluation(self, step: int, results: Evaluation) -> None:
        """One evaluation: its rows, and to TensorBoard its summary too."""
        _add(self.run.metrics_file, {"step": step, "evaluation": results.records()})
        self._scalars("validation", results.summary(), step)
        for row in results.rows:
            if row.length is not None:
                self._scalars(f"validation_{row.metric}", {f"{row.length:03d}": row.value}, step)

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        """The attention maps of a few strings: a line of attention.jsonl, and an image each."""
        _add(self.run.attention_file, {"step": step, "maps": [one.to_json() for one in maps]})
        for place, one in enumerate(maps, start=1):
            tag = f"maps/{place} {one.source[:LONGEST_TAG]}"
            self._event(
                step=step, summary=Summary(value=[Summary.Value(tag=tag, image=_heat_map(one))])
            )

    def _scalars(self, group: str, values: dict[str, float], step: int) -> None:
        tags = {
            f"{'main' if name in MAIN else group}/{name}": value for name, value in values.items()
        }
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in tags.items()]
        self._event(step=step, summary=Summary(value=scalars))

    def _event(self, **values: Any) -> None:
        """Write an event in this thread: that of TensorBoard's own writer dies with a traceback on
        a full disk.
        """
        record = io.BytesIO()
        RecordWriter(record).write(Event(wall_time=time.time(), **values).SerializeToString())
        append(self._events, record.getvalue())

    def positions(self) -> dict[str, int]:
        """The length of each file in bytes."""
        with writing(self.run.path):
            return {file.name: file.stat().st_size for file in _files(self.run) if file.exists()}


def _heat_map(one: AttentionMap) -> Summary.Image:
    """A square of pixels for each weight: rows are output tokens, columns source tokens."""
    rows, columns = len(one.weights), len(one.source_symbols)
    image = Image.new("RGB", (columns, rows))
    image.putdata([colour(weight) for row in one.weights for weight in row])
    png = io.BytesIO()
    image.resize((CELL * columns, CELL * rows), Image.Resampling.NEAREST).save(png, format="PNG")
    return Summary.Image(
        height=CELL * rows, width=CELL * columns, colorspace=3, encoded_image_string=png.getvalue()
    )


def _add(file: Path, record: dict[str, Any]) -> None:
    append(file, f"{json.dumps(record)}\n".encode())


def _files(run: Run) -> list[Path]:
    return [run.metrics_file, run.attention_file, *run.path.glob(EVENTS)]


def _truncate(run: Run, positions: dict[str, int]) -> None:
    """Truncate each file to its position; remove those that have none."""
    for file in _files(run):
        size = positions.get(file.name, 0)
        with writing(file):
            if size == 0:
                file.unlink(missing_ok=True)
            elif file.exists() and file.stat().st_size > size:
                os.truncate(file, size)


# ---- the strings whose attention is recorded ----


def watched_strings(config: Config, task: Task) -> list[str]:
    """The strings whose attention is recorded: `training.watched`, or the same ones in every run of
    a task.

    Raises `Seq2AttnError` for a string in the config that the model cannot read, or whose map could
    not be drawn.
    """
    strings = config.training.watched
    for text in strings or ():
        try:
            task.source_vocabulary.encode(text)
        except Seq2AttnError as error:
            raise Seq2AttnError(f"training.watched: {error.message}", hint=error.hint) from None
        if not _can_be_drawn(task, text):
            largest = (
                f"a heat map shows fewer than {LARGEST_SIDE} symbols a side; watch a shorter string"
            )
            raise Seq2AttnError(f"training.watched: {quoted(text)} is too long: {largest}")
    return list(strings or (text for text in _chosen_strings(task) if _can_be_drawn(task, text)))


def _can_be_drawn(task: Task, text: str) -> bool:
    return output_bound(task, len(task.source_vocabulary.symbols_of(text))) < LARGEST_SIDE


def _chosen_strings(task: Task) -> list[str]:
    """`hello` if the task has it, one string of the middle training length and one of the largest."""
    vocabulary = task.source_vocabulary
    if task.dev_set:
        sources = sorted(
            {source for source, _ in task.dev_set},
            key=lambda text: (len(vocabulary.encode(text)), text),
        )
        return list(dict.fromkeys([sources[len(sources) // 2], sources[-1]]))
    strings = ["hello"] if task.is_trained(5) and set("hello") <= set(vocabulary.symbols) else []
    lengths = task.trained_lengths
    for length in sorted({*lengths[len(lengths) // 2 :][:1], *lengths[-1:]}):
        with contextlib.suppress(Seq2AttnError):  # the task has no source of this length
            examples = task.examples(generator("cpu", "watched", length), 1, length)
            strings.append(vocabulary.decode(examples.source[0].tolist()))
    return strings
