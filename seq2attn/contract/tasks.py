"""The rules of tasks and of losses: functions of a task or a loss that yield what they find. Only
the first finding counts, so that a rule may rely on what it has found to be right so far.
"""

import contextlib
from collections.abc import Collection
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.autograd import gradcheck

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.contract.subject import differ, form
from seq2attn.data.batches import Examples, make_batch, pad_pairs, valid_mask
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import SPECIAL, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.findings.engine import Found, Rules
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.interface import Decoded, Loss

DRAWN = 8  # examples of each length
CPU = torch.device("cpu")


def check_examples(task: Task, lengths: Collection[int] | None = None) -> Found:
    """Vocabularies and lengths are set, and examples are right: those of training, then those of
    the shortest length, the longest and each of `lengths` alone (None: each length of training).
    """
    for name in ("source_vocabulary", "target_vocabulary"):
        if not isinstance(getattr(task, name, None), Vocabulary):
            yield "no-vocabulary", name
    low, high = task.min_length, task.max_length
    if not 1 <= low <= high:
        yield "task-lengths", low, high
    # each once, in this order; None: examples of mixed lengths, as in training
    for length in dict.fromkeys((None, low, high, *(lengths or task.trained_lengths))):
        yield from _check_examples_of(task, length)


def check_lengths(task: Task) -> Found:
    """Sources shorter and longer than in training give right examples and answers, or a
    `Seq2AttnError` if no source has that length.
    """
    longest = task.max_length
    for length in (max(1, task.min_length - 1), longest + 1, 2 * longest + 1):
        with contextlib.suppress(Seq2AttnError):
            yield from _check_examples_of(task, length)
            yield from check_answer(task, length)


def check_randomness(task: Task) -> Found:
    """Examples are drawn from the generator, and depend on nothing else: drawn again by `_draw`,
    with the same seed, they are the same.
    """
    random = torch.Generator().manual_seed(0)  # as `_draw` does
    before = random.get_state()
    examples = task.examples(random, DRAWN)
    if torch.equal(before, random.get_state()):
        yield "draws-nothing"
    for name, tensor in vars(_draw(task)).items():
        # (examples without an alignment have None)
        if tensor is not None and not torch.equal(tensor, getattr(examples, name)):
            yield "draws-differ", name


def check_answer(task: Task, length: int | None = None) -> Found:
    """`answer`, where it knows one, gives the target and the alignment of the examples.

    length: of their sources; None: as in training.
    """
    examples = _draw(task, length)
    for row in range(DRAWN):
        source = examples.source[row, : examples.source_lengths[row]]
        target = examples.target[row, : examples.target_lengths[row]]
        text = task.source_vocabulary.decode(source.tolist())
        expected = task.target_vocabulary.decode(target.tolist())
        answer = task.answer(text)
        if answer is None:  # the task cannot solve it
            continue
        if answer.text != expected:
            yield "answer-text", text, answer.text, expected
        if answer.alignment is not None and examples.alignment is not None:
            alignment = list(answer.alignment)
            positions = examples.alignment[row, : len(target)].tolist()
            if alignment != positions:
                yield "answer-alignment", text, alignment, positions


def check_evaluation(task: Task) -> Found:
    """A model of the default config can be evaluated on the task's shortest and longest strings."""
    predictor = Predictor(build_model(Config(), task), task, source_eos=True, device=CPU)
    lengths = task.trained_lengths
    # what is measured does not matter, only whether it raises
    evaluate(predictor, [lengths[0], lengths[-1]], samples=DRAWN, seed="check")
    yield from ()


def _draw(task: Task, length: int | None = None) -> Examples:
    """Draw DRAWN examples with seed 0, the same at each call."""
    return task.examples(torch.Generator().manual_seed(0), DRAWN, length)


def _check_examples_of(task: Task, length: int | None) -> Found:
    """Check examples of this length (None: of training lengths): types, shapes, ids, padding,
    lengths, and alignment: a position in the source for each character of a target, and -1 past its
    end. No target may be longer than `target_length` of its source says.
    """
    call = f"examples(random, {DRAWN}, {length})"  # as findings show it
    examples = _draw(task, length)
    if not isinstance(examples, Examples):
        yield "form", call, form(examples), "Examples"
    # (callers stop at the first finding: what was checked above holds from here on)
    counts, target_counts = examples.source_lengths, examples.target_lengths
    yield from _check_ids(f"{call}: source", examples.source, counts, task.source_vocabulary)
    yield from _check_ids(f"{call}: target", examples.target, target_counts, task.target_vocabulary)
    low, high = task.min_length, task.max_length
    if length is not None:
        low = high = length
    shortest, longest = map(int, counts.aminmax())
    if not low <= shortest <= longest <= high:
        yield "source-lengths", call, shortest, longest, low, high
    for count, target_count in zip(counts.tolist(), target_counts.tolist(), strict=True):
        bound = task.target_length(count)
        if target_count > bound:
            yield "target-length", count, bound, call, target_count
    alignment = examples.alignment  # (DRAWN, T)
    if alignment is None:
        return
    if form(alignment) != form(examples.target):
        yield "form", f"{call}: alignment", form(alignment), form(examples.target)
    real = valid_mask(target_counts, alignment.size(1))
    is_inside = (alignment >= 0) & (alignment < counts.unsqueeze(1))
    if not torch.where(real, is_inside, alignment == -1).all():
        yield "alignment", call


def _check_ids(name: str, ids: Tensor, lengths: Tensor, vocabulary: Vocabulary) -> Found:
    """Check that each row of ids (DRAWN, T) has symbols of the vocabulary up to its length, and
    padding, 0, from there on. name: what the ids are, for findings. lengths (DRAWN,).
    """
    if (ids.dtype, ids.dim(), len(ids), len(lengths)) != (torch.int64, 2, DRAWN, DRAWN):
        yield "ids-type", name, form(ids), len(lengths), DRAWN
    # (callers stop at the first finding: ids are a matrix from here on)
    width = ids.size(1)
    shortest, longest = map(int, lengths.aminmax())
    if not 1 <= shortest <= longest <= width:
        yield "ids-lengths", name, shortest, longest, width
    first, last = len(SPECIAL), len(vocabulary) - 1  # ids of symbols follow the special ones
    is_known = (ids >= first) & (ids <= last)
    wrong = ids[~torch.where(valid_mask(lengths, width), is_known, ids == 0)]
    if len(wrong):
        yield "ids", name, int(wrong[0]), first, last


def check_loss(loss: Loss) -> Found:
    """The loss is one number with right gradients, the same in each call, and outputs past a
    string's end do not matter.

    It is given attention weights, and an alignment, only if it says that it needs them.
    """
    compute = partial(loss_of, loss)
    outputs = draw_outputs().requires_grad_()
    value = compute(outputs)
    if not (isinstance(value, Tensor) and value.shape == () and value.isfinite()):
        yield "loss-number", value
    if not value.requires_grad:
        yield "loss-constant"
    if differ(compute(outputs), value):  # the same call once more
        yield "loss-state"
    # (B, L, 1): 0 past the end of the second target, which has one symbol and `<eos>`; else 1
    real = valid_mask(torch.tensor([3, 2]), 3).unsqueeze(2)
    if differ(compute(outputs * real), value):
        yield "loss-padding"
    if not gradcheck(compute, outputs, fast_mode=True, raise_exception=False):
        yield "wrong-gradients"


def draw_outputs() -> Tensor:
    """Draw logits and scores side by side, (B, L, V + S) = (2, 3, 7 + 4), for `loss_of`."""
    return torch.randn(2, 3, 11, dtype=torch.float64)


def loss_of(loss: Loss, outputs: Tensor) -> Tensor:
    """Return the loss of a model's outputs on B = 2 pairs. It gets weights, an alignment, and what
    else it asks for, only if it says that it needs them.

    outputs: as `draw_outputs` returns them; the weights are those of the scores.
    """
    # ids of symbols of two lengths, so that there is padding
    examples = pad_pairs([([4, 5, 4], [5, 4]), ([4], [4])], CPU)
    if loss.needs_alignment:
        examples = replace(examples, alignment=torch.tensor([[1, 0], [0, -1]]))
    batch = make_batch(examples, source_eos=True)  # L = 3, S = 4
    logits, scores = torch.split(outputs, [7, 4], dim=2)  # (B, L, V), (B, L, S)
    valid = valid_mask(batch.source_lengths, 4).unsqueeze(1)  # (B, 1, S)
    scores = scores.masked_fill(~valid, -torch.inf)  # weights on padding are 0
    weights = scores.softmax(dim=2) if loss.needs_attention else None
    # what a loss may ask for: the number of a training step (any), and states of the decoder; the
    # first 5 logits stand in for these, so that gradients reach them
    known = {"step": 3, "states": logits[..., :5]}
    asked = {name: known[name] for name in loss.asks}
    return loss.forward(Decoded(logits, weights), batch, **asked)


LOSS_RULES: Rules = {"loss": check_loss}
TASK_RULES: Rules = {
    "examples": check_examples,
    "randomness": check_randomness,
    "answer": check_answer,
    "lengths": check_lengths,
    "evaluation": check_evaluation,
}
