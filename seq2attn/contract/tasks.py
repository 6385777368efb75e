"""What every task keeps to. Each rule is a function of the task; it raises `Broken`."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from seq2attn.contract.models import Broken, expect
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import SPECIAL, Vocabulary
from seq2attn.errors import Seq2AttnError

DRAWN = 8  # examples of each length


def _draw(task: Task, length: int | None = None, seed: int = 0) -> Examples:
    return task.examples(torch.Generator().manual_seed(seed), DRAWN, length)


def check_examples(task: Task, lengths: Collection[int] = ()) -> None:
    """Vocabularies, and examples of training lengths, of the shortest, the longest and each of `lengths`."""
    for name in ("source_vocabulary", "target_vocabulary"):
        expect(isinstance(getattr(task, name, None), Vocabulary), f"its constructor has to set {name}, a Vocabulary")
    low, high = getattr(task, "min_length", None), getattr(task, "max_length", None)
    expect(
        isinstance(low, int) and isinstance(high, int) and 1 <= low <= high,
        f"min_length and max_length are {low!r} and {high!r}; expected whole numbers, 1 <= min <= max",
    )
    for length in dict.fromkeys((None, low, high, *lengths)):
        call = f"examples(random, {DRAWN}, {length})"
        try:
            examples = _draw(task, length)
        except Seq2AttnError as error:
            raise Broken(f"{call}: {error.message}") from error
        _check(task, length, examples, call)


def _check(task: Task, length: int | None, examples: Examples, call: str) -> None:
    expect(isinstance(examples, Examples), f"{call} returned {type(examples).__name__}; expected Examples")
    source, counts = examples.source, examples.source_lengths
    target, target_counts = examples.target, examples.target_lengths
    _check_rows(f"{call}: source", source, counts, len(task.source_vocabulary))
    _check_rows(f"{call}: target", target, target_counts, len(task.target_vocabulary))
    low, high = (task.min_length, task.max_length) if length is None else (length, length)
    found = f"{call} has sources of {int(counts.min())} to {int(counts.max())} characters"
    expect(low <= counts.min() and counts.max() <= high, f"{found}; expected {low} to {high}")
    for source_length, target_length in zip(counts.tolist(), target_counts.tolist(), strict=True):
        bound, found = task.target_length(source_length), f"a target of {target_length} for a source of {source_length}"
        expect(target_length <= bound, f"target_length({source_length}) is {bound}, but {call} has {found}")
    alignment = examples.alignment
    if alignment is not None:
        wanted = tuple(target.shape)
        expect(alignment.shape == wanted, f"{call}: alignment has shape {tuple(alignment.shape)}; expected {wanted}")
        real = valid_mask(target_counts, target.size(1))
        inside = (alignment >= 0) & (alignment < counts.unsqueeze(1))
        expect(inside[real].all(), f"{call}: alignment points outside the source")
        expect((alignment[~real] == -1).all(), f"{call}: alignment is not -1 past the target's end")


def _check_rows(what: str, ids: Tensor, lengths: Tensor, vocabulary_size: int) -> None:
    """ids (DRAWN, T), right-padded, of lengths (DRAWN,)."""
    found = f"{what} is {ids.dtype} {tuple(ids.shape)}"
    expect(ids.dtype == torch.int64 and ids.dim() == 2, f"{found}; expected torch.int64 ({DRAWN}, T)")
    expect(
        len(ids) == len(lengths) == DRAWN, f"{what} has {len(ids)} rows and {len(lengths)} lengths; expected {DRAWN}"
    )
    low, high, width = int(lengths.min()), int(lengths.max()), ids.size(1)
    expect(1 <= low <= high <= width, f"{what} lengths are {low} to {high}; expected 1 to {width}, the width")
    valid = valid_mask(lengths, width)
    low, high = int(ids[valid].min()), int(ids[valid].max())
    right = len(SPECIAL) <= low and high < vocabulary_size
    expect(right, f"{what} has ids {low} to {high}; expected {len(SPECIAL)} to {vocabulary_size - 1}")
    expect(not ids[~valid].any(), f"{what} is not padded with 0")


def check_lengths(task: Task) -> None:
    """Sources shorter and longer than in training: right examples, or a `Seq2AttnError` for a length that no source has."""
    for length in {max(1, task.min_length - 1), task.max_length + 1}:
        try:
            examples = _draw(task, length)
        except Seq2AttnError:
            continue
        _check(task, length, examples, f"examples(random, {DRAWN}, {length})")


def check_randomness(task: Task) -> None:
    """Examples are drawn from the generator, and depend on nothing else."""
    random = torch.Generator().manual_seed(0)
    before = random.get_state()
    examples = task.examples(random, DRAWN)
    expect(not torch.equal(before, random.get_state()), "examples(random, ...) draws nothing from `random`")
    for name, tensor in vars(_draw(task)).items():
        same = tensor is None or torch.equal(tensor, getattr(examples, name))
        expect(same, f"{name} differs between two calls with generators of the same seed")


def check_answer(task: Task) -> None:
    """`answer`, where it knows one, gives the target and the alignment of the examples."""
    examples = _draw(task)
    for row, (length, target_length) in enumerate(zip(examples.source_lengths, examples.target_lengths, strict=True)):
        text = task.source_vocabulary.decode(examples.source[row, :length].tolist())
        target = task.target_vocabulary.decode(examples.target[row, :target_length].tolist())
        answer = task.answer(text)
        if answer is None:
            continue
        expect(answer.text == target, f"answer({text!r}) is {answer.text!r}, but an example has {target!r}")
        if answer.alignment is not None and examples.alignment is not None:
            found, wanted = list(answer.alignment), examples.alignment[row, :target_length].tolist()
            expect(found == wanted, f"answer({text!r}) has the alignment {found}, but an example has {wanted}")


RULES: dict[str, Callable[[Task], None]] = {
    "examples": check_examples,
    "lengths": check_lengths,
    "randomness": check_randomness,
    "answer": check_answer,
}
