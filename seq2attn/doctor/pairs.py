"""Rule of masks of pairs, such as `attn_mask`: arguments that say which keys each query sees, and
not only which keys are padding.

A mask "closes" a pair if the query is not to see the key. L counts queries, S keys. Differences are
shares of the largest number of a result: CLOSE is what rounding may make of equal ones, TINY less.
"""

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
    """A call does not change a mask of pairs, and no weight is left on the pairs that it closes, in
    one of the forms that are tried, at least. Examined are all arguments named as such masks.

    None is examined where keys are an optional argument, as the mask may then be meant for
    self-attention alone.
    """
    held = vars(module_of(subject.call.attention))
    if OF_PAIRS & words(*(flag for flag, value in held.items() if value is False)):
        return  # a flag such as `mask_flag = False` may say that it takes none
    optional = [name for name, one in subject.arguments.items() if one.default is None]
    if any("keys" in subject.call.expressions.get(name, "") for name in optional):
        return
    for name in subject.arguments:
        # all of its words are of such masks, unlike "bias" in `attn_bias_mask`; `words` also
        # gives pairs of neighbours, joined by "_"
        single = {word for word in words(name) if "_" not in word}
        if single <= OF_PAIRS and single & {"mask", "adj", "adjacency"}:
            yield from _of_mask(subject, name)


def _of_mask(subject: Subject, name: str) -> Found:
    """Examine one mask, the argument `name`, in one form after the other, up to one that leaves no
    weight on the pairs that it closes: then yield `mask-inverted` if its docstring says the
    opposite of True. If no form does, yield `pairs-leak` with the most weight that is left, or else
    `pairs-ignored` if a form is taken and has no effect.

    If a call changes the mask, that is the only finding. It is all that is examined of an argument
    that the search for the call found to be the mask of padding.
    """
    inputs, most, is_ignored = subject.inputs.unpadded, 0.0, False
    is_of_padding = name == subject.call.mask
    queries = subject.queries(inputs)
    # (L, S): by how much a key's place is later than the query's
    apart = torch.arange(subject.length) - torch.arange(queries)[:, None]
    closed = apart % 3 == 1  # (L, S), a third of the pairs, but none of a place with itself
    for means_closed, mask in _forms(closed):
        recorder = Recorder(subject.call.attention)
        attention = functools.partial(recorder, **{name: mask})
        # the call's own argument for the mask of padding, unless it is this one
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
            if max(left) < TINY:  # this form closes the pairs
                # None: the docstring does not say what True means, or the form is added to scores
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
    """Yield the forms of a mask that closes these pairs, (L, S), each with whether True means
    closed; None for a form of 0 and -inf, which is added to scores. A form is (L, S), (B, L, S) or
    (B, 1, L, S), for heads.
    """
    added = torch.where(closed, -torch.inf, 0.0)
    for layout in (closed.shape, (B, *closed.shape), (B, 1, *closed.shape)):
        for means_closed, mask in ((True, closed), (False, ~closed), (None, added)):
            yield means_closed, mask.expand(layout).clone()
