"""The rules of tasks and of losses: functions of a task or a loss that raise `Broken`."""

import contextlib
from collections.abc import Callable, Collection
from dataclasses import replace

import torch
from torch import Tensor
from torch.autograd import gradcheck

from seq2attn.config import Config
from seq2attn.contract import models
from seq2attn.contract.subject import Rules, expect, expect_equal, make_subject
from seq2attn.data.batches import Batch, make_batch
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.tasks.base import pad_pairs
from seq2attn.data.vocabulary import PAD, SPECIAL, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.interface import Decoded
from seq2attn.model.losses import Loss

DRAWN = 8  # examples of each length
CPU = torch.device("cpu")


def check_examples(task: Task, lengths: Collection[int] | None = None) -> None:
    """Vocabularies are set, and examples are right: those of training lengths, of the shortest, of
    the longest and of each of `lengths` (None: trained).
    """
    for name in ("source_vocabulary", "target_vocabulary"):
        is_set = isinstance(getattr(task, name, None), Vocabulary)
        expect(is_set, f"its constructor has to set {name}, a Vocabulary")
    low, high = getattr(task, "min_length", None), getattr(task, "max_length", None)
    expect(
        isinstance(low, int) and isinstance(high, int) and 1 <= low <= high,
        f"min_length and max_length are {low!r} and {high!r}; "
        "expected whole numbers, 1 <= min <= max",
    )
    for length in dict.fromkeys((None, low, high, *(lengths or task.trained_lengths))):
        _check_examples_of(task, length)


def check_lengths(task: Task) -> None:
    """Sources shorter and longer than in training give right examples and answers, or a
    `Seq2AttnError` if no source has that length. If targets copy what the alignment says, they do
    so at every length.
    """
    copies = _copies(_draw(task))
    longest = task.max_length
    for length in (max(1, task.min_length - 1), longest + 1, 2 * longest + 1):
        with contextlib.suppress(Seq2AttnError):
            _check_examples_of(task, length)
            check_answer(task, length)
            expect(
                not copies or _copies(_draw(task, length)),
                f"examples(random, {DRAWN}, {length}): the alignment points at other symbols than "
                "the target's; at training lengths it does not",
            )


def _copies(examples: Examples) -> bool:
    """Return whether each target position has the id of the source position that it copies."""
    alignment = examples.alignment
    if alignment is None:
        return False
    copied = examples.source.gather(1, alignment.clamp(min=0))
    return torch.equal(copied.masked_fill(alignment < 0, PAD), examples.target)


def check_randomness(task: Task) -> None:
    """Examples are drawn from the generator, and depend on nothing else."""
    random = torch.Generator().manual_seed(0)
    before = random.get_state()
    examples = task.examples(random, DRAWN)
    is_drawn = not torch.equal(before, random.get_state())
    expect(is_drawn, "examples(random, ...) draws nothing from `random`")
    for name, tensor in vars(_draw(task)).items():
        is_same = tensor is None or torch.equal(tensor, getattr(examples, name))
        expect(is_same, f"{name} differs between two calls with generators of the same seed")


def check_answer(task: Task, length: int | None = None) -> None:
    """`answer`, where it knows one, gives the target and the alignment of the examples."""
    examples = _draw(task, length)
    for row in range(DRAWN):
        source = examples.source[row, : examples.source_lengths[row]]
        target = examples.target[row, : examples.target_lengths[row]]
        text = task.source_vocabulary.decode(source.tolist())
        expected = task.target_vocabulary.decode(target.tolist())
        answer = task.answer(text)
        if answer is None:
            continue
        message = f"answer({text!r}) is {answer.text!r}, but an example has {expected!r}"
        expect(answer.text == expected, message)
        if answer.alignment is not None and examples.alignment is not None:
            alignment = list(answer.alignment)
            positions = examples.alignment[row, : len(target)].tolist()
            expect(
                alignment == positions,
                f"answer({text!r}) has the alignment {alignment}, but an example has {positions}",
            )


def check_training(task: Task) -> None:
    """A model takes a training step on the task, and is evaluated on its shortest and longest
    strings.
    """
    subject = make_subject(Config(), task, [], torch.float32, CPU)
    batch = make_batch(_draw(task), source_eos=True)
    models.check_training(replace(subject, batch=batch))
    predictor = Predictor(subject.model.eval(), task, source_eos=True, device=CPU)
    lengths = task.trained_lengths
    evaluate(predictor, sorted({lengths[0], lengths[-1]}), samples=DRAWN, seed="check")


def _draw(task: Task, length: int | None = None) -> Examples:
    return task.examples(torch.Generator().manual_seed(0), DRAWN, length)


def _check_examples_of(task: Task, length: int | None) -> None:
    """Check examples of this length, or of training lengths: types, shapes, ids, padding, lengths
    and alignment.
    """
    call = f"examples(random, {DRAWN}, {length})"
    examples = _draw(task, length)
    message = f"{call} returned {type(examples).__name__}; expected Examples"
    expect(isinstance(examples, Examples), message)
    counts, target_counts = examples.source_lengths, examples.target_lengths
    _check_ids(f"{call}: source", examples.source, counts, task.source_vocabulary)
    _check_ids(f"{call}: target", examples.target, target_counts, task.target_vocabulary)
    low, high = task.min_length, task.max_length
    if length is not None:
        low = high = length
    shortest, longest = map(int, counts.aminmax())
    expect(
        low <= shortest and longest <= high,
        f"{call} has sources of {shortest} to {longest} characters; expected {low} to {high}",
    )
    for count, target_count in zip(counts.tolist(), target_counts.tolist(), strict=True):
        bound = task.target_length(count)
        expect(
            target_count <= bound,
            f"target_length({count}) is {bound}, "
            f"but {call} has a target of {target_count} for a source of {count}",
        )
    alignment = examples.alignment
    if alignment is not None:
        shape, expected = tuple(alignment.shape), tuple(examples.target.shape)
        expect(shape == expected, f"{call}: alignment has shape {shape}; expected {expected}")
        real = valid_mask(target_counts, alignment.size(1))
        is_inside = ((alignment >= 0) & (alignment < counts.unsqueeze(1)))[real]
        expect(is_inside.all(), f"{call}: alignment points outside the source")
        is_minus_one = alignment[~real] == -1
        expect(is_minus_one.all(), f"{call}: alignment is not -1 past the target's end")


def _check_ids(name: str, ids: Tensor, lengths: Tensor, vocabulary: Vocabulary) -> None:
    expect(
        ids.dtype == torch.int64 and ids.dim() == 2,
        f"{name} is {ids.dtype} {tuple(ids.shape)}; expected torch.int64 ({DRAWN}, T)",
    )
    expect(
        len(ids) == len(lengths) == DRAWN,
        f"{name} has {len(ids)} rows and {len(lengths)} lengths; expected {DRAWN}",
    )
    width = ids.size(1)
    low, high = map(int, lengths.aminmax())
    expect(
        1 <= low <= high <= width,
        f"{name} lengths are {low} to {high}; expected 1 to {width}, the width",
    )
    real = valid_mask(lengths, width)
    low, high = map(int, ids[real].aminmax())
    first, last = len(SPECIAL), len(vocabulary) - 1
    expect(
        first <= low and high <= last,
        f"{name} has ids {low} to {high}; expected {first} to {last}",
    )
    expect(not ids[~real].any(), f"{name} is not padded with 0")


def check_loss(loss: Loss) -> None:
    """The loss is one number with right gradients, and outputs past a string's end do not matter.

    It is given attention weights, and an alignment, only if it says that it needs them.
    """
    compute, batch, logits, scores = loss_example(loss)
    value = compute(logits, scores)
    is_number = isinstance(value, Tensor) and value.shape == () and value.isfinite()
    expect(is_number, f"forward returned {value}; expected a tensor of shape (), a finite number")
    expect(
        value.requires_grad,
        "the loss has no gradient: it is constant, an integer, or was computed without gradients "
        "(no_grad, inference_mode, .detach(), .item())",
    )
    same = compute(logits, scores)
    expect_equal(same, value, "the same outputs give another loss; keep nothing between calls")
    past = (batch.decoder_output == PAD).unsqueeze(2)
    again = compute(logits.masked_fill(past, 5.0), scores.masked_fill(past, 0.0))
    expect_equal(again, value, "outputs where batch.decoder_output is 0 (<pad>) change the loss")
    agree = gradcheck(compute, (logits, scores), raise_exception=False)
    expect(agree, "the gradients are not those that finite differences give")


def loss_example(loss: Loss) -> tuple[Callable[..., Tensor], Batch, Tensor, Tensor]:
    """Return the loss as a function of logits (B, L, V) and scores (B, L, S), its batch, and drawn
    logits and scores.
    """
    examples = pad_pairs([([4, 5, 4], [5, 4]), ([4], [4])], CPU)
    if loss.needs_alignment:
        examples = replace(examples, alignment=torch.tensor([[1, 0], [0, -1]]))
    batch = make_batch(examples, source_eos=True)  # L = 3, S = 4
    valid = valid_mask(batch.source_lengths, 4).unsqueeze(1)  # (B, 1, S)

    def compute(logits: Tensor, scores: Tensor) -> Tensor:
        scores = scores.masked_fill(~valid, -torch.inf)  # weights on padding are 0
        weights = scores.softmax(dim=2) if loss.needs_attention else None
        given = {"step": 3, "states": logits[..., :5]}
        asked = {name: given[name] for name in loss.asks}
        return loss.forward(Decoded(logits, weights), batch, **asked)

    logits = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    return compute, batch, logits, scores


LOSS_RULES: Rules = {"loss": check_loss}
TASK_RULES: Rules = {
    "examples": check_examples,
    "randomness": check_randomness,
    "answer": check_answer,
    "lengths": check_lengths,
    "training": check_training,
}
