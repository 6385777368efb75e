"""The records of a training: metrics.jsonl, attention.jsonl and TensorBoard's events."""

import contextlib
import io
import json
import os
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from seq2attn.colours import weight_colour
from seq2attn.config import Config
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.display.signs import sign
from seq2attn.errors import Seq2AttnError
from seq2attn.files import append, writing
from seq2attn.inference.predictor import output_bound
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.maps import LARGEST_SIDE, AttentionMap
from seq2attn.runs.run import Run
from seq2attn.text import quoted

EVENTS = "events.out.tfevents.*"  # files
CELL = 24  # pixels a side of one weight
MAIN = "loss exact_match_mean exact_match_worst wer ser dev_loss"
"""TensorBoard sorts by group: these come first, in `main`"""


class Recorder:
    """Writes a run's measurements; raises `Seq2AttnError` (exit code 1) if that fails.

    `positions` returns the length of each file; a Recorder opened with those lengths cuts off
    everything written later, so that a resumed run records no step twice.
    """

    def __init__(self, run: Run, positions: dict[str, int] | None = None) -> None:
        """positions: file name -> its size when the checkpoint was written from which training goes
        on; a file without one is deleted.
        """
        self.run = run
        for file in self._files():
            size = (positions or {}).get(file.name, 0)
            with writing(file):
                if size == 0:  # nothing in it precedes the checkpoint
                    file.unlink(missing_ok=True)
                elif file.exists() and file.stat().st_size > size:
                    os.truncate(file, size)
        self._events = run.path / EVENTS.replace("*", str(time.time_ns()))
        self._event(file_version="brain.Event:2")  # with which TensorBoard's files begin

    def step(self, step: int, values: dict[str, float]) -> None:
        """Record the numbers of a step, such as its loss and gradient norm, by name."""
        _add(self.run.metrics_file, {"step": step, **values})
        self._scalars("train", values, step)

    def evaluation(self, step: int, results: Evaluation) -> None:
        """Record an evaluation: its rows, and for TensorBoard its summary too.

        TensorBoard gets each metric by length, such as `validation_exact_match/005`.
        """
        _add(self.run.metrics_file, {"step": step, "evaluation": results.records()})
        self._scalars("validation", results.summary(), step)
        for row in results.rows:
            if row.length is not None:
                group = f"validation_{row.metric}"
                # of 3 digits, so that TensorBoard sorts them by number
                self._scalars(group, {f"{row.length:03d}": row.value}, step)

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        """Record the attention maps of a few strings: as JSON, and as an image each.

        Images of the same string have the same tag, so that TensorBoard has a slider over steps.
        """
        records = [attention.to_json() for attention in maps]
        _add(self.run.attention_file, {"step": step, "maps": records})
        for number, attention in enumerate(maps, start=1):
            tag = f"maps/{number} {attention.source}"
            image = Summary.Value(tag=tag, image=_heat_map(attention))
            self._event(step=step, summary=Summary(value=[image]))

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


def _heat_map(attention: AttentionMap) -> Summary.Image:
    """Draw a square of pixels for each weight, between the letters of its row, an output token, and
    of its column, a source token.
    """
    columns = len(attention.source_symbols)
    rows = len(attention.output_symbols)
    cells = Image.new("RGB", (columns, rows))  # a pixel each
    cells.putdata([weight_colour(weight) for row in attention.weights for weight in row])
    cells = cells.resize((CELL * columns, CELL * rows), Image.Resampling.NEAREST)
    image = Image.new("RGB", (CELL + CELL * columns, CELL + CELL * rows), "white")
    image.paste(cells, (CELL, CELL))

    letters = ImageDraw.Draw(image)
    font = _font()
    middle = CELL // 2
    # from 1: the letters of the rows stand in column 0, those of the columns in row 0
    for place, symbol in enumerate(attention.source_symbols, start=1):
        centre = (place * CELL + middle, middle)
        # two characters fit beside each other; mm: their middle, in both directions, is there
        letters.text(centre, sign(symbol)[:2], "black", font, "mm")
    for place, symbol in enumerate(attention.output_symbols, start=1):
        centre = (middle, place * CELL + middle)
        letters.text(centre, sign(symbol)[:2], "black", font, "mm")

    png = io.BytesIO()
    image.save(png, format="PNG")
    return Summary.Image(
        height=image.height,
        width=image.width,
        colorspace=3,  # RGB
        encoded_image_string=png.getvalue(),
    )


@cache
def _font() -> ImageFont.FreeTypeFont:
    """Return the font of matplotlib's figures, without importing matplotlib, which takes long."""
    file = distribution("matplotlib").locate_file("matplotlib/mpl-data/fonts/ttf/DejaVuSans.ttf")
    return ImageFont.truetype(str(file), CELL * 0.6)


def _add(file: Path, record: dict[str, Any]) -> None:
    """Append a line of JSON to a file."""
    append(file, f"{json.dumps(record)}\n".encode())


# ---- the strings whose attention is recorded ----


def watched_strings(config: Config, task: Task) -> list[str]:
    """Return the strings whose attention is recorded: `training.watched`, or a few that every run
    of a task watches.

    Raises `Seq2AttnError` for a string in the config that the model cannot read, or whose map
    could not be drawn.
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
    """Return True if a text with its `<eos>`, and even its longest output, fit into a map."""
    length = len(task.source_vocabulary.symbols_of(text))
    return max(length, output_bound(task, length)) < LARGEST_SIDE


def _chosen_strings(task: Task) -> list[str]:
    """Return a string of the middle length and a longest one; of a task that draws its strings
    also `hello`, if it may.
    """
    vocabulary = task.source_vocabulary
    if task.dev_set:
        # by length, and those of one length by their text: the same ones in every run
        sources = sorted({source for source, _ in task.dev_set})
        sources.sort(key=lambda text: len(vocabulary.encode(text)))
        chosen = [sources[len(sources) // 2], sources[-1]]
        return list(dict.fromkeys(chosen))  # one, if there is only one
    strings = []
    # `hello` has 5 symbols
    if task.is_trained(5) and set("hello") <= set(vocabulary.symbols):
        strings.append("hello")
    lengths = task.trained_lengths
    for length in sorted({lengths[len(lengths) // 2], lengths[-1]}):
        with contextlib.suppress(Seq2AttnError):  # the task has no source of this length
            random = generator("cpu", "watched", length)
            examples = task.examples(random, 1, length)
            strings.append(vocabulary.decode(examples.source[0].tolist()))
    return strings
