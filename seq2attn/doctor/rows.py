"""Rules on which everything rests: the same input gives the same result, rows of a batch are apart,
and each row of the result follows its own query.
"""

from dataclasses import replace
from operator import itemgetter

import torch

from seq2attn.doctor.call import TINY
from seq2attn.doctor.subject import CLOSE, Subject, gap
from seq2attn.findings.engine import Found


def in_place(subject: Subject) -> Found:
    """Arguments stay as they are."""
    given = subject.given if subject.has_mask else subject.given.free
    copies = given.each(torch.clone)
    subject.bound.call(copies)
    for name, before, after in zip(given._fields, given, copies, strict=True):
        if before is not None and after is not None and not torch.equal(before, after):
            yield "in-place", {"by": f"{name} differs after it"}


def not_finite(subject: Subject) -> Found:
    """Results are numbers."""
    for (given, result), how in zip(subject.both, ("without a mask", "with a mask"), strict=False):
        if not subject.is_finite(given, result):
            yield "not-finite", {"by": how}
            return


def state(subject: Subject) -> Found:
    """In evaluation the same input gives the same result, after other calls too."""
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(subject.run(subject.given.free).output)
        subject.run(subject.draw().free)
    first, again, other = results
    by = subject.differ(first, other)
    if subject.differ(first, again) > CLOSE:
        yield "state", {"by": subject.differ(first, again)}
    elif by > CLOSE:
        yield "random", {"by": by}
    elif subject.fresh is not None:
        given = subject.draw().free
        call = replace(subject.bound.call, attention=subject.fresh)
        unused = replace(subject.bound, call=call).run(given)
        if subject.differ(subject.run(given).output, unused.output) > CLOSE:
            yield "cache", {}


def one_row(subject: Subject) -> Found:
    """It takes a batch of one row."""
    output = subject.run(subject.given.free.each(itemgetter(slice(1)))).output
    if output.shape[1:] != subject.free.output.shape[1:]:
        yield "one-row", {"by": f"the result has the shape {tuple(output.shape)}"}


def batch(subject: Subject) -> Found:
    """What another row of a batch holds changes nothing, with a mask as without, nor whether there
    is another row.
    """
    for given, result in subject.both:
        for row in range(len(given.keys)):
            other = subject.run(given.moved(row, "query", "keys", "values")).output
            by = subject.apart(other.nan_to_num(), result.output.nan_to_num()).amax(1)
            by[row] = 0
            if by.max() > CLOSE:
                yield "batch", {"by": f"another one changes a row by {by.max():.2g}"}
                return


def alone(subject: Subject) -> Found:
    """A row has the same result alone as in a batch."""
    for row in (slice(0, 1), slice(1, None)):
        some = subject.run(subject.given.free.each(itemgetter(row))).output
        by = subject.differ(some, subject.free.output[row])
        if by > CLOSE:
            yield "batch", {"by": f"without the others a row differs by {by:.2g}"}
            return


def queries(subject: Subject) -> Found:
    """A row of the result follows its own query, and no other."""
    given, result = subject.given.free, subject.free
    if given.query is None:
        if not subject.bound.is_self:
            yield "no-query", {}
        return
    other = subject.run(given.moved(slice(None), "query"))
    pairs = list(zip(result.weights, other.weights, strict=True))
    is_ignored = subject.differ(result.output, other.output) < TINY
    if pairs:
        is_ignored = all(gap(*pair) < TINY for pair in pairs)
    if is_ignored:
        uniform = [gap(one, one[..., :1]) < TINY for one in result.weights]
        yield "uniform" if uniform and all(uniform) else "query-ignored", {}
    count = given.query.size(1)
    if count > 1 and result.output.size(1) == count and not subject.is_among:
        reach = subject.reach(given, "query").amax(0)  # (L, L)
        by = float((reach - reach.diag().diag()).max())
        if by > CLOSE:
            yield "queries-mixed", {"by": by}


def rows_mixed(subject: Subject) -> Found:
    """A row of the result follows its own row of the last weights, and no other."""
    rows = subject.free.output.size(1)
    count = rows if subject.free.uses and rows == subject.bound.queries(subject.given) else 1
    for row in range(count if count > 1 else 0):
        by = subject.apart(subject.with_more(row), subject.free.output).amax(0)
        by[row] = 0
        if by.max() > CLOSE:
            yield "rows-mixed", {"by": float(by.max())}
            return
