"""Rules on which everything rests: the same input gives the same result, rows of a batch are apart,
and each row of the result follows its own query.
"""

from dataclasses import replace

import torch
from torch import nn

from seq2attn.doctor.call import Inputs
from seq2attn.doctor.subject import ALL, CLOSE, Subject, gap
from seq2attn.findings.engine import Found


def in_place(subject: Subject) -> Found:
    """Arguments stay as they are."""
    copies = subject.given.each(torch.clone)
    subject.call(copies)
    for name, before in subject.given._asdict().items():
        if before is not None and not torch.equal(before, getattr(copies, name)):
            yield "in-place", name


def not_finite(subject: Subject) -> Found:
    """Results are numbers."""
    if not subject.is_finite(subject.given.free):
        yield "not-finite", "although all keys are valid"


def state(subject: Subject) -> Found:
    """In evaluation the same input gives the same result, after other calls too.

    With the same seed a difference comes from what calls left behind, with another one from random
    numbers. A copy that was never called shows what the first call left behind for good.
    """
    other, results = subject.draw().free, []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(subject.output(subject.given.free))
        after = subject.output(other)
    first, same_seed, other_seed = results
    if (by := subject.differ(first, same_seed)) > CLOSE:
        yield "state", by
    elif (by := subject.differ(first, other_seed)) > CLOSE:
        yield "random", by
    elif subject.fresh is not None:
        call = replace(subject.call, attention=subject.fresh)
        if subject.differ(replace(subject, call=call).output(other), after) > CLOSE:
            yield "cache"


def one_row(subject: Subject) -> Found:
    """It takes a batch of one row, which has the same result as in a larger batch."""
    given = subject.given.free
    alone = given.each(lambda tensor: tensor[:1])
    for before, after in zip(subject.raw(given)[0], subject.raw(alone)[0], strict=True):
        if before.dim() != after.dim():
            yield "one-row", f"a result has the shape {tuple(after.shape)}"
            return
    by = subject.differ(subject.output(alone), subject.free.output[:1])
    if by > CLOSE:
        yield "batch", f"without the others a row differs by {by:.2g}"


def batch(subject: Subject) -> Found:
    """What other rows of a batch hold changes nothing, with a mask as without: every second row is
    changed, then the others.
    """
    for given, result in subject.both:
        for first in (0, 1):
            changed, others = slice(first, None, 2), slice(1 - first, None, 2)
            output = subject.output(given.moved(changed, "query", "keys", "values"))
            by = subject.apart(output.nan_to_num(), result.output.nan_to_num())[others].max()
            if by > CLOSE:
                yield "batch", f"another one changes a row by {by:.2g}"
                return


def queries(subject: Subject) -> Found:
    """A row of the result follows its own query, and no other.

    Large inputs may saturate a softmax, so small ones are tried before a query counts as ignored.
    Where queries also attend to each other, as in a decoder layer, they may mix, and recurrent
    layers carry earlier queries on.
    """
    given = subject.given.free
    if given.query is None:
        if not subject.is_self:
            yield "no-query"
        return
    if max(_of_query(subject, given), _of_query(subject, subject.small().free)) < CLOSE:
        yield "query-ignored"
        return
    rows = subject.free.output.size(1)
    if rows == given.query.size(1) > 1 and not subject.is_among:
        reach = subject.reach(given, "query").amax(0)  # (L, L)
        is_recurrent = any(isinstance(part, nn.RNNBase) for part in subject.module.modules())
        others = reach.triu(1) if is_recurrent else reach - reach.diag().diag()
        most = float(others.max())
        if most > CLOSE:
            yield "queries-mixed", most


def _of_query(subject: Subject, given: Inputs) -> float:
    """Return how much other queries change the weights, or the output where none were caught: that
    may follow a query by a residual connection alone.
    """
    before, after = subject.run(given), subject.run(given.moved(ALL, "query"))
    if before.weights:
        return max(map(gap, before.weights, after.weights))
    return subject.differ(before.output, after.output)


def rows_mixed(subject: Subject) -> Found:
    """A row of the result follows its own row of the last weights, and no other."""
    rows, last = subject.free.output.size(1), subject.last_use
    if last is None or rows != subject.queries(subject.given):
        return
    for row in range(rows):
        by = subject.more(last, row=row).amax(0)
        by[row] = 0
        if by.max() > CLOSE:
            yield "rows-mixed", float(by.max())
            return
