"""Rule of masks of pairs, such as `attn_mask`: arguments that say which keys each query sees."""

import contextlib
import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from seq2attn.doctor.call import B, module_of
from seq2attn.doctor.rows import Recorder
from seq2attn.doctor.said import documented_by
from seq2attn.doctor.subject import CLOSE, TINY, Subject
from seq2attn.doctor.words import FLAGS, words
from seq2attn.findings.engine import Found

OF_PAIRS = FLAGS["pairs"]


def pairs(subject: Subject) -> Found:
    """A mask of pairs is left as it is, and closes the pairs that it says. All forms are tried; in
    one of them, at least, no weight is left on what is closed. Where keys need not be given, the
    mask may be that of self-attention alone.
    """
    held = vars(module_of(subject.call.attention))
    if OF_PAIRS & words(*(flag for flag, value in held.items() if value is False)):
        return  # `mask_flag=False` may say that it takes none
    optional = [name for name, one in subject.arguments.items() if one.default is None]
    if any("keys" in subject.call.expressions.get(name, "") for name in optional):
        return
    for name in subject.arguments:
        # all of its words are of such masks, and not only one, as in `attn_bias_mask`
        single = {word for word in words(name) if "_" not in word}
        if single <= OF_PAIRS and single & {"mask", "adj", "adjacency"}:
            yield from _of_mask(subject, name)


def _of_mask(subject: Subject, name: str) -> Found:
    """Examine one mask. All its forms are tried, up to one that leaves no weight on the pairs that
    it closes. If no form does, say how much weight is left at most, or that none has an effect.

    Of the mask of padding it is examined only whether a call changes it, in any form.
    """
    inputs, most, is_ignored = subject.inputs.unpadded, 0.0, False
    is_of_padding = name == subject.call.mask
    queries = subject.queries(inputs)
    apart = torch.arange(subject.length) - torch.arange(queries)[:, None]
    closed = apart % 3 == 1  # (L, S), a third of the pairs, but none of a place with itself
    for means_closed, mask in _forms(closed):
        recorder = Recorder(subject.call.attention)
        attention = functools.partial(recorder, **{name: mask})
        other = "" if is_of_padding else subject.call.mask
        with contextlib.suppress(Exception):  # it takes another form
            result = subject.called(attention=attention, mask=other).run(inputs)
            if recorder.changed:
                yield "in-place", name
                return
            if is_of_padding:
                continue
            if subject.difference(result.output, subject.unmasked.output) < CLOSE:
                is_ignored = True
                continue
            left = [float((weights * closed).abs().max()) for weights in result.weights]
            if not left:  # without weights it is not known which pairs it closes
                return
            if max(left) < TINY:
                # it closes them; but does its docstring say so of True, or of False?
                told, quoted = documented_by(subject.call.attention, name)
                if None not in (told, means_closed) and told != means_closed:
                    yield "mask-inverted", name, f'its docstring, "{quoted}",'
                return
            most = max(most, *left)
    if most:
        yield "pairs-leak", name, most
    elif is_ignored:
        yield "pairs-ignored", name


def _forms(closed: Tensor) -> Iterator[tuple[bool | None, Tensor]]:
    """Yield the forms of a mask of pairs (L, S), for all rows or each of them, and whether True
    means closed; None of those that are added to scores.
    """
    added = torch.where(closed, -torch.inf, 0.0)
    for layout in (closed.shape, (B, *closed.shape), (B, 1, *closed.shape)):
        for means_closed, mask in ((True, closed), (False, ~closed), (None, added)):
            yield means_closed, mask.expand(layout).clone()
