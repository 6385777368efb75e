"""Rules of lengths, memory layouts, types and large numbers."""

import torch

from seq2attn.doctor.subject import ALL, CLOSE, Subject, unchanged
from seq2attn.findings.engine import Found

MANY = 500  # keys of a long source
SCALE, ROWS = 30, 150  # large inputs: what they are multiplied by, and how many rows are tried
LOST = 0.01  # share of weight that valid keys may lose at large inputs; of a factor that has a name
MOST = 0.5  # a share that only a softmax of large scores has


def length(subject: Subject) -> Found:
    """Sources may be short or long, but for images, which are square."""
    for keys in () if subject.call.after else (1, MANY):
        if not subject.is_finite(subject.draw(keys).unpadded):
            yield "length", f"NaN with {keys} keys"


def order(subject: Subject) -> Found:
    """If the order of a few keys changes nothing, that of many changes nothing either, unless keys
    are visited in blocks and a running maximum or sum is wrong.

    Nothing is examined where there is a window, as the last row then does not see the first or the
    last of many keys; nor where a part has a number for the size of blocks, which
    `positions.blocks` examines, or of segments.
    """
    # queries that are sorted may be chosen by keys that are drawn
    if subject.depends_on_order or subject.is_local or subject.unmasked.watch.is_sorted:
        return
    inputs = subject.draw(MANY, rows=2).unpadded
    output = subject.output(inputs)[:, -1]
    moved = [subject.output(inputs.changed_at((ALL, place), "keys"))[:, -1] for place in (0, -1)]
    if any(torch.equal(output, other) for other in moved):  # a key that the last row does not see
        return
    by = subject.change_by_order(inputs)
    if by > CLOSE:
        yield "order", by


def strides(subject: Subject) -> Found:
    """Keys may lie in memory as a transposed encoder output does."""
    inputs = subject.inputs.unpadded
    other = inputs.keys.transpose(0, 1).contiguous().transpose(0, 1)
    if subject.change_with(inputs._replace(keys=other)).max() > CLOSE:
        yield "strides", "results differ"


def overflow(subject: Subject) -> Found:
    """Large inputs neither overflow nor underflow: valid keys keep the sum of their weights. If a
    mask fills in -100, say, padding takes some of it where scores are as large.
    """
    inputs = subject.draw(rows=ROWS)
    large = inputs.times(SCALE)
    large = large._replace(values=large.keys)  # and not their cosines, which are small
    if not subject.is_finite(large):
        yield "overflow"
        return
    is_counted = inputs.valid[:, None, None] & subject.token_rows(inputs)[:, None]  # (B, 1, L, S)
    for pair in zip(subject.run(inputs).weights, subject.run(large).weights, strict=True):
        before, after = (weights.masked_fill(~is_counted, 0).sum(-1) for weights in pair)
        low = float((after - before).min())
        if low < -LOST:
            yield "underflow", 1 + low  # as weights that are right sum to 1 before
            return


def twice(subject: Subject) -> Found:
    """The softmax is applied once, and not to the smallest scores alone.

    A softmax that is given the very tensor that another one returned is seen by `Watch`. Otherwise
    large inputs show it: the logarithms of the weights give back what the last softmax was applied
    to. If these numbers may be weights themselves, and one is as large as only a softmax of large
    scores makes it, they come from another softmax.
    """
    if subject.unmasked.watch.is_twice:
        yield "softmax-twice"
        return
    if subject.unmasked.watch.is_of_least:
        yield "least-kept"
    for weights in subject.run(subject.draw(rows=ROWS).unpadded.times(SCALE)).weights:
        logs = weights[(weights > 0).all(-1)].log()
        # what the last softmax was applied to, up to a number that is the same for all keys: it is
        # chosen so that they sum to 1, as they do if a softmax made them
        first = logs - logs.mean(-1, keepdim=True) + 1 / subject.length
        if len(logs) and first.min() > -CLOSE and first.max() > MOST:
            yield "softmax-twice"


def half(subject: Subject) -> Found:
    """It runs in half precision."""
    for dtype in (torch.float16, torch.bfloat16):
        with unchanged(subject.module):
            subject.module.to(dtype)
            if not subject.is_finite(subject.inputs.to(dtype)):
                yield "half", f"NaN in {dtype}"
                return
