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
MOST_HELD, LONGEST_HELD = 1 << 16, 5.0  # bytes of events in memory, and seconds, as long as events follow
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
        self._events = EventFile(run.path)
        if positions is None:
            for summary in _hyperparameters(config):
                self._events.add(summary)

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
            self._events.add(Summary(value=[Summary.Value(tag=tag, image=_heat_map(one))]), step)

    def _scalars(self, group: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._events.add(Summary(value=[Summary.Value(tag=f"{group}/{name}", simple_value=value)]), step)

    def positions(self) -> dict[str, int]:
        """Flush everything; the length of each file in bytes."""
        self._events.flush()
        try:
            return {file.name: file.stat().st_size for file in _files(self.run)}
        except OSError as error:
            raise not_written(Path(error.filename or self.run.path), error) from error

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._attention, self._events):
            file.close()


class EventFile:
    """One new event file in `folder`.

    TensorBoard's own writer has a thread, which on a full disk dies with a traceback or makes its owner wait. Here the call
    that writes raises `Seq2AttnError`.
    """

    def __init__(self, folder: Path) -> None:
        now = time.time()
        self._file = AppendFile(folder / f"{EVENTS[:-1]}{int(now):010d}.{socket.gethostname()}.{os.getpid()}.0")
        self._held = io.BytesIO()
        self._written = time.monotonic()
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def add(self, summary: Summary, step: int = 0) -> None:
        """Add a summary."""
        self._add(Event(wall_time=time.time(), step=step, summary=summary))
        if self._held.tell() >= MOST_HELD or time.monotonic() - self._written >= LONGEST_HELD:
            self.flush()

    def flush(self) -> None:
        """Write what is held in memory."""
        held, self._held = self._held, io.BytesIO()
        self._written = time.monotonic()
        self._file.add(held.getvalue())

    def close(self) -> None:
        """Write what is held in memory and close the file."""
        self.flush()
        self._file.close()

    def _add(self, event: Event) -> None:
        RecordWriter(self._held).write(event.SerializeToString())


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
