"""TensorBoard's event files, written in the training's own thread.

TensorBoard's writer hands events to a thread of its own; on a full disk that thread dies with a traceback, or leaves its
owner waiting. Here an event that cannot be written is an error at that event.
"""

from __future__ import annotations

import io
import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import FileWriter, SummaryWriter

from seq2attn.runs.files import AppendFile

FILES = "events.out.tfevents.*"
_HELD = 1 << 16  # bytes held back at most
_SECONDS = 5.0  # events are held back for no longer, as long as others follow


class EventWriter(SummaryWriter):
    """A `SummaryWriter` of one new event file, without a thread.

    Raises `Seq2AttnError` when the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._file = _EventFile(folder)
        super().__init__(str(folder))

    file_writer: Any
    all_writers: Any

    def _get_file_writer(self) -> Any:
        if self.file_writer is None:
            self.file_writer = _FileWriter(self._file)
            self.all_writers = {self._file.get_logdir(): self.file_writer}
        return self.file_writer


class _FileWriter(FileWriter):
    def __init__(self, file: _EventFile) -> None:  # the one above would start the thread
        self.event_writer = file


class _EventFile:
    """What `FileWriter` asks of an event file."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        self._folder = folder
        self._file = AppendFile(folder / f"{FILES[:-1]}{int(now):010d}.{socket.gethostname()}.{os.getpid()}.0")
        self._held = io.BytesIO()
        self._written = time.monotonic()
        self.add_event(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def get_logdir(self) -> str:
        return str(self._folder)

    def add_event(self, event: Event) -> None:
        RecordWriter(self._held).write(event.SerializeToString())
        if self._held.tell() >= _HELD or time.monotonic() - self._written >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        held, self._held = self._held, io.BytesIO()
        self._written = time.monotonic()
        self._file.add(held.getvalue())

    def close(self) -> None:
        self.flush()
        self._file.close()
