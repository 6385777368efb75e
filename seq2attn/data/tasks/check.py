"""Tries a task once, so that its mistakes are reported before training starts."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from seq2attn.config.plugin_errors import plugin_error
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks.base import Examples, Task
from seq2attn.data.vocabulary import SPECIAL, Vocabulary
from seq2attn.errors import Seq2AttnError

DRAWN = 8  # examples of each kind


def check_task(task: Task, lengths: Collection[int] = ()) -> None:
    """Draw a few examples, of training lengths, of the shortest and the longest, and of each of `lengths`.

    Raises `Seq2AttnError` for the first violation of what `Task` describes.
    """
    problem = _attribute_problem(task)
    for length in () if problem else dict.fromkeys((None, task.min_length, task.max_length, *lengths)):
        try:
            problem = problem or _example_problem(task, length)
        except Seq2AttnError as error:
            problem = f"examples(random, {DRAWN}, {length}): {error.message}"
        except Exception as error:
            explained = plugin_error(error)
            if explained is not None:
                raise explained from error
            problem = f"it raised {type(error).__name__}: {error}"
    if problem:
        hint = "`help(seq2attn.data.tasks.Task)` describes what a task provides."
        raise Seq2AttnError(f"task {type(task).__name__}: {problem}", hint=hint)


def _attribute_problem(task: Task) -> str | None:
    for name in ("source_vocabulary", "target_vocabulary"):
        if not isinstance(getattr(task, name, None), Vocabulary):
            return f"its constructor has to set {name}, a Vocabulary"
    shortest, longest = getattr(task, "min_length", None), getattr(task, "max_length", None)
    if not (isinstance(shortest, int) and isinstance(longest, int) and 1 <= shortest <= longest):
        return f"min_length and max_length are {shortest!r} and {longest!r}; expected whole numbers, 1 <= min <= max"
    return None


def _example_problem(task: Task, length: int | None) -> str | None:
    call = f"examples(random, {DRAWN}, {length})"
    examples = task.examples(torch.Generator().manual_seed(0), DRAWN, length)
    if not isinstance(examples, Examples):
        return f"{call} returned {type(examples).__name__}; expected Examples"
    for name, vocabulary in (("source", task.source_vocabulary), ("target", task.target_vocabulary)):
        problem = _row_problem(getattr(examples, name), getattr(examples, f"{name}_lengths"), len(vocabulary))
        if problem:
            return f"{call}: {name} {problem}"
    low, high = (task.min_length, task.max_length) if length is None else (length, length)
    lengths = examples.source_lengths.tolist()
    if not low <= min(lengths) <= max(lengths) <= high:
        return f"{call} has sources of {min(lengths)} to {max(lengths)} characters; expected {low} to {high}"
    for source_length, target_length in zip(lengths, examples.target_lengths.tolist(), strict=True):
        bound = task.target_length(source_length)
        if target_length > bound:
            found = f"has a target of {target_length} characters for a source of {source_length}"
            return f"target_length({source_length}) is {bound}, but {call} {found}"
    alignment = examples.alignment
    if alignment is not None and alignment.shape != examples.target.shape:
        return f"{call}: alignment has shape {tuple(alignment.shape)}; expected {tuple(examples.target.shape)}"
    return None


def _row_problem(ids: Tensor, lengths: Tensor, vocabulary_size: int) -> str | None:
    """What is wrong with ids (N, T) of these lengths (N,)."""
    if ids.dtype != torch.int64 or ids.dim() != 2 or len(ids) != DRAWN:
        return f"has shape {tuple(ids.shape)} and type {ids.dtype}; expected ({DRAWN}, T) and torch.int64"
    if lengths.shape != (DRAWN,) or lengths.dtype != torch.int64:
        return (
            f"lengths have shape {tuple(lengths.shape)} and type {lengths.dtype}; expected ({DRAWN},) and torch.int64"
        )
    if not 1 <= int(lengths.min()) <= int(lengths.max()) <= ids.size(1):
        return f"lengths are {int(lengths.min())} to {int(lengths.max())}; expected 1 to {ids.size(1)}, the width"
    valid = valid_mask(lengths, ids.size(1))
    real = ids[valid]
    if int(real.min()) < len(SPECIAL) or int(real.max()) >= vocabulary_size:
        return f"has ids {int(real.min())} to {int(real.max())}; expected {len(SPECIAL)} to {vocabulary_size - 1}"
    if ids[~valid].any():
        return "is not padded with 0"
    return None
