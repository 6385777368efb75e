"""TensorBoard's event files, written in the training's own thread."""

from __future__ import annotations

import io
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from seq2attn.runs.files import AppendFile

if TYPE_CHECKING:
    from PIL.Image import Image

FILES = "events.out.tfevents.*"
MOST_HELD = 1 << 16  # bytes in memory
LONGEST_HELD = 5.0  # seconds, as long as events follow
RGB = 3  # in the colour spaces of `Summary.Image`


class EventFile:
    """One new event file in `folder`.

    TensorBoard's own writer has a thread, which on a full disk dies with a traceback or makes its owner wait. Here the call
    that writes raises `Seq2AttnError`.
    """

    def __init__(self, folder: Path) -> None:
        now = time.time()
        self._file = AppendFile(folder / f"{FILES[:-1]}{int(now):010d}.{socket.gethostname()}.{os.getpid()}.0")
        self._held = io.BytesIO()
        self._written = time.monotonic()
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        self.flush()

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add one point of a curve."""
        self.add(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def image(self, tag: str, image: Image, step: int) -> None:
        """Add an image."""
        png = io.BytesIO()
        image.save(png, format="PNG")
        width, height = image.size
        drawn = Summary.Image(height=height, width=width, colorspace=RGB, encoded_image_string=png.getvalue())
        self.add(Summary(value=[Summary.Value(tag=tag, image=drawn)]), step)

    def add(self, summary: Summary, step: int = 0) -> None:
        """Add any summary."""
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
