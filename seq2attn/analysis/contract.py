"""The contract that every part of a model and every task satisfies; `seq2attn check` and the tests run its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from seq2attn.analysis import checks
from seq2attn.analysis.checks import REGISTRIES, CheckFailed, D, Part, expect
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Examples, Task, check_task
from seq2attn.errors import Seq2AttnError


def _examples(task: Task) -> tuple[Examples, bool]:
    """A few examples, and whether they were drawn from the generator."""
    random = torch.Generator().manual_seed(5)
    before = random.get_state()
    return task.examples(random, 32), not torch.equal(before, random.get_state())


def check_task_randomness(part: Part) -> None:
    """Examples are drawn from the generator, and depend on nothing else."""
    task = part.make()
    one, drawn = _examples(task)
    expect(drawn, "examples(random, ...) draws nothing from `random`")
    other, _ = _examples(task)
    for name, tensor in vars(one).items():
        same = tensor is None or torch.equal(tensor, getattr(other, name))
        expect(same, f"{name} differs between two calls with generators of the same seed")


def check_task_alignment(part: Part) -> None:
    """Alignments are inside the source, and -1 past the target's end."""
    examples, _ = _examples(part.make())
    if examples.alignment is not None:
        real = valid_mask(examples.target_lengths, examples.alignment.size(1))
        inside = (examples.alignment >= 0) & (examples.alignment < examples.source_lengths.unsqueeze(1))
        expect(inside[real].all(), "alignment points outside the source")
        expect((examples.alignment[~real] == -1).all(), "alignment is not -1 past the target's end")


def check_task_answer(part: Part) -> None:
    """`answer`, where it knows one, gives the target and the alignment of the examples."""
    task = part.make()
    examples, _ = _examples(task)
    for i, (length, target_length) in enumerate(zip(examples.source_lengths, examples.target_lengths, strict=True)):
        text = task.source_vocabulary.decode(examples.source[i, :length].tolist())
        target = task.target_vocabulary.decode(examples.target[i, :target_length].tolist())
        answer = task.answer(text)
        if answer is None:
            continue
        expect(answer.text == target, f"answer({text!r}) is {answer.text!r}, but an example has {target!r}")
        if answer.alignment is not None and examples.alignment is not None:
            found, wanted = list(answer.alignment), examples.alignment[i, :target_length].tolist()
            expect(found == wanted, f"answer({text!r}) has the alignment {found}, but an example has {wanted}")


def check_task_lengths(part: Part) -> None:
    """Sources shorter and longer than in training: right examples, or a `Seq2AttnError` for a length that no source has."""
    task = part.make()
    for length in {max(1, task.min_length - 1), task.max_length + 1}:
        random = torch.Generator().manual_seed(5)
        try:
            task.examples(random, 1, length)
        except Seq2AttnError:
            continue
        check_task(task, [length])


Check = Callable[[Part], None]
_IN_A_MODEL: dict[str, Check] = {
    "padding invariance": checks.check_padding_invariance,
    "batch invariance": checks.check_batch_invariance,
    "parameters": checks.check_parameters,
}
_ALONE = {**_IN_A_MODEL, "gradients": checks.check_gradients}
_STEPS: dict[str, Check] = {"teacher forcing": checks.check_teacher_forcing}

CHECKS: dict[str, dict[str, Check]] = {
    "score": {
        "shape": checks.check_score_shape,
        "padding": checks.check_score_padding,
        "loop form": checks.check_score_loop_form,
        **_ALONE,
    },
    "window": {"shape": checks.check_window_shape, "weights": checks.check_window_weights, **_ALONE},
    "history": {"shape": checks.check_history_shape, "in place": checks.check_history_in_place, **_STEPS, **_ALONE},
    "cell": {"shape": checks.check_cell_shape, "scan": checks.check_cell_scan, **_STEPS, **_ALONE},
    "decoder": {"shape": checks.check_decoder_shape, **_STEPS, **_IN_A_MODEL},
    "initial state": {"shape": checks.check_initial_state_shape, **_IN_A_MODEL},
    "task": {
        "examples": lambda part: check_task(part.make()),
        "lengths": check_task_lengths,
        "randomness": check_task_randomness,
        "alignment": check_task_alignment,
        "answer": check_task_answer,
    },
}
"""kind -> label -> check; the first of each kind checks shapes"""

INTERFACES = {
    "score": "forward(query, keys) takes (B, L, query_width) and (B, S, key_width), and returns scores (B, L, S).",
    "window": "forward(query, lengths, width, first) takes (B, L, query_width) and (B,), and returns View(allowed, factor), "
    "(B, L, S) each; factor may be None.",
    "history": "forward(past) takes (B, channels, S) and returns features (B, 1, S, feature_width); "
    "update(past, weights) takes weights (B, S) and returns the next past.",
    "cell": "step(read, state) takes what read(inputs) returns and a tuple of `parts` tensors (B, width), and returns the "
    "next such tuple.",
    "decoder": "advance(embedded, state, memory) takes (B, embedding), and returns the next state, features "
    "(B, output_width) and weights (B, S).",
    "initial state": "forward(encoded) returns a tuple of cell.parts tensors (B, cell.width).",
    "task": "`help(seq2attn.data.tasks.Task)` says what a task provides.",
}


def run_check(label: str, kind: str, name: str, options: Mapping[str, Any] | None = None) -> str:
    """Run one check on one part with these options: the empty string if it passes, otherwise what was found."""
    return _run(CHECKS[kind][label], Part(kind, name, options or {}))[0]


def advice(kind: str, name: str, options: Mapping[str, Any] | None = None) -> str:
    """What to look at first in a part that fails the first check of its kind; the empty string for one that passes."""
    part, check = Part(kind, name, options or {}), next(iter(CHECKS[kind].values()))
    reason, hint = _run(check, part)
    if not reason or hint:
        return hint
    equal_widths = kind != "score" or REGISTRIES[kind].get(name).equal_widths
    if not equal_widths and not _run(check, replace(part, key_width=D))[0]:
        return (
            f"{name!r} was given queries of width {D} and keys of width {D + 3}. If it is for equal widths only, say so: "
            f'@register("{name}", ..., equal_widths=True)'
        )
    return f"{name!r}: {INTERFACES[kind]}"


def _run(check: Check, part: Part) -> tuple[str, str]:
    """What was found, empty if the check passes, and a hint, if there is one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            check(part)
        except Seq2AttnError as error:
            return " ".join(error.message.split()), error.hint or ""
        except CheckFailed as error:
            return str(error), ""
        except Exception as error:
            first, *_ = str(error).strip().splitlines() or [""]
            return f"raised {type(error).__name__}{f': {first}' if first else ''}", ""
    return "", ""
