"""Rules of what reaches what: padding reaches nothing, valid keys are reached, and which places a
row sees at all.
"""

import contextlib
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2attn.doctor.call import Inputs
from seq2attn.doctor.said import axes_of, is_named_causal
from seq2attn.doctor.subject import CLOSE, DRAWS, TINY, Subject, gap
from seq2attn.doctor.words import FLAGS, OF_LENGTHS, words
from seq2attn.findings.engine import Found, listed

MORE = 3  # columns of padding
PREFIX = {"prefix", "prompt"}  # whose tokens see each other, also in a causal model
LEFT = (
    r"(?<!no )\bleft\W+pad(?!\w*\W+(is|are) (not|un))"
    r"|\b(pad|unfilled|empty)[^.;\n]{0,60} (on|at|to|from) the left"
)
WITHOUT = r"(?i)\b(without|no) [^.;:]{0,12}(hit|click|neighbo|valid)|(fully|wholly|entirely) masked"
ASSUMED = r"(?i)at least one|assum|must|nan\b|undefined"
"""words of a docstring on rows without valid keys"""
INSTEAD = r"causal[^.;\n]{0,30}None|None[^.;\n]{0,30}causal"
"""words of a mask that takes the place of a causal one"""
VISITED = r"\bvisited\b|\balready (chosen|taken|used)\b"
MOST_WINDOW = 7  # places on the side of a window of an image that is tried
LOCAL = r"(?i)\blocal|\bwindow"
FEW = 2  # keys that may be hidden by mistake; a row that sees no more has a window


def told(subject: Subject) -> Found:
    """Yield what the search for the call found."""
    yield from subject.call_findings
    if not subject.has_mask and not subject.call_findings:
        yield "no-mask"


def padding(subject: Subject) -> Found:
    """Padding changes no result of a token and gets no weight, and keys that are no padding are
    seen.

    Only the first cause that fits is yielded: a mask that is inverted, or added, leaks as well.
    """
    if not subject.has_mask or _has_more_rows(subject):
        return
    if not subject.is_finite(subject.inputs):
        yield "not-finite", "with a mask"
        return
    masked, is_valid = subject.masked, subject.inputs.valid[:, None]  # (B, 1, S)
    # (B, L, 1); the output may have fewer rows than there are tokens
    is_token = subject.token_rows(subject.inputs)[:, : masked.output.size(1)]
    # (B, L, S): how much a row of a token changes with each key but its own
    reach = subject.reach(subject.inputs, "keys").masked_fill(subject.own_place | ~is_token, 0)
    by_padding = float(reach.masked_fill(is_valid, 0).max())
    # in the last row of the batch, which is short: an inverted mask leaves nothing of a full one
    by_tokens = reach.masked_fill(~is_valid, 0)[-1].max()
    weight = subject.weight_on_padding(masked)
    # how much rows of tokens change if all tokens do, their own too
    other = subject.output(subject.inputs.changed_at(subject.inputs.valid, "keys"))
    follows = subject.difference_of_tokens(subject.inputs, other, masked.output)
    if subject.difference(masked.output, subject.unmasked.output) < TINY:
        yield "mask-ignored"
    elif by_padding > CLOSE > by_tokens or follows < TINY:
        yield "mask-inverted", subject.call.mask, "its name"
    elif weight.max() > TINY:
        yield _leak(subject, weight)
    elif by_padding > CLOSE:  # although it has no weight
        # a visited node is hidden from the weights alone
        if not re.search(VISITED, subject.docs):
            yield "padding-mixed", by_padding
    # with the mask, rows see places that they do not see without one
    elif subject.is_self and (reach * ~subject.seen).max() > CLOSE:
        if not re.search(INSTEAD, subject.docs) and not words(subject.call.mask) & PREFIX:
            yield "mask-opens"
    # what goes through other keys step by step, as monotonic attention does, may pass some by
    elif subject.seen.all() and (subject.has_own_places or not subject.depends_on_order):
        yield from _hidden(subject, (reach == 0) & is_valid & is_token & ~subject.own_place)


def _leak(subject: Subject, weight: Tensor) -> tuple[Any, ...]:
    """Return why padding gets weight, (B, S): the code of the finding, and its evidence."""
    if TINY < abs(_rise(subject)) < 2 + CLOSE:
        return "mask-added", subject.call.mask, "its name"
    is_first_padding = ~subject.inputs.valid & subject.inputs.valid.roll(1, 1)
    is_wider = (weight * ~is_first_padding).max() > TINY  # than one place
    return "padding-leak" if is_wider else "mask-off-by-one", float(weight.max())


def _has_more_rows(subject: Subject) -> bool:
    """Return whether the result has a few rows more than there are keys, such as one for a CLS
    token: then it is not known which row belongs to which key. What attends to itself (`is_self`)
    has exactly one for each.
    """
    if subject.inputs.query is not None or subject.is_self:
        return False
    returned = subject.results(subject.inputs.unpadded)
    more = range(subject.length + 1, subject.length + MORE + 1)
    shapes = [returned[index].shape for index in subject.output_indices]
    return any(size in more for shape in shapes for size in shape[1:])


def _rise(subject: Subject) -> float:
    """Return by how much a mask raises the score of the first key, which is valid, above those of
    padding; 0 if that is not the same everywhere. A mask of 0 and 1 that is added raises it by 1,
    by 2 if it is added twice, or by less if the sum is divided, as by a temperature.

    Scores are read off the weights: the logarithm of a softmax is the score, less a number that is
    the same for all keys of a row.
    """
    rises = []
    for masked, free in zip(subject.masked.weights, subject.unmasked.weights, strict=True):
        logs = (masked / free).log()  # (B, H, L, S): what the mask adds, less such a number
        padding = ~subject.inputs.valid[:, None, None].expand_as(logs)
        rises.append((logs[..., :1] - logs)[padding & (free > 0)])
    if not rises:
        return 0.0
    found = torch.cat(rises)
    return float(found.mean()) if gap(found, found.mean()) < CLOSE else 0.0


def _hidden(subject: Subject, closed: Tensor) -> Found:
    """Yield the place of a valid key that a row does not see. closed (B, L, S): the keys without an
    effect on a row so far. A weight rounded to 0 has none either, so more inputs are tried.
    """
    for _ in range(DRAWS):
        if closed.any():
            closed &= subject.reach(subject.draw_small(), "keys") == 0
    if closed.any():
        yield "valid-hidden", int(closed.nonzero()[0, -1])  # the first one, of (B, L, S)


def padding_amount(subject: Subject) -> Found:
    """More keys that no row sees change nothing: more padding, or, in causal attention, more tokens
    at the end.
    """
    if not (subject.has_mask or subject.is_causal):
        return
    inputs, masked = subject.inputs, subject.masked.output
    # the first keys once more: behind the mask, or later than all that rows see
    more = inputs.keys[:, :MORE]
    if re.search(LEFT, subject.docs.lower()) and not subject.is_self:
        wider, valid = torch.cat([more, inputs.keys], dim=1), pad(inputs.valid, (MORE, 0))
    else:
        wider, valid = torch.cat([inputs.keys, more], dim=1), pad(inputs.valid, (0, MORE))
    longer = inputs._replace(keys=wider, valid=valid)
    try:
        subject.output(longer.unpadded)
    except Exception:  # the rule of lengths says so
        return
    more = subject.output(longer)
    if subject.output_indices and more.size(2) != masked.size(2):
        # it also returns a number for each key, such as weights with a sink
        yield from _joined(subject, longer)
        return
    more = more[:, : masked.size(1), : masked.size(2)]  # without the results of the new keys
    by = subject.difference_of_tokens(inputs, more, masked)
    if by > CLOSE:
        yield "padding-amount" if subject.has_mask else "later-amount", f"by {by:.2g}"


def _joined(subject: Subject, longer: Inputs) -> Found:
    """Yield `padding-amount` if more padding, of zeros, changes a row of a source without padding,
    where the result has fewer rows than keys, as behind a convolution with strides.

    longer: the inputs with more padding, for which the result may have more rows.
    """
    keys = longer.keys.index_fill(1, torch.arange(subject.length, longer.keys.size(1)), 0)
    before, after = (
        subject.results(inputs)[subject.output_indices[0]]
        for inputs in (subject.inputs, longer._replace(keys=keys))
    )
    is_joined = before.dim() == 3 and before.size(1) < min(subject.length, after.size(1))
    if is_joined and before.shape[::2] == after.shape[::2]:  # (B, rows, F)
        is_full = subject.inputs.valid.all(1)
        by = subject.difference(after[is_full, : before.size(1)], before[is_full])
        if by > CLOSE:
            yield "padding-amount", f"by {by:.2g}"


def whole_mask(subject: Subject) -> Found:
    """A mask that hides nothing changes nothing. Causal attention is left out: its rows never see
    the padding behind them, so the search cannot tell which form of the mask is right. So is
    attention to other keys that hides some without a mask, which may take the place of another.
    """
    is_partial = subject.is_causal or not (subject.is_self or subject.seen.all())
    if not subject.has_mask or is_partial:
        return
    output = subject.called(needs_mask=True).output()
    by = subject.difference(output, subject.unmasked.output)
    if by > CLOSE:
        yield "mask-whole", by


def empty_row(subject: Subject) -> Found:
    """A row without valid keys raises no error and gives no NaN; above all if the docstring says
    what it gives, as in "a token without any hit is returned unchanged".
    """
    if not subject.has_mask:
        return
    valid = subject.inputs.valid.clone()
    valid[-1] = False
    if not subject.output(subject.inputs._replace(valid=valid))[-1].isfinite().all():
        is_said = re.search(WITHOUT, subject.docs) and not re.search(ASSUMED, subject.docs)
        yield "empty-row-said" if is_said else ("empty-row", "NaN")


def padded_first(subject: Subject) -> Found:
    """Tokens of self-attention get no NaN from padding before them. A mask that is given as lengths
    cannot say where padding stands, and is left out.
    """
    is_of_lengths = subject.call.form in OF_LENGTHS
    if is_of_lengths or not (subject.has_mask and subject.is_self):
        return
    valid = subject.inputs.valid.clone()
    valid[-1] = torch.arange(valid.size(1)) >= FEW  # so much padding, then tokens
    is_left = re.search(LEFT, subject.docs.lower())
    # rows of padding count where padding is said to stand there: they are keys of the next layer
    rows = subject.output(subject.inputs._replace(valid=valid))[-1, 0 if is_left else FEW :]
    if not rows.isfinite().all():
        yield "padded-left" if is_left else "padded-first"


# ---- which places a row sees ----


def places(subject: Subject) -> Found:
    """Say which places a row sees: all, those up to its own, or a window of them."""
    if subject.has_own_places:
        yield from _band(subject)
        if subject.depends_on_order:
            yield "position"
        return
    seen = subject.seen
    hidden = (~seen).any(0).nonzero().flatten().tolist()  # keys that some row does not see
    never = int((~seen).all(0).sum())  # how many no row sees
    # keys of another sequence, such as an encoder's, are no later than the rows that attend to
    # them: there, a causal mask is a mistake
    expressions = subject.call.expressions.items()
    is_other = bool(FLAGS["other"] & words(*(name for name, text in expressions if "keys" in text)))
    is_causal = is_other and len(seen) > 1 and torch.equal(seen, torch.ones_like(seen).tril())
    if hidden and seen.any():
        is_local = subject.is_local or re.search(LOCAL, subject.docs)
        is_wrong = is_causal or (0 < never <= FEW and not is_local)
        listed_keys = ", ".join(map(str, hidden))
        yield (
            ("keys-hidden", listed_keys) if is_wrong else ("pattern", "neither causal nor a window")
        )
    if subject.depends_on_order:
        yield "position"


def windows(subject: Subject) -> Found:
    """Places of an image that see the same others see each other, as they are in one window."""
    if not subject.has_own_places or subject.is_causal:
        return
    seen = subject.seen
    if not subject.call.after:  # an image of four windows may be given as a sequence
        if not (seen.all() and 0 < subject.window <= MOST_WINDOW):
            return
        with contextlib.suppress(Exception):  # it takes no other length
            four = subject.draw((2 * subject.window) ** 2).unpadded
            seen = replace(subject, inputs=four).seen
    for one, other in combinations(range(len(seen)), 2):
        pair = [one, other]  # a residual connection shows each its own place
        others = seen[pair].index_fill(1, torch.tensor(pair), False)
        if others[0].any() and torch.equal(*others) and not seen[one, other]:
            yield ("windows-moved",)
            return


def _band(subject: Subject) -> Found:
    """Say which places a row of self-attention sees: at most so many before its own, and so many
    after it.
    """
    seen = subject.seen
    place, last = torch.arange(len(seen)), len(seen) - 1
    apart = place - place[:, None]  # (L, S): by how much a key's place is later than the row's own
    before, after = -int(apart[seen].min()), int(apart[seen].max())
    is_band = seen | (apart == 0) | (apart > after) | (apart < -before)  # no gap between the two
    # a causal mask that closes the row's own place leaves the first row none: it sees all instead.
    # triu(2): places after the row's own, as the first row is cut off
    if seen[0, 1:].any() and not seen[1:].triu(2).any():
        yield "closed-first"
    elif not is_band.all():
        yield "pattern", "causal, but no window" if not after else "neither causal nor a window"
    elif (before, after) == (last, 0):
        yield "causal"
    elif (before, after) == (0, last):
        yield "sees-later-only"
    elif before == last > after:
        yield ("window-open", after, "after") if subject.window else ("sees-ahead", after)
    elif after == last > before:
        yield "window-open", before, "before"
    elif (before, after) != (last, last):
        yield "window", before + after + 1, before, after


def named(subject: Subject) -> Found:
    """No row sees a later place if the name says that the attention is causal, and no mask decides
    it, as one of padding alone, (B, S), cannot, or if its weights are causal: then later places
    reach the row in another way.
    """
    # as many queries as keys: it takes no other number, so they are places of one sequence
    is_paired = subject.has_own_places or subject.queries(subject.inputs) == subject.length
    ahead = subject.seen.triu(1)  # (L, S)
    if not is_paired or not ahead.any():
        return
    row, key = ahead.nonzero().mT
    extent = int(ahead.sum(1).max()), int((key - row).max())
    weights, mask = subject.unmasked.weights, subject.call.mask
    is_of_lengths = subject.call.form in OF_LENGTHS
    is_of_padding = is_of_lengths or len(axes_of(mask, subject.docs)[0]) == 2
    decides = subject.has_mask and (not is_of_padding or words(mask) & PREFIX)
    if not decides and is_named_causal(subject.call.attention, padding=mask):
        yield "not-causal", "name or docstring says that it is", *extent
    elif weights and not any(one.triu(1).any() for one in weights):
        yield "not-causal", "weights are", *extent


def required(subject: Subject) -> Found:
    """A row sees only the places that `causal` or `window=3` allow, if that is required: a window
    has to end at the row's own place.
    """
    found = {code: evidence for code, *evidence in listed(places(subject))}
    size, _, after = found.get("window", [0, 0, 1])  # without a window, none holds
    # a window that ends at the row's own place is causal, too
    holds = {"causal": subject.is_causal, f"window={size}": not after}
    for name in subject.require:
        if not holds.get(name):
            yield "required", name
