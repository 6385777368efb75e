"""What every task keeps to. Each rule is a function of the task; it raises `Broken`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace

import torch

from seq2attn.config import Config
from seq2attn.contract import models
from seq2attn.contract.models import expect, make_subject
from seq2attn.data.batches import make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import SPECIAL, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor

DRAWN = 8  # examples of each length


def check_examples(task: Task, lengths: Collection[int] | None = None) -> None:
    """Vocabularies, and examples of training lengths, of the shortest, the longest and each of
    `lengths` (None: trained).
    """
    for name in ("source_vocabulary", "target_vocabulary"):
        expect(
            isinstance(getattr(task, name, None), Vocabulary),
            f"its constructor has to set {name}, a Vocabulary",
        )
    low, high = getattr(task, "min_length", None), getattr(task, "max_length", None)
    expected = "expected whole numbers, 1 <= min <= max"
    right = isinstance(low, int) and isinstance(high, int) and 1 <= low <= high
    expect(right, f"min_length and max_length are {low!r} and {high!r}; {expected}")
    for length in dict.fromkeys((None, low, high, *(lengths or task.trained_lengths))):
        _check(task, length)


def check_lengths(task: Task) -> None:
    """Sources shorter and longer than in training: right examples, or a `Seq2AttnError` for a
    length that no source has.
    """
    for length in {max(1, task.min_length - 1), task.max_length + 1}:
        with contextlib.suppress(Seq2AttnError):
            _check(task, length)


def check_randomness(task: Task) -> None:
    """Examples are drawn from the generator, and depend on nothing else."""
    random = torch.Generator().manual_seed(0)
    before = random.get_state()
    examples = task.examples(random, DRAWN)
    expect(
        not torch.equal(before, random.get_state()),
        "examples(random, ...) draws nothing from `random`",
    )
    for name, tensor in vars(_draw(task)).items():
        same = tensor is None or torch.equal(tensor, getattr(examples, name))
        expect(same, f"{name} differs between two calls with generators of the same seed")


def check_answer(task: Task) -> None:
    """`answer`, where it knows one, gives the target and the alignment of the examples."""
    examples = _draw(task)
    for row, (length, target_length) in enumerate(
        zip(examples.source_lengths, examples.target_lengths, strict=True)
    ):
        text = task.source_vocabulary.decode(examples.source[row, :length].tolist())
        target = task.target_vocabulary.decode(examples.target[row, :target_length].tolist())
        answer = task.answer(text)
        if answer is None:
            continue
        expect(
            answer.text == target,
            f"answer({text!r}) is {answer.text!r}, but an example has {target!r}",
        )
        if answer.alignment is not None and examples.alignment is not None:
            found, wanted = list(answer.alignment), examples.alignment[row, :target_length].tolist()
            expect(
                found == wanted,
                f"answer({text!r}) has the alignment {found}, but an example has {wanted}",
            )


def check_training(task: Task) -> None:
    """A model takes a step on the task, and is measured on its shortest and longest strings, as in
    training.
    """
    trial = make_subject(Config(), task, [], torch.float32, torch.device("cpu"))
    models.check_training(replace(trial, batch=make_batch(_draw(task), source_eos=True)))
    predictor = Predictor(trial.model.eval(), task, source_eos=True, device=torch.device("cpu"))
    lengths = task.trained_lengths
    evaluate(predictor, sorted({*lengths[:1], *lengths[-1:]}), samples=DRAWN, seed="check")


def _draw(task: Task, length: int | None = None) -> Examples:
    return task.examples(torch.Generator().manual_seed(0), DRAWN, length)


def _check(task: Task, length: int | None) -> None:
    """Examples of this length, or of training lengths: types, shapes, ids, padding, lengths and
    alignment.
    """
    call, examples = f"examples(random, {DRAWN}, {length})", _draw(task, length)
    expect(
        isinstance(examples, Examples),
        f"{call} returned {type(examples).__name__}; expected Examples",
    )
    counts, target_counts, alignment = (
        examples.source_lengths,
        examples.target_lengths,
        examples.alignment,
    )
    for name, ids, lengths, vocabulary in (
        ("source", examples.source, counts, task.source_vocabulary),
        ("target", examples.target, target_counts, task.target_vocabulary),
    ):
        what = f"{call}: {name}"
        right = ids.dtype == torch.int64 and ids.dim() == 2
        expect(
            right, f"{what} is {ids.dtype} {tuple(ids.shape)}; expected torch.int64 ({DRAWN}, T)"
        )
        counted = f"{what} has {len(ids)} rows and {len(lengths)} lengths; expected {DRAWN}"
        expect(len(ids) == len(lengths) == DRAWN, counted)
        low, high, width = int(lengths.min()), int(lengths.max()), ids.size(1)
        expect(
            1 <= low <= high <= width,
            f"{what} lengths are {low} to {high}; expected 1 to {width}, the width",
        )
        real = valid_mask(lengths, width)
        low, high, least, most = (
            int(ids[real].min()),
            int(ids[real].max()),
            len(SPECIAL),
            len(vocabulary) - 1,
        )
        expect(
            least <= low and high <= most,
            f"{what} has ids {low} to {high}; expected {least} to {most}",
        )
        expect(not ids[~real].any(), f"{what} is not padded with 0")
    low, high = (task.min_length, task.max_length) if length is None else (length, length)
    found = f"{call} has sources of {int(counts.min())} to {int(counts.max())} characters"
    expect(low <= counts.min() and counts.max() <= high, f"{found}; expected {low} to {high}")
    for size, target_size in zip(counts.tolist(), target_counts.tolist(), strict=True):
        bound, found = task.target_length(size), f"a target of {target_size} for a source of {size}"
        expect(target_size <= bound, f"target_length({size}) is {bound}, but {call} has {found}")
    if alignment is not None:
        wanted = tuple(examples.target.shape)
        expect(
            alignment.shape == wanted,
            f"{call}: alignment has shape {tuple(alignment.shape)}; expected {wanted}",
        )
        inside = (alignment >= 0) & (alignment < counts.unsqueeze(1))
        expect(inside[real].all(), f"{call}: alignment points outside the source")
        expect((alignment[~real] == -1).all(), f"{call}: alignment is not -1 past the target's end")


RULES = models.rules(check_examples, check_lengths, check_randomness, check_answer, check_training)
