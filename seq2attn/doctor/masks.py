"""Rules of what reaches what: padding reaches nothing, valid keys are reached, and which places a
row sees at all.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2attn.doctor.call import TINY
from seq2attn.doctor.subject import CLOSE, DRAWS, Subject, gap
from seq2attn.findings.engine import Found

MORE = 3  # columns of padding


def told(subject: Subject) -> Found:
    """Yield what the search for the call found."""
    yield from subject.told


def padding(subject: Subject) -> Found:
    """Padding reaches no real row, and gets no weight; what is no padding does."""
    if not subject.has_mask:
        if not subject.told:
            yield "no-mask", {}
        return
    given, keys = subject.given, subject.given.valid[:, None]  # (B, 1, S)
    masked, free = subject.masked, subject.free
    real = subject.real(given)[:, : masked.output.size(1)]  # (B, L, 1)
    reach = subject.reach(given, "keys").masked_fill(subject.own | ~real, 0)
    noise = torch.where(keys.mT, given.keys, 3 * given.keys.flip(0, 1))
    noisy = subject.run(given._replace(keys=noise))
    layers, unmoved, same = [], [], []
    for before, one, other in zip(free.weights, masked.weights, noisy.weights, strict=True):
        before, one, other = (each.masked_fill(~real[:, None], 0) for each in (before, one, other))
        layers.append((one * ~keys[:, None]).nan_to_num(1))
        unmoved.append(gap(before, one) < TINY)
        same.append(gap(one, other) < TINY)
    most = max((float(layer.sum(-1).max()) for layer in layers), default=0.0)
    behind = ~(keys | keys.roll(1, 2))[:, None]  # padding behind padding
    by = float(reach.masked_fill(keys, 0).max())
    about = {"by": by, "most": most or by, "name": subject.bound.call.mask}
    sees_valid = float(reach.masked_fill(~keys, 0)[-1].max())
    if subject.differ(masked.output, free.output) < TINY and all(unmoved):
        yield "mask-ignored", about
    elif by > CLOSE and sees_valid < CLOSE:
        yield "mask-inverted", about
    elif most > TINY and gap(torch.stack([one * behind for one in layers]), 0) < TINY:
        yield "mask-off-by-one", about
    elif most > TINY:
        yield "mask-constant" if all(same) else "padding-leak", about
    elif by > CLOSE:
        yield "padding-mixed", about
    elif (reach * ~subject.seen).max() > CLOSE:
        yield "mask-opens", about
    elif subject.seen.all():
        yield from _hidden(subject, reach == 0, keys & real & ~subject.own)


def _hidden(subject: Subject, closed: Tensor, wanted: Tensor) -> Found:
    """Yield whether a valid key reaches nothing, in any of several draws."""
    closed = closed & wanted
    for _ in range(DRAWS):
        if not closed.any():
            return
        closed &= subject.reach(subject.small, "keys") == 0
    if closed.any():
        yield "valid-hidden", {"place": int(closed.nonzero()[0, -1])}


def padding_amount(subject: Subject) -> Found:
    """How much padding there is changes nothing."""
    if not subject.has_mask:
        return
    given, rows = subject.given, subject.masked.output.size(1)
    wider = torch.cat([given.keys, given.keys[:, :MORE]], dim=1)
    more = subject.run(given._replace(keys=wider, valid=pad(given.valid, (0, MORE)))).output
    real = subject.real(given)[:, :rows, 0]
    width = subject.masked.output.size(2)  # of weights alone: there are more of them now
    more = more[:, :rows, :width]
    by = float(subject.apart(more, subject.masked.output).masked_fill(~real, 0).max())
    if by > CLOSE:
        yield "padding-amount", {"by": f"by {by:.2g}"}


def empty_row(subject: Subject) -> Found:
    """A row without valid keys is no error, and gives no NaN."""
    if subject.has_mask:
        valid = subject.given.valid.clone()
        valid[-1] = False
        if not subject.run(subject.given._replace(valid=valid)).output[-1].isfinite().all():
            yield "empty-row", {"by": "NaN"}


# ---- which places a row sees ----


def places(subject: Subject) -> Found:
    """Say which places a row sees: all, those up to its own, or a window of them."""
    if subject.own.any():
        yield from _band(subject)
        return
    if subject.seen.any() and not subject.seen.all():
        hidden = sorted({int(place) for _, place in (~subject.seen).nonzero()})
        yield "keys-hidden", {"places": ", ".join(map(str, hidden))}
    given = subject.given.free
    rolled = given.each(lambda tensor: tensor.roll(1, 1))._replace(query=given.query)
    output = subject.run(rolled).output
    if not subject.bound.outputs:  # of weights alone
        output = output.roll(-output.size(2) // given.keys.size(1), 2)
    by = subject.differ(output, subject.free.output)
    if by > CLOSE:
        yield "position", {"by": by}


def _band(subject: Subject) -> Found:
    seen = subject.seen
    place = torch.arange(len(seen))
    apart = place - place[:, None]  # of a key from its row
    behind, ahead = -int(apart[seen].min()), int(apart[seen].max())
    last = len(seen) - 1
    if not seen.diagonal().all():
        yield "own-hidden", {}
    is_band = seen | (apart == 0) | (apart > ahead) | (apart < -behind)
    if not is_band.all():
        yield "pattern", {}
    elif ahead == 0 and behind == last:
        yield "causal", {}
    elif ahead == 0:
        yield "window", {"before": behind, "after": 0, "size": behind + 1}
    elif behind == 0:
        yield "sees-later-only", {}
    elif behind == last and ahead < last:
        yield "sees-ahead", {"by": ahead}
    elif ahead < last or behind < last:
        yield "window", {"before": behind, "after": ahead, "size": behind + ahead + 1}


def required(subject: Subject) -> Found:
    """What is required of the places that a row sees holds."""
    found = list(places(subject)) if subject.require else []
    size = [about["size"] for code, about in found if code == "window" and not about["after"]]
    for name in subject.require:
        wanted = name.partition("=")[2]
        holds = any(code == "causal" for code, _ in found) or bool(size)
        if wanted:
            holds = size == [int(wanted)]
        if not holds:
            yield "required", {"name": name}
