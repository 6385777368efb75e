"""Rule of a cache: decoding in steps, with what earlier steps left, gives what the whole gives."""

import functools
import inspect
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seq2attn.doctor.call import B, settle
from seq2attn.doctor.names import CACHES, ROLES, function_of, words
from seq2attn.doctor.subject import CLOSE, Subject, gap
from seq2attn.findings.engine import Found

PROMPT = 4  # tokens of the first step: the others follow one by one


def decoding(subject: Subject) -> Found:
    """Decoding in steps with a cache gives what the whole sequence gives, if that is causal. What
    takes more than a mask beside the cache, such as positions, is not examined.
    """
    caches, others = [], []
    for name in inspect.signature(function_of(subject.call.attention)).parameters:
        if words(name) & CACHES:
            caches.append(name)
        elif f"{name}=" not in subject.call.text and not words(name) & ROLES["mask"]:
            others.append(name)
    if not caches:
        return
    try:
        if others or len(caches) > 1 or "arange" in subject.call.text or not subject.is_causal:
            raise ValueError("its steps cannot be called, or need not agree with the whole")
        length = subject.length
        whole = _joined(subject, caches[0], [length])
        steps = _joined(subject, caches[0], [PROMPT, *[1] * (length - PROMPT)])
    except Exception:  # of a cache in another form, too
        yield "cache-not-examined", ", ".join(caches)
        return
    by = gap(whole, steps) / float(whole.abs().max())
    if by > CLOSE:
        yield "decoding", caches[0], by


def _joined(subject: Subject, cache: str, lengths: Sequence[int]) -> Tensor:
    """Return the output (B, S, F) of steps of these lengths, of which each is given the cache that
    the one before it returned. The output is what a step returns first, the cache what it returns
    last.
    """
    texts = {name: text for name, text in subject.call.given.items() if name != cache}
    given, left, outputs = subject.given.free, None, []
    for keys in torch.split(given.keys, [*lengths], dim=1):
        attention = functools.partial(subject.call.attention, **{cache: left})
        step = given._replace(keys=keys, valid=given.valid[:, : keys.size(1)])
        output, *_, left = replace(subject.call, attention=attention, given=texts)(step)
        if left is None:
            raise ValueError(f"no {cache} is returned")
        outputs.append(settle(output, B, keys.size(1)))
    return torch.cat(outputs, dim=1)
