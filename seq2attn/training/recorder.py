"""metrics.jsonl, attention.jsonl and the TensorBoard events of a run: the same numbers, written as they come."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.utils.tensorboard.summary import hparams

from seq2attn.config import Config, flat_values
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.results import LengthResult
from seq2attn.runs.files import AppendFile, not_written
from seq2attn.runs.run import Run
from seq2attn.training.events import FILES as EVENT_FILES
from seq2attn.training.events import EventWriter


class Recorder:
    """Writes what a run measures.

    `positions` returns the length of each file; a Recorder opened with those lengths cuts off everything written later,
    so that a resumed run records no step twice. What cannot be written is a `Seq2AttnError` (exit code 1).
    """

    def __init__(self, run: Run, config: Config, positions: dict[str, int] | None = None) -> None:
        self.run = run
        _cut(run.path, positions or {})
        self._metrics = AppendFile(run.metrics_file)
        self._attention = AppendFile(run.attention_file)
        self._events = EventWriter(run.path)
        if positions is None:
            self._write_hparams(config)

    def step(self, step: int, values: dict[str, float]) -> None:
        """One logged step: loss, learning_rate, gradient_norm, accuracy, tokens_per_second."""
        self._line({"step": step, **values}, self._metrics)
        for name, value in values.items():
            self._events.add_scalar(f"train/{name}", value, step)

    def evaluation(self, step: int, results: Sequence[LengthResult], summary: dict[str, float]) -> None:
        """One evaluation: the results by length and their summary."""
        self._line(
            {"step": step, "evaluation": [result.to_json() for result in results], "summary": summary}, self._metrics
        )
        for name, value in summary.items():
            self._events.add_scalar(f"evaluation/{name}", value, step)
        for result in results:
            measured = {
                "exact_match": result.exact_match,
                "teacher_forced": result.teacher_forced,
                "alignment": result.alignment,
            }
            values = {name: estimate.value for name, estimate in measured.items() if estimate is not None}
            if result.entropy is not None:
                values["attention_entropy"] = result.entropy
            for name, value in values.items():  # TensorBoard sorts: these many stand behind evaluation/ and train/
                self._events.add_scalar(f"validation_{name}/{result.length:03d}", value, step)

    def attention(self, step: int, maps: Sequence[AttentionMap], *, draw: bool) -> None:
        """The attention maps of a few strings: a line of attention.jsonl, and if `draw` an image each."""
        self._line({"step": step, "maps": [one.to_json() for one in maps]}, self._attention)
        if draw:
            from seq2attn.plotting.attention import attention_figure

            for place, one in enumerate(maps, start=1):
                self._events.add_figure(f"attention/{place}", attention_figure([one]), step)

    def positions(self) -> dict[str, int]:
        """Flush everything; the length of each file in bytes."""
        self._events.flush()
        try:
            files = [self.run.metrics_file, self.run.attention_file, *self.run.path.glob(EVENT_FILES)]
            return {file.name: file.stat().st_size for file in files}
        except OSError as error:
            raise not_written(Path(error.filename or self.run.path), error) from error

    def close(self) -> None:
        """Finish the files."""
        self._metrics.close()
        self._attention.close()
        self._events.close()

    def _line(self, record: dict[str, Any], file: AppendFile) -> None:
        file.add(f"{json.dumps(record)}\n".encode())

    def _write_hparams(self, config: Config) -> None:
        """The run's line in TensorBoard's table of hyperparameters, in its own event file.

        Without a description of the experiment, which would be that of one run, TensorBoard looks at all runs: it shows the
        keys in which they differ first, and every scalar can be a column.
        """
        writer = self._events._get_file_writer()
        values = {key: _plain(value) for key, value in flat_values(config).items() if not key.startswith("evaluation.")}
        _, start, end = hparams(values, {})  # type: ignore[no-untyped-call]
        for summary in (start, end):
            writer.add_summary(summary)


def _plain(value: Any) -> int | float | str:
    """A value as TensorBoard's table takes it: what it has no type for, as text."""
    if isinstance(value, bool):  # the table would show 1.0000
        return str(value).lower()
    return value if isinstance(value, int | float | str) else str(value)


def _cut(folder: Path, positions: dict[str, int]) -> None:
    """Shorten each file to its position; drop those that have none."""
    for file in [folder / "metrics.jsonl", folder / "attention.jsonl", *folder.glob(EVENT_FILES)]:
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
