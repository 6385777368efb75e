"""Rules of lengths, memory layouts, types and large numbers.

A rule yields the code of each finding, with what the finding's text shows. B counts rows of the
batch, H heads, L queries or rows of the output, S keys. Differences are shares of the largest
number of a result; CLOSE is what rounding may make of equal results.
"""

import torch

from seq2attn.doctor.subject import ALL, CLOSE, Subject, unchanged
from seq2attn.errors import error_text
from seq2attn.findings.engine import Found

MANY = 500  # keys of a long source
MOVED = 0.01  # a smaller change by another order of keys may be rounding, to half precision
SCALE, ROWS = 30, 150  # large inputs: by what they are multiplied, and how many rows of the batch
LOST = 0.01  # share of weight that valid keys may lose at large inputs


def length(subject: Subject) -> Found:
    """Sources may have 1 key or MANY. Images are left out, as they have to be square."""
    for keys in () if subject.call.after else (1, MANY):
        if not subject.is_finite(subject.draw(keys, rows=2).unpadded):
            yield "length", f"NaN with {keys} keys"


def order(subject: Subject) -> Found:
    """If the order of a few keys changes nothing, that of MANY changes nothing either: a wrong
    running maximum or sum, where keys are visited in blocks, shows only with several blocks.

    Nothing is examined if the last row does not see the first or the last of many keys, as with a
    window; nor in self-attention with a number for the size of windows, segments or blocks, as
    places in different ones may differ, or of an image; nor if queries are sorted, as they may be
    chosen by random keys.
    """
    is_fixed = (subject.is_self and subject.is_local) or subject.is_image
    if subject.depends_on_order or is_fixed or subject.unmasked.watch.is_sorted:
        return
    inputs = subject.draw(MANY, rows=2).unpadded
    output = subject.output(inputs)[:, -1]
    ends = [subject.output(inputs.changed_at((ALL, place), "keys"))[:, -1] for place in (0, -1)]
    if any(torch.equal(output, other) for other in ends):  # the last row does not see this key
        return
    by = subject.change_by_order(inputs)
    if by > MOVED:
        yield "order", by


def strides(subject: Subject) -> Found:
    """Keys may lie in memory as a transposed encoder output does."""
    inputs = subject.inputs.unpadded
    other = inputs.keys.transpose(0, 1).contiguous().transpose(0, 1)
    if subject.change_with(inputs._replace(keys=other)).max() > CLOSE:
        yield "strides", "results differ"


def overflow(subject: Subject) -> Found:
    """Inputs times SCALE give no NaN or infinity. Nor do the valid keys of a row lose more than
    LOST of the sum of their weights, or that is `underflow`: if a mask fills in -100, say, padding
    takes some of the weight where scores are as large.
    """
    inputs = subject.draw(rows=ROWS)
    large = inputs.times(SCALE)
    # values as large as keys: by default they are the cosines of keys
    large = large._replace(values=large.keys)
    if not subject.is_finite(large):
        yield "unstable"
        return
    is_padding = ~inputs.valid[:, None, None]  # (B, 1, 1, S)
    for pair in zip(subject.run(inputs).weights, subject.run(large).weights, strict=True):
        # (B, H, L): the sums with usual inputs and with large ones
        before, after = (weights.masked_fill(is_padding, 0).sum(-1) for weights in pair)
        change = float((after - before).min())
        if change < -LOST:
            yield "underflow", 1 + change  # the sum that is left, as it should be 1 before
            return


def twice(subject: Subject) -> Found:
    """A softmax is not given the very tensor that another one returned."""
    if subject.unmasked.watch.is_twice:
        yield "softmax-twice"


def half(subject: Subject) -> Found:
    """It runs in both types of half precision."""
    problems = {}  # by type
    for dtype in (torch.float16, torch.bfloat16):
        with unchanged(subject.module):
            subject.module.to(dtype)
            try:
                if not subject.is_finite(subject.inputs.to(dtype)):
                    problems[dtype] = "NaN"
            except Exception as error:
                problems[dtype] = error_text(error)
    if problems:
        types = " and ".join(str(dtype).removeprefix("torch.") for dtype in problems)
        yield "half", types, next(iter(problems.values()))
