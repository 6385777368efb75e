"""Rules on which everything rests: the same input gives the same result, rows of a batch are apart,
and each row of the result follows its own query.

A rule yields the code of each finding, with what the finding's text shows. B counts rows of the
batch, H heads, L queries or rows of the output, S keys. Differences are shares of the largest
number of a result: CLOSE is what rounding may make of equal results, TINY is less.
"""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import Inputs
from seq2attn.doctor.subject import ALL, CLOSE, Subject, gap
from seq2attn.doctor.words import GUESSES, POSITIONS, WORDS, words
from seq2attn.findings.engine import Found

DROPOUT = GUESSES["0.0"]
"""words in the names of rates of dropout"""
ADDED = POSITIONS["encoded"] | {"bias"}
"""words in the names of what is added to inputs or to scores"""


class Recorder:
    """Calls an attention, and remembers which of its arguments a call changed."""

    def __init__(self, attention: Any) -> None:
        self.attention = attention
        self.changed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.attention, name)  # methods that come before a call

    def __call__(self, /, **arguments: Any) -> Any:
        before = copy.deepcopy(arguments)
        result = self.attention(**arguments)
        for name, value in arguments.items():
            if isinstance(value, Tensor) and not torch.equal(value, before[name]):
                self.changed.add(name)
        return result


def in_place(subject: Subject) -> Found:
    """Arguments stay as they are, masks too. Embeddings of positions and biases (ADDED), which may
    be left out, are given as well, one at a time, as ones: in the layouts of the other arguments,
    and in those of scores.
    """
    recorder, inputs = Recorder(subject.call.attention), subject.inputs
    if subject.call.by_row:  # without vmap, inside of which nothing can be compared
        inputs = inputs.each(itemgetter(0))
    call = replace(subject.call, attention=recorder, by_row=False)
    call(inputs)
    optional = [name for name in subject.arguments if words(name) & ADDED]
    texts = [f"torch.ones_like({text})" for text in dict.fromkeys(call.expressions.values())]
    for name, text in product(optional, [*texts, *WORDS["ones"]]):
        given = {**call.expressions, name: text}
        with contextlib.suppress(Exception):  # the argument has another layout
            replace(call, expressions=given)(inputs)
    if recorder.changed:
        yield "in-place", ", ".join(sorted(recorder.changed))


def not_finite(subject: Subject) -> Found:
    """Results are numbers."""
    if not subject.is_finite(subject.inputs.unpadded):
        yield "not-finite", "although all keys are valid"


def state(subject: Subject) -> Found:
    """In evaluation mode the same input gives the same result, after other calls too.

    With the same seed a difference comes from what other calls left behind (`state`); with another
    seed, from random numbers (`random`). Rates of dropout are raised to 0.5 meanwhile, as most are
    0 by default, and dropout that also drops in evaluation would not be seen. A copy that was never
    called, if there is one, shows what the first call left behind for good, such as its mask
    (`cache`).
    """
    results, other = [], subject.draw()
    # with other padding: a mask that an earlier call left behind would be a wrong one
    other = other._replace(valid=other.valid.flip(0))
    with dropout(subject.module, 0.5):
        for seed in (0, 0, 1):
            torch.default_generator.manual_seed(seed)
            results.append(subject.output())
            subject.output(other)  # the call between
    first, same_seed, other_seed = results
    if (by := subject.difference(first, same_seed)) > CLOSE:
        yield "state", by
    elif (by := subject.difference(first, other_seed)) > CLOSE:
        # slot attention draws its queries on purpose (Locatello et al. 2020)
        has_slots = "slot" in subject.docs.lower() and not subject.is_self
        yield "random-slots" if has_slots else "random", by
    elif subject.fresh is not None:
        # in rows of padding, too, where alone a mask shows behind causal rows
        fresh = subject.called(attention=subject.fresh).run(other).all_rows
        if subject.difference(fresh, subject.run(other).all_rows) > CLOSE:
            yield "cache"


@contextlib.contextmanager
def dropout(module: nn.Module, rate: float) -> Iterator[None]:
    """Set the rates of dropout in all parts of a module, also of classes that are not torch's, and
    restore them on exit. Rates are floats from 0 to below 1 whose names say so, as `p` does.
    """
    saved = []
    for part in module.modules():
        for name, value in vars(part).items():
            if isinstance(value, float) and 0 <= value < 1 and words(name) & DROPOUT:
                saved.append((part, name, value))
    try:
        for part, name, _ in saved:
            setattr(part, name, rate)
        yield
    finally:
        for part, name, value in saved:
            setattr(part, name, value)


def one_row(subject: Subject) -> Found:
    """It takes a batch of one row, and results are the same as that row's in a larger batch."""
    inputs = subject.inputs.unpadded
    alone = inputs.each(lambda tensor: tensor[:1])
    for before, after in zip(subject.results(inputs), subject.results(alone), strict=True):
        if before.dim() != after.dim():  # as where `squeeze()` drops an axis of length 1
            yield "one-row", f"a result has the shape {tuple(after.shape)}"
            return
    by = subject.difference(subject.output(alone), subject.unmasked.output[:1])
    if by > CLOSE:
        yield "batch", f"without the others a row differs by {by:.2g}"


def batch(subject: Subject) -> Found:
    """A row of the batch depends neither on what other rows hold nor on its place in the batch,
    with a mask as without one: every second row is changed, then the others, then the order of all
    is reversed.
    """
    for inputs, result in subject.unmasked_and_masked:
        for first in (0, 1):
            changed, others = slice(first, None, 2), slice(1 - first, None, 2)
            output = subject.output(inputs.changed_at(changed, "query", "keys", "values"))
            by = float(subject.differences(output, result.output)[others].max())
            if by > CLOSE:
                yield "batch", f"another one changes a row by {by:.2g}"
                return
        in_reverse = subject.output(inputs.each(lambda tensor: tensor.flip(0))).flip(0)
        if (by := subject.difference(in_reverse, result.output)) > CLOSE:
            yield "batch", f"in another place, or beside other masks, a row differs by {by:.2g}"
            return


def queries(subject: Subject) -> Found:
    """A row of the result follows its own query, and no other, nor how many there are (`_mixed`).
    Pooling the keys without a query is not a fault, but a fact: `no-query`. Self-attention without
    one is left out.

    Large inputs may saturate a softmax, so small ones are tried, too, before queries count as
    ignored. Whether rows mix is examined if there is one for each of several queries, and unless
    queries attend to each other, as in a decoder layer: then they may.
    """
    inputs = subject.inputs.unpadded
    if inputs.query is None:
        if not subject.is_self:
            yield "no-query"
        return
    if max(_of_query(subject, inputs), _of_query(subject, subject.draw_small().unpadded)) < CLOSE:
        yield "query-ignored"
        return
    rows = inputs.query.size(1)
    # how many places queries attend to, if to each other: alone, with a sentinel, or with the keys
    among = [rows, rows + 1, rows + subject.length]
    is_for_each = subject.output_indices and subject.unmasked.output.size(1) == rows > 1
    if is_for_each and not any(map(subject.averages, among)):
        yield from _mixed(subject, inputs.query)


def _mixed(subject: Subject, query: Tensor) -> Found:
    """Yield a finding if a row follows another row's query, or how many queries there are: of
    queries that compete for keys, or else of mixed ones.

    query (B, L, Dq): that of the subject's inputs. Each row may follow all queries up to its own,
    as where positions move forward, step by step.
    """
    inputs = subject.inputs.unpadded
    reach = subject.reach(inputs, "query").amax(0)  # (L, L) how much each row follows each query
    # if every row follows its own query and all earlier ones, these are allowed
    if (reach + torch.ones_like(reach).triu(1)).min() > 0:
        reach = reach.triu()
    most = float((reach - reach.diag().diag()).max())
    if most > CLOSE:
        yield ("queries-compete",) if _compete(subject, query.size(1)) else ("queries-mixed", most)
    # not if some keys are hidden from a row: a causal mask or a window may be counted from the last
    # query, and rightly moves with it
    elif subject.seen.all():
        fewer = inputs._replace(query=query[:, :-1])  # without the last query
        # the first result alone: of another, an axis of heads may be as long as these are queries
        output = replace(subject, output_indices=subject.output_indices[:1]).output
        with contextlib.suppress(Exception):  # another argument may have to fit all queries
            by = subject.difference(output(fewer), output()[:, :-1])
            if by > CLOSE:
                yield "queries-mixed", by


def _compete(subject: Subject, queries: int) -> bool:
    """Return whether queries are named after slots, or a softmax ran over them: that weights sum to
    1 over the keys, too, has been examined before.
    """
    for _, made in subject.unmasked.watch.softmaxes:
        axes = [axis for axis in range(made.dim()) if made.size(axis) == queries]
        if any(gap(made.sum(axis), 1) < CLOSE for axis in axes):
            return True
    return "slot" in subject.docs.lower()


def _of_query(subject: Subject, inputs: Inputs) -> float:
    """Return by how much other queries change the weights at most, or what is returned if no
    weights were caught: that may follow a query by a residual connection alone.
    """
    other = inputs.changed_at(ALL, "query")
    before, after = subject.run(inputs).weights, subject.run(other).weights
    if not (before and after):
        before, after = subject.results(inputs), subject.results(other)
    return max(map(gap, before, after))  # `gap` is the largest difference of two tensors
