"""Rule of a cache: decoding in steps, with what earlier steps left, gives what the whole gives."""

import contextlib
import copy
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seq2attn.doctor.call import B, settle, tensors
from seq2attn.doctor.catch import Watch
from seq2attn.doctor.subject import CLOSE, Subject, gap
from seq2attn.doctor.words import CACHES, ROLES, words
from seq2attn.findings.engine import Found

ARANGE = "torch.arange(keys.size(1))"
STARTS = {"start", "offset", "pos", "position"}
PROMPT = 4  # tokens of a first step: the others follow one by one
EMPTY: tuple[Any, ...] = (None, {})
"""what stands for a cache before the first step; a module may fill the second"""


def decoding(subject: Subject) -> Found:
    """Decoding in steps with a cache, after a prompt and from the first token on, gives what a call
    with the whole sequence gives. If steps of several tokens alone do not, that is only a care.

    Examined is causal attention that needs nothing but a mask and positions beside its cache.
    """
    caches, others = [], []  # others: that a call leaves out
    for name, argument in subject.arguments.items():
        # flags keep their defaults, and masks hide nothing
        if isinstance(argument.default, bool) or words(name) & ROLES["mask"]:
            continue
        if words(name) & CACHES:
            caches.append(name)
        elif name not in (*subject.call.expressions, subject.call.mask):
            others.append(name)
    if not caches:
        return
    by = None  # the three differences of `_apart`
    if len(caches) == 1 and not others and subject.is_causal:
        for start in EMPTY:
            with contextlib.suppress(Exception):  # of a cache in another form
                by = _apart(subject, caches[0], start)
                break
    if by is None:
        yield "cache-not-examined", ", ".join(caches)
    elif max(by[1:]) > CLOSE:
        yield "decoding", caches[0], max(by[1:])
    elif by[0] > CLOSE:
        yield "decoding-several", caches[0], by[0]


def _apart(subject: Subject, cache: str, start: Any) -> list[float]:
    """Return how much the output of steps differs from that of the whole sequence, as a share of
    its largest number, in three cases: all other tokens in one step after a prompt; one by one
    after a prompt; and one by one from the first on.

    The first is 0 if a step takes one token only. If a step masks some weights among its tokens, it
    is meant to take several: then the first difference counts as one of the second case, too.
    """
    length = subject.length
    rest = length - PROMPT
    whole = _joined(subject, cache, start, [length])
    gaps = [0.0]
    for lengths in ([PROMPT, *[1] * rest], [1] * length):
        gaps.append(gap(whole, _joined(subject, cache, start, lengths)))
    watch = Watch(length, rest)  # of the second step, which sees all keys
    # a step of several tokens may be refused: then its difference stays 0
    with contextlib.suppress(Exception), watch:
        gaps[0] = gap(whole, _joined(subject, cache, start, [PROMPT, rest]))
        if any((use.weights == 0).any() for use in watch.uses):
            gaps[1] = max(gaps[:2])
    return [one / float(whole.abs().max()) for one in gaps]


def _joined(subject: Subject, cache: str, start: Any, lengths: Sequence[int]) -> Tensor:
    """Return the output (B, S, F) of steps of these lengths, joined. Each step is given the cache
    that the one before it returned, or filled. A step returns its output first. Its cache is the
    last thing in what it returns that is not a tensor; weights, which are one, may follow.

    start: what stands for the cache before the first step.
    """
    texts = {name: text for name, text in subject.call.expressions.items() if name != cache}
    inputs, left, outputs, first = subject.inputs.unpadded, copy.copy(start), [], 0
    for keys in torch.split(inputs.keys, [*lengths], dim=1):
        attention = functools.partial(subject.call.attention, **{cache: left})
        step = inputs._replace(keys=keys, valid=inputs.valid[:, : keys.size(1)])
        placed = {name: _from(name, text, first) for name, text in texts.items()}
        result = replace(subject.call, attention=attention, expressions=placed)(step)
        first += keys.size(1)
        if start is None:  # otherwise the step has filled `left`
            result, *rest = result
            left = [one for one in rest if not isinstance(one, Tensor)][-1]
        if not left:
            raise ValueError(f"no {cache} is returned or filled")
        outputs.append(settle(next(tensors(result)), B, keys.size(1)))  # (B, L, F)
    return torch.cat(outputs, dim=1)


def _from(name: str, text: str, first: int) -> str:
    """Return the expression of an argument in a step whose first place is `first`."""
    if text == "0" and words(name) & STARTS:
        return str(first)
    return text.replace(ARANGE, f"torch.arange({first}, {first} + keys.size(1))")
