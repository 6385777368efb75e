"""Writing a run's metrics.jsonl, attention.jsonl and TensorBoard events during training."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torch.utils.tensorboard.summary import hparams

from seq2attn.config import Config, flat_values
from seq2attn.inference.maps import AttentionMap, colour
from seq2attn.inference.results import Evaluation
from seq2attn.runs.files import AppendFile, not_written
from seq2attn.runs.run import Run
from seq2attn.training.events import FILES as EVENT_FILES
from seq2attn.training.events import EventFile

PIXELS = 24  # side of a weight in TensorBoard's images


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
            self._write_hparams(config)

    def step(self, step: int, values: dict[str, float]) -> None:
        """One logged step: loss, learning_rate, gradient_norm, accuracy, tokens_per_second."""
        self._line({"step": step, **values}, self._metrics)
        for name, value in values.items():
            self._events.scalar(f"train/{name}", value, step)

    def evaluation(self, step: int, results: Evaluation) -> None:
        """One evaluation: its rows, and to TensorBoard its summary too."""
        self._line({"step": step, "evaluation": results.records()}, self._metrics)
        for name, value in results.summary().items():
            self._events.scalar(f"evaluation/{name}", value, step)
        for row in results.rows:
            if row.length is not None:  # `validation_...` because TensorBoard sorts: these many come last
                self._events.scalar(f"validation_{row.metric}/{row.length:03d}", row.value, step)

    def attention(self, step: int, maps: Sequence[AttentionMap], *, draw: bool) -> None:
        """The attention maps of a few strings: a line of attention.jsonl, and if `draw` an image each."""
        self._line({"step": step, "maps": [one.to_json() for one in maps]}, self._attention)
        for place, one in enumerate(maps if draw else (), start=1):
            self._events.image(f"attention/{place}", _image(one), step)

    def positions(self) -> dict[str, int]:
        """Flush everything; the length of each file in bytes."""
        self._events.flush()
        try:
            files = [self.run.metrics_file, self.run.attention_file, *self.run.path.glob(EVENT_FILES)]
            return {file.name: file.stat().st_size for file in files}
        except OSError as error:
            raise not_written(Path(error.filename or self.run.path), error) from error

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._attention, self._events):
            file.close()

    def _line(self, record: dict[str, Any], file: AppendFile) -> None:
        file.add(f"{json.dumps(record)}\n".encode())

    def _write_hparams(self, config: Config) -> None:
        """The run's line in TensorBoard's table of hyperparameters; booleans, null and lists as text.

        Without a description of the experiment, which would be that of one run, TensorBoard looks at all runs: it shows the
        keys in which they differ first, and every scalar can be a column.
        """
        values = {
            key: str(value).lower()
            if isinstance(value, bool)
            else value
            if isinstance(value, int | float)
            else str(value)
            for key, value in flat_values(config).items()
            if not key.startswith("evaluation.")
        }
        _, start, end = hparams(values, {})  # type: ignore[no-untyped-call]
        for summary in (start, end):
            self._events.add(summary)


def _image(one: AttentionMap) -> Image.Image:
    """A square of pixels for each weight: rows are output tokens, columns source tokens."""
    rows, columns = len(one.weights), len(one.source_symbols)
    image = Image.new("RGB", (columns, rows))
    image.putdata([colour(weight) for row in one.weights for weight in row])
    return image.resize((PIXELS * columns, PIXELS * rows), Image.Resampling.NEAREST)


def _truncate(run: Run, positions: dict[str, int]) -> None:
    """Truncate each file to its position; remove those that have none."""
    for file in [run.metrics_file, run.attention_file, *run.path.glob(EVENT_FILES)]:
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
