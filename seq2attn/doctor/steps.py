"""Rule of a cache: decoding in steps, with what earlier steps left, gives what the whole gives.

A cache is what a call of a step leaves for the next one: it is returned, or it is an argument that
the call fills.
"""

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
    with the whole sequence gives.

    Only causal attention is examined, with one cache, and with no other argument that the call
    leaves out, but flags and masks. `cache-not-examined` is yielded for any other attention with a
    cache, and if no step works. Nothing is said of attention without a cache.
    """
    caches, others = [], []  # arguments for caches, and others that the call leaves out
    for name, argument in subject.arguments.items():
        # these may be left out: flags keep their defaults, and without masks nothing is hidden
        if isinstance(argument.default, bool) or words(name) & ROLES["mask"]:
            continue
        if words(name) & CACHES:
            caches.append(name)
        elif name not in (*subject.call.expressions, subject.call.mask):
            others.append(name)
    if len(caches) == 1 and not others and subject.is_causal:
        for start in EMPTY:
            # the first start with which steps run decides; if none does, the cache has another form
            with contextlib.suppress(Exception):
                if (by := _difference(subject, caches[0], start)) > CLOSE:
                    yield "decoding", caches[0], by
                return
    if caches:
        yield "cache-not-examined", ", ".join(caches)


def _difference(subject: Subject, cache: str, start: Any) -> float:
    """Return how much the output of steps differs at most from that of the whole sequence, as a
    share of its largest number. Steps have one token each: all of them, or all but the first, which
    has PROMPT tokens. Raises what a call raises.

    Two steps, a prompt and all other tokens, count, too, if the second one works, and masks some
    weights: only then is it meant for several tokens.

    cache: the name of its argument. start: what is given for it in the first step.
    """
    length = subject.length
    whole = _joined(subject, cache, start, [length])
    rest = length - PROMPT
    firsts = ([PROMPT, *[1] * rest], [1] * length)
    by = max(gap(whole, _joined(subject, cache, start, lengths)) for lengths in firsts)
    watch = Watch(length, rest)  # records weights over all keys: those of the second step
    with contextlib.suppress(Exception), watch:
        several = gap(whole, _joined(subject, cache, start, [PROMPT, rest]))
        if any((use.weights == 0).any() for use in watch.uses):
            by = max(by, several)
    return by / float(whole.abs().max())


def _joined(subject: Subject, cache: str, start: Any, lengths: Sequence[int]) -> Tensor:
    """Return the output (B, S, F) of steps of these lengths, joined. Each step is given the cache
    that the one before it returned, or filled: a cache is returned if `start`, which stands for it
    in the first step, is None. A step returns its output first. Of what follows, the last that is
    no tensor is its cache: weights, a tensor, may stand beside it. Only self-attention, whose one
    input is the keys, comes here. Raises `ValueError`, or `IndexError`, without a cache.

    cache: the name of its argument.
    """
    texts = {name: text for name, text in subject.call.expressions.items() if name != cache}
    # such as `use_cache=False`
    flags = [name for name, one in subject.arguments.items() if one.default is False]
    asks = {name: True for name in flags if words(name) & CACHES}
    inputs, outputs = subject.inputs.unpadded, []
    left = copy.copy(start)  # the cache that the step before left; a copy, as a step may fill it
    first = 0  # the first place of the step
    for keys in torch.split(inputs.keys, [*lengths], dim=1):
        attention = functools.partial(subject.call.attention, **{cache: left}, **asks)
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
    """Return the expression of an argument in a step whose first place is `first`, in place of
    `text`, that of a call with the whole sequence: a start, or positions, move on.
    """
    if text == "0" and words(name) & STARTS:
        return str(first)
    return text.replace(ARANGE, f"torch.arange({first}, {first} + keys.size(1))")
