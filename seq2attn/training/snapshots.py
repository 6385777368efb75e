"""Snapshots of attention through training: after which steps, on which strings, and the weights that go with them."""

from __future__ import annotations

import contextlib
import math

import torch

from seq2attn.config import Config
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.maps import LARGEST_SIDE
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.runs.checkpoint import MODEL, save_checkpoint
from seq2attn.runs.run import Run
from seq2attn.training.recorder import Recorder

IMAGES = 10  # as many of a tag as TensorBoard shows by default


class Snapshots:
    """Takes the snapshots of one training of `steps` steps."""

    def __init__(self, run: Run, config: Config, predictor: Predictor, steps: int) -> None:
        self.run = run
        self.predictor = predictor
        self.steps = snapshot_steps(steps, config.training.snapshots)
        self._drawn = frozenset(sorted(self.steps)[:: -math.ceil(len(self.steps) / IMAGES) or 1])
        self.strings = watched_strings(config, predictor.task)
        self.keep_weights = config.training.snapshot_weights

    def take(self, step: int, recorder: Recorder) -> None:
        """Record the attention after `step` optimiser steps, and keep the model's weights if the config asks for them."""
        model = self.predictor.model.eval()
        predictions = self.predictor.predict(self.strings, keep_weights=True)
        maps = [prediction.map for prediction in predictions if prediction.map is not None]
        if maps:
            recorder.attention(step, maps, draw=step in self._drawn)
        if self.keep_weights:
            tensors = {MODEL + name: tensor for name, tensor in model.state_dict().items()}
            save_checkpoint(self.run.checkpoint(f"step-{step}"), tensors, {"step": step})


def snapshot_steps(steps: int, count: int) -> frozenset[int]:
    """0, 1, 2, 4, ..., and from where it is closer together `count` evenly spaced steps, the last one `steps`."""
    if count == 0:
        return frozenset()
    spacing = math.ceil(steps / count)
    early = (2**power for power in range(spacing.bit_length()) if 2**power < spacing)
    return frozenset({0, *early, *range(spacing, steps, spacing), steps})


def watched_strings(config: Config, task: Task) -> list[str]:
    """The strings whose attention is recorded: `training.watched`, or the same ones in every run of a task.

    Raises `Seq2AttnError` for a string in the config that the model cannot read, or whose map could not be drawn.
    """
    vocabulary = task.source_vocabulary

    def bound(text: str) -> int:
        return output_bound(task, len(vocabulary.symbols_of(text)))

    if config.training.watched is None:
        return [text for text in _chosen_strings(task) if bound(text) < LARGEST_SIDE]
    for text in config.training.watched:
        try:
            vocabulary.encode(text)
        except Seq2AttnError as error:
            raise Seq2AttnError(f"training.watched: {error.message}", hint=error.hint) from None
        if bound(text) >= LARGEST_SIDE:
            raise Seq2AttnError(
                f"training.watched: {shown(text)} is too long: its output may have {bound(text):,} symbols, and a heat "
                f"map shows fewer than {LARGEST_SIDE} a side; watch a shorter string"
            )
    return list(config.training.watched)


def _chosen_strings(task: Task) -> list[str]:
    """`hello` if the task has it, one string of the middle training length and one of the largest."""
    vocabulary = task.source_vocabulary
    if task.dev_set:
        sources = sorted({source for source, _ in task.dev_set}, key=lambda text: (len(vocabulary.encode(text)), text))
        return list(dict.fromkeys([sources[len(sources) // 2], sources[-1]]))
    strings = ["hello"] if task.is_trained(5) and set("hello") <= set(vocabulary.symbols) else []
    for length in sorted({(task.min_length + task.max_length + 1) // 2, task.max_length}):
        with contextlib.suppress(Seq2AttnError):  # the task has no source of this length
            examples = task.examples(generator(torch.device("cpu"), "watched", length), 1, length)
            strings.append(vocabulary.decode(examples.source[0].tolist()))
    return strings
