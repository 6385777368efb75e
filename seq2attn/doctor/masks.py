"""Rules of what reaches what: padding reaches nothing, valid keys are reached, and which places a
row sees at all.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2attn.doctor.subject import CLOSE, DRAWS, TINY, Subject, gap
from seq2attn.findings.engine import Found

MORE = 3  # columns of padding
FEW = 2  # keys that are hidden by mistake; a window hides more


def told(subject: Subject) -> Found:
    """Yield what the search for the call found."""
    yield from subject.told
    if not subject.has_mask and not subject.told:
        yield "no-mask", None


def padding(subject: Subject) -> Found:
    """Padding reaches no real row, and gets no weight; what is no padding does."""
    if not subject.has_mask:
        return
    if not subject.is_finite(subject.given):
        yield "not-finite", "with a mask"
        return
    given, keys = subject.given, subject.given.valid[:, None]  # (B, 1, S)
    masked, free = subject.masked, subject.free
    real = subject.real(given)[:, : masked.output.size(1)]  # (B, L, 1)
    reach = subject.reach(given, "keys").masked_fill(subject.own | ~real, 0)
    by = float(reach.masked_fill(keys, 0).max())
    noise = torch.where(keys.mT, given.keys, 3 * given.keys.flip(0, 1))
    noisy = subject.run(given._replace(keys=noise)).weights
    on_padding, unmoved, same = [], [], []
    for three in zip(free.weights, masked.weights, noisy, strict=True):
        before, one, other = (each.masked_fill(~real[:, None], 0) for each in three)
        on_padding.append(one.masked_fill(keys[:, None], 0).nan_to_num(1).sum((1, 2)))
        unmoved.append(gap(before, one) < TINY)
        same.append(gap(one, other) < TINY)
    weight = torch.stack(on_padding).amax(0) if on_padding else torch.zeros(1)  # (B, S)
    about = {"by": by, "most": float(weight.max()) or by, "name": subject.call.mask}
    first = ~keys[:, 0] & keys[:, 0].roll(1, 1)  # the first padded key of a row
    if subject.differ(masked.output, free.output) < TINY and all(unmoved):
        yield "mask-ignored", about
    elif by > CLOSE > reach.masked_fill(~keys, 0)[-1].max():
        yield "mask-inverted", about
    elif weight.max() > TINY:
        is_next = (weight * ~first).max() < TINY
        code = "mask-off-by-one" if is_next else "mask-constant" if all(same) else "padding-leak"
        yield code, about
    elif by > CLOSE:
        yield "padding-mixed", about
    elif subject.is_self and (reach * ~subject.seen).max() > CLOSE:
        yield "mask-opens", None
    elif subject.seen.all() and not subject.by_position:
        yield from _hidden(subject, (reach == 0) & keys & real & ~subject.own)


def _hidden(subject: Subject, closed: Tensor) -> Found:
    """Yield whether a valid key reaches nothing, in any of several draws."""
    for _ in range(DRAWS):
        if closed.any():
            closed &= subject.reach(subject.small(), "keys") == 0
    if closed.any():
        yield "valid-hidden", int(closed.nonzero()[0, -1])


def padding_amount(subject: Subject) -> Found:
    """How much padding there is changes nothing."""
    if not subject.has_mask:
        return
    given, masked = subject.given, subject.masked.output
    wider = torch.cat([given.keys, given.keys[:, :MORE]], dim=1)
    more = subject.run(given._replace(keys=wider, valid=pad(given.valid, (0, MORE)))).output
    more = more[:, : masked.size(1), : masked.size(2)]  # of weights alone there are more now
    real = subject.real(given)[:, : masked.size(1), 0]
    by = float(subject.apart(more, masked).masked_fill(~real, 0).max())
    if by > CLOSE:
        yield "padding-amount", f"by {by:.2g}"


def empty_row(subject: Subject) -> Found:
    """A row without valid keys is no error, and gives no NaN."""
    valid = subject.given.valid.clone()
    valid[-1] = not subject.has_mask
    if not subject.run(subject.given._replace(valid=valid)).output[-1].isfinite().all():
        yield "empty-row", "NaN"


# ---- which places a row sees ----


def places(subject: Subject) -> Found:
    """Say which places a row sees: all, those up to its own, or a window of them."""
    if subject.own.any():
        yield from _band(subject)
        return
    hidden = sorted({int(place) for _, place in (~subject.seen).nonzero()})
    if hidden and subject.seen.any():
        yield "keys-hidden" if len(hidden) <= FEW else "pattern", ", ".join(map(str, hidden))
    if subject.by_position:
        yield "position", None


def _band(subject: Subject) -> Found:
    seen = subject.seen
    place, last = torch.arange(len(seen)), len(seen) - 1
    apart = place - place[:, None]  # of a key from its row
    before, after = -int(apart[seen].min()), int(apart[seen].max())
    about = {"before": before, "after": after, "size": before + after + 1}
    whole = seen | (apart == 0) | (apart > after) | (apart < -before)
    if not whole.all():
        yield "pattern", None
    elif (before, after) == (last, 0):
        yield "causal", None
    elif (before, after) == (0, last):
        yield "sees-later-only", None
    elif before == last > after:
        yield "sees-ahead", after
    elif (before, after) != (last, last):
        yield "window", about


def required(subject: Subject) -> Found:
    """What is required of the places that a row sees holds."""
    found = dict(places(subject)) if subject.require else {}
    window = found.get("window", {"after": 1})
    holds = {"causal": "causal" in found or not window["after"]}
    if not window["after"]:
        holds[f"window={window['size']}"] = True
    for name in subject.require:
        if not holds.get(name):
            yield "required", name
