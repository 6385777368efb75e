"""Rules of what reaches what: padding reaches nothing, valid keys are reached, and which places a
row sees at all.

A rule yields the code of each finding, alone or with what the finding's text shows. Rows are those
of the output, one for each query; a row sees a key if a change of the key changes the row. Results
are masked, with padding in the inputs, or unmasked, with all keys valid. B counts rows of the
batch, H heads, L rows or queries, S keys. Differences are shares of the largest number of a result:
CLOSE is what rounding may make of equal results, TINY is less.
"""

import inspect
import re
import sys
from dis import Bytecode
from itertools import combinations
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2attn.doctor.call import function_of
from seq2attn.doctor.said import axes_of, is_named_causal
from seq2attn.doctor.subject import CLOSE, DRAWS, TINY, Subject
from seq2attn.doctor.words import OF_LENGTHS, required, role_of, words
from seq2attn.findings.engine import Found

MORE = 2  # columns of padding that are added, to a length that no head is wide
PREFIX = {"prefix", "prompt"}  # whose tokens see each other, also in a causal model
LEFT = r"(?i)\bleft\W+pad|\b(on|at|to|from) the left"
INSTEAD = r"causal[^.;\n]{0,30}None|None[^.;\n]{0,30}causal"
"""words of a mask that takes the place of a causal one"""
UNUSED = "unused|not used|ignored|dummy|compatib|reserved"
"""words of an argument that is taken for others' sake"""
VISITED = r"\bvisited\b|\balready (chosen|taken|used)\b"


def told(subject: Subject) -> Found:
    """Yield what the search for the call found, or else that there is no mask, where one may be
    needed: an image has no padding, and in causal attention no token sees padding at the end.
    """
    yield from subject.call_findings
    is_needed = not (subject.has_mask or subject.is_image or subject.is_causal)
    if is_needed and not subject.call_findings:
        yield "no-mask"


def padding(subject: Subject) -> Found:
    """Padding changes no row of a token and gets no weight; keys that are not padding are seen; and
    no row of self-attention sees a place that it does not see without the mask.

    At most one finding is yielded, that of the first cause that fits: a mask that is inverted, or
    added, leaks as well. Results with NaN or infinity are `not-finite`, and nothing else is
    examined in them. Without a mask, nothing is.
    """
    if not subject.has_mask:
        return
    if not subject.is_finite(subject.inputs):
        yield "not-finite", "with a mask"
        return
    masked, is_valid = subject.masked, subject.inputs.valid[:, None]  # (B, 1, S)
    # (B, L, S): how much a row of a token changes with each key but the one in its own place; a row
    # that sees padding alone, as in a window, is another rule's
    reach = subject.reach(subject.inputs, "keys").masked_fill(subject.own_place, 0)
    reach = reach * subject.sees_token
    by_padding = float(reach.masked_fill(is_valid, 0).max())
    # in the last row of the batch, which has padding: in a row without, an inverted mask hides all
    # keys, and a softmax may then give all of them the same weight, so that they are seen after all
    by_tokens = reach.masked_fill(~is_valid, 0)[-1].max()
    weight = subject.weight_on_padding(masked)  # (B, S)
    # `follows`: how much rows of tokens change if all tokens change, those in their own places too
    other = subject.output(subject.inputs.changed_at(subject.inputs.valid, "keys"))
    follows = subject.difference(other, masked.output)
    if subject.difference(masked.all_rows, subject.unmasked.output) < TINY:
        about = {"name": subject.call.mask, "by": "no line that names it is run"}
        yield "mask-ignored" if _is_reached(subject) else ("mask-not-examined", about)
    # padding counts and tokens do not, or all tokens together change nothing
    elif max(by_padding, float(weight.max())) > CLOSE > by_tokens or follows < TINY:
        is_of_ids = subject.call.mask in subject.call.expressions
        says = "0, the id of padding," if is_of_ids else "its name"
        yield "mask-inverted", subject.call.mask, says
    elif weight.max() > TINY:
        is_first_padding = ~subject.inputs.valid & subject.inputs.valid.roll(1, 1)
        is_wider = (weight * ~is_first_padding).max() > TINY  # later padding gets weight, too
        yield "padding-leak" if is_wider else "mask-off-by-one", float(weight.max())
    elif by_padding > CLOSE:  # although it has no weight
        # a mask of visited nodes, as in routing, rightly hides them from the weights alone
        if not (re.search(VISITED, subject.docs) or subject.tells_regions):
            yield "padding-mixed", by_padding
    # with the mask, rows see places that they do not see without one; on purpose, if the mask is
    # said to take the place of a causal one, or is that of a prefix
    elif subject.is_self and (reach * ~subject.seen).max() > CLOSE:
        if not re.search(INSTEAD, subject.docs) and not words(subject.call.mask) & PREFIX:
            yield "mask-opens"
    # otherwise all keys are seen without a mask: are the valid ones seen with it? Not examined of
    # attention other than to itself that depends on the order of keys: monotonic attention, which
    # goes through them step by step, may pass some by
    elif subject.seen.all() and (subject.has_own_places or not subject.depends_on_order):
        # (B, L, S) rows of tokens; the output may have fewer rows than there are keys
        may_see = (subject.token_rows(subject.inputs) & is_valid)[:, : masked.output.size(1)]
        yield from _hidden(subject, (reach == 0) & may_see & ~subject.own_place)


def _is_reached(subject: Subject) -> bool:
    """Return whether a call runs a line of the attention's function that names the mask; True, too,
    if there is no such line, or if no argument is left out for which it may be run.
    """
    given = {*subject.call.expressions, subject.call.mask}
    if given.issuperset(required(function_of(subject.call.attention))):
        return True
    code = inspect.unwrap(function_of(subject.call.attention)).__code__
    named = [one.positions for one in Bytecode(code) if one.argval == subject.call.mask]
    lines = {one.lineno for one in named if one}
    run: set[int] = set()

    def trace(frame: FrameType, _event: str, _value: Any) -> Any:
        """Note the lines of the function that are run."""
        if frame.f_code is not code:
            return None
        run.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        subject.results(subject.inputs)
    finally:
        sys.settrace(before)
    return not lines or bool(lines & run)


def unread(subject: Subject) -> Found:
    """The code of the attention reads each mask that its docstring describes, unless this says that
    it is not used. Masks that are called as such have other rules.
    """
    function = inspect.unwrap(function_of(subject.call.attention))
    known = {subject.call.mask, *(one.argval for one in Bytecode(function))}
    for name in subject.arguments:
        # the line of a docstring that begins with the name
        told = re.search(rf"^\W*(?:param )?{name}\b.*", subject.docs, re.MULTILINE)
        if (
            told
            and role_of(name) == "mask"
            and name not in known
            and not re.search(UNUSED, told[0])
        ):
            yield "mask-unread", name


def _hidden(subject: Subject, closed: Tensor) -> Found:
    """Yield `valid-hidden`, with the place of the key, if a row does not see a valid key.

    closed (B, L, S): the keys that have not changed a row so far; it is changed here. A key whose
    weight is rounded to 0 changes nothing either, so other inputs are tried, in DRAWS draws.
    """
    for _ in range(DRAWS):
        if closed.any():
            closed &= subject.reach(subject.draw_small(), "keys") == 0
    if closed.any():
        yield "valid-hidden", int(closed.nonzero()[0, -1])  # indices of the first are (b, l, s)


def padding_amount(subject: Subject) -> Found:
    """More keys that no row may see change nothing: MORE columns of padding or, in causal attention
    without a mask, as many tokens at the end. Not examined if padding is meant to be on the left.
    """
    is_left = re.search(LEFT, subject.docs)  # places may be counted from the last one
    if is_left or subject.tells_regions or not (subject.has_mask or subject.is_causal):
        return
    inputs, before = subject.inputs, subject.masked.output
    # the first keys once more: as padding, or later than all that rows see; and queries, if it may
    # need as many
    longer = inputs.each(
        lambda one: torch.cat([one, one[:, :MORE]], 1) if one.size(1) == subject.length else one
    )._replace(valid=pad(inputs.valid, (0, MORE)))
    try:
        subject.output(longer.unpadded)
    except Exception:  # it takes no more keys, which is a finding of the rule `length`
        return
    after = subject.output(longer)  # (B, L, F), with more rows in self-attention
    if subject.output_indices and after.size(2) != before.size(2):
        # F grew with the keys: numbers for each, such as weights with a sink, are part of it
        return
    # without the rows of new keys and, if weights alone are returned, without their weights
    after = after[:, : before.size(1), : before.size(2)]
    by = subject.difference(after, before)
    if by > CLOSE:
        yield "padding-amount" if subject.has_mask else "later-amount", f"by {by:.2g}"


def empty_row(subject: Subject) -> Found:
    """A source without valid keys raises no error, and its rows are finite."""
    if not subject.has_mask:
        return
    valid = subject.inputs.valid.clone()
    valid[-1] = False  # the last source of the batch
    if not subject.output(subject.inputs._replace(valid=valid))[-1].isfinite().all():
        yield "empty-row", "NaN"


# ---- which places a row sees ----


def places(subject: Subject) -> Found:
    """Say which keys some row does not see, without a mask, and whether the order of keys matters.
    In self-attention, with places of one sequence, say how far a row sees (`_band`).
    """
    if subject.has_own_places:
        yield from _band(subject)
        if subject.depends_on_order:
            yield "position"
        return
    if subject.seen.any() and not subject.seen.all():  # if no row sees any, another rule says so
        yield "pattern", "neither causal nor a window"
    if subject.depends_on_order:
        yield "position"


def windows(subject: Subject) -> Found:
    """Places of an image that see the same others see each other, as they are in one window. Yield
    `windows-moved` if two do not: then results of windows are put elsewhere.
    """
    if not (subject.has_own_places and subject.call.after):  # not of an image
        return
    seen = subject.seen  # (L, S)
    for one, other in combinations(range(len(seen)), 2):
        pair = [one, other]
        # but for these two: by a residual connection each sees its own place
        others = seen[pair].index_fill(1, torch.tensor(pair), False)  # (2, S)
        if others[0].any() and torch.equal(*others) and not seen[one, other]:
            yield ("windows-moved",)
            return


def _band(subject: Subject) -> Found:
    """Say how far a row of self-attention sees before and after its own place: nothing if it sees
    all places, otherwise one finding, such as `causal` or `window`.
    """
    seen = subject.seen  # (L, S)
    place, last = torch.arange(len(seen)), len(seen) - 1
    apart = place - place[:, None]  # (L, S): by how much a key's place is later than the row's own
    # the largest distances at which any row sees a place
    before, after = -int(apart[seen].min()), int(apart[seen].max())
    # each row sees all places that are no farther, without a gap, but for its own perhaps
    is_band = seen | (apart == 0) | (apart > after) | (apart < -before)
    if not is_band.all():
        yield "pattern", "causal, but no window" if not after else "neither causal nor a window"
    elif (before, after) == (last, 0):
        yield "causal"
    elif after == last > before:
        yield "sees-later-only", before
    elif before == last > after:
        yield "sees-ahead", after
    elif (before, after) != (last, last):
        yield "window", before + after + 1, before, after


def named(subject: Subject) -> Found:
    """No row sees a later place if the name or the docstring says that the attention is causal,
    unless it is given a mask that decides that; a mask of padding, (B, S) or lengths, cannot. Nor
    if its weights are causal: then later places reach the row in another way.
    """
    # as many queries as keys are drawn only where other numbers fail: they are places of one
    # sequence, though given twice
    is_paired = subject.has_own_places or subject.queries(subject.inputs) == subject.length
    ahead = subject.seen.triu(1)  # (L, S)
    if not is_paired or not ahead.any():
        return
    row, key = ahead.nonzero().mT
    # how many later places a row sees at most, and how far away the farthest is
    extent = int(ahead.sum(1).max()), int((key - row).max())
    weights, mask = subject.unmasked.weights, subject.call.mask
    is_of_lengths = subject.call.form in OF_LENGTHS
    # two axes are documented: (B, S)
    is_of_padding = is_of_lengths or len(axes_of(mask, subject.docs)[0]) == 2
    # the mask of a prefix, which lets its tokens see each other, decides as well
    mask_decides = subject.has_mask and (not is_of_padding or words(mask) & PREFIX)
    if not mask_decides and is_named_causal(subject.call.attention, padding=mask):
        yield "not-causal", "name or docstring says that it is", *extent
    # weights of the row's own place alone are the identity, as large keys may make them
    elif any(one.tril(-1).any() for one in weights) and not any(
        one.triu(1).any() for one in weights
    ):
        yield "not-causal", "weights are", *extent


def among(subject: Subject) -> Found:
    """Where queries attend to each other, as in a decoder layer, none sees a later one if the name
    or the docstring says that it is causal, and no mask is given that decides that.
    """
    inputs = subject.inputs.unpadded
    if inputs.query is None or not subject.averages(inputs.query.size(1)):
        return
    ahead = subject.reach(inputs, "query").amax(0).triu(1) > CLOSE  # (L, L) later queries
    if ahead.any() and is_named_causal(subject.call.attention, padding=subject.call.mask):
        row, query = ahead.nonzero().mT
        extent = int(ahead.sum(1).max()), int((query - row).max())
        yield "not-causal", "name or docstring says that it is", *extent
