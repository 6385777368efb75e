"""Writing a run's metrics.jsonl, attention.jsonl and TensorBoard events during training, in the training's own thread."""

from __future__ import annotations

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
from torch.utils.tensorboard.summary import hparams

from seq2attn.config import Config, flat_values
from seq2attn.inference.maps import AttentionMap, colour
from seq2attn.inference.results import Evaluation
from seq2attn.runs.files import AppendFile, not_written
from seq2attn.runs.run import Run

EVENTS = "events.out.tfevents.*"  # files
LONGEST_TAG = 40  # characters of a source
CELL = 24  # pixels a side of one weight


class Recorder:
    """Writes a run's measurements; raises `Seq2AttnError` (exit code 1) if that fails.

    `positions` returns the length of each file; a Recorder opened with those lengths cuts off everything written later,
    so that a resumed run records no step twice.
    """

    def __init__(self, run: Run, config: Config, positions: dict[str, int] | None = None) -> None:
        self.run = run
        _truncate(run, positions or {})
        self._metrics = AppendFile(run.metrics_file)
        self._attention = AppendFile(run.attention_file)
        name = f"{EVENTS[:-1]}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self._events = AppendFile(run.path / name)
        self._event(file_version="brain.Event:2")
        if positions is None:
            for summary in _hyperparameters(config):
                self._event(summary=summary)

    def step(self, step: int, values: dict[str, float]) -> None:
        """One logged step: loss, learning_rate, gradient_norm, accuracy, tokens_per_second."""
        _add(self._metrics, {"step": step, **values})
        self._scalars("train", values, step)

    def evaluation(self, step: int, results: Evaluation) -> None:
        """One evaluation: its rows, and to TensorBoard its summary too."""
        _add(self._metrics, {"step": step, "evaluation": results.records()})
        self._scalars("evaluation", results.summary(), step)
        for row in results.rows:
            if row.length is not None:  # `validation_...` because TensorBoard sorts: these many come last
                self._scalars(f"validation_{row.metric}", {f"{row.length:03d}": row.value}, step)

    def attention(self, step: int, maps: Sequence[AttentionMap], *, draw: bool) -> None:
        """The attention maps of a few strings: a line of attention.jsonl, and if `draw` an image each."""
        _add(self._attention, {"step": step, "maps": [one.to_json() for one in maps]})
        for place, one in enumerate(maps if draw else (), start=1):
            tag = f"attention/{place} {one.source[:LONGEST_TAG]}"
            self._event(step=step, summary=Summary(value=[Summary.Value(tag=tag, image=_heat_map(one))]))

    def _scalars(self, group: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            summary = Summary(value=[Summary.Value(tag=f"{group}/{name}", simple_value=value)])
            self._event(step=step, summary=summary)

    def _event(self, **values: Any) -> None:
        """Write an event in this thread: that of TensorBoard's own writer dies with a traceback on a full disk."""
        record = io.BytesIO()
        RecordWriter(record).write(Event(wall_time=time.time(), **values).SerializeToString())
        self._events.add(record.getvalue())

    def positions(self) -> dict[str, int]:
        """The length of each file in bytes."""
        try:
            return {file.name: file.stat().st_size for file in _files(self.run)}
        except OSError as error:
            raise not_written(Path(error.filename or self.run.path), error) from error

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._attention, self._events):
            file.close()


def _heat_map(one: AttentionMap) -> Summary.Image:
    """A square of pixels for each weight: rows are output tokens, columns source tokens."""
    rows, columns = len(one.weights), len(one.source_symbols)
    image = Image.new("RGB", (columns, rows))
    image.putdata([colour(weight) for row in one.weights for weight in row])
    png = io.BytesIO()
    image.resize((CELL * columns, CELL * rows), Image.Resampling.NEAREST).save(png, format="PNG")
    return Summary.Image(height=CELL * rows, width=CELL * columns, colorspace=3, encoded_image_string=png.getvalue())


def _hyperparameters(config: Config) -> Sequence[Summary]:
    """The run's line in TensorBoard's table of hyperparameters; booleans, null and lists as text.

    Without a description of the experiment, which would be that of one run, TensorBoard looks at all runs: it shows the
    keys in which they differ first, and every scalar can be a column.
    """
    values = {
        key: value if isinstance(value, int | float | str) and not isinstance(value, bool) else json.dumps(value)
        for key, value in flat_values(config).items()
        if not key.startswith("evaluation.")
    }
    summaries: Sequence[Summary] = hparams(values, {})[1:]  # type: ignore[no-untyped-call]
    return summaries


def _add(file: AppendFile, record: dict[str, Any]) -> None:
    file.add(f"{json.dumps(record)}\n".encode())


def _files(run: Run) -> list[Path]:
    return [run.metrics_file, run.attention_file, *run.path.glob(EVENTS)]


def _truncate(run: Run, positions: dict[str, int]) -> None:
    """Truncate each file to its position; remove those that have none."""
    for file in _files(run):
        size = positions.get(file.name, 0)
        try:
            if not file.exists():
                continue
            if size == 0:
                file.unlink()
            elif file.stat().st_size > size:
                os.truncate(file, size)
        except OSError as error:
            raise not_written(file, error) from error
