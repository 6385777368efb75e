"""Rules of the weights that were caught: they are shares, the result follows from them, and they
are those that are returned.
"""

import torch

from seq2attn.doctor.call import TINY
from seq2attn.doctor.subject import CLOSE, Subject, gap
from seq2attn.findings.engine import Found


def sums(subject: Subject) -> Found:
    """Weights are not below 0, and sum to 1 over the keys, with a mask as without."""
    for given, result in subject.both:
        is_masked = not given.valid.all()
        for weights, before in zip(result.weights, subject.free.weights, strict=True):
            real = subject.real(given)[:, None]
            weights = weights.masked_fill(~real, 0)
            totals = (weights.sum(-1, keepdim=True) + ~real).flatten()
            by = gap(totals, 1)
            ends = dict.fromkeys(f"{end:.3g}" for end in (totals.min(), totals.max()))
            about = {"totals": " to ".join(ends), "by": by, "low": float(weights.min())}
            other = [gap(weights.sum(axis), 1) for axis in (0, -2) if weights.size(axis) > 1]
            if by < 1e-3 and weights.min() > -TINY:
                continue
            if is_masked and gap(before * given.valid[:, None, None] * real, weights) < CLOSE:
                yield "mask-after-softmax", about
            elif is_masked:
                yield "sums-with-mask", about
            elif ((weights == 0).all(0).all(0) & subject.seen).any():
                yield "mask-after-softmax", about
            elif weights.min() < -TINY and gap(totals, totals[0]) > 1e-3:
                yield "negative", about
            elif min([gap(weights, 1), *other]) < 1e-3:
                yield "axis", about
            else:
                yield "sums", about
            return


def used(subject: Subject) -> Found:
    """The result follows from the weights that were caught, and from what they weigh."""
    given, result = subject.given.free, subject.free
    if not subject.bound.outputs:
        yield "no-context", {}
        return
    heads = range(result.weights[-1].size(1)) if result.uses and result.weights else ()
    for head in heads if len(result.uses) == 1 else (None,) * len(heads[:1]):
        if subject.differ(subject.with_more(head=head), result.output) < TINY:
            yield (
                "unused-weights",
                {"which": "Weights" if len(heads) == 1 else f"Those of head {head}"},
            )
            return
    if any("values" in text for text in subject.bound.call.given.values()):
        values = given.keys.cos()
        other = subject.run(given._replace(values=values).moved(slice(None), "values"))
        if subject.differ(other.output, result.output) < TINY:
            yield "keys-as-values" if result.uses else "values-ignored", {}
            return
    moved = subject.run(given.moved(slice(None), "keys"))
    pairs = list(zip(result.uses, moved.uses, strict=False))
    if pairs and all(gap(one.values, other.values) < TINY for one, other in pairs):
        yield "values-ignored", {}
    if subject.bound.is_self or not pairs:
        return
    still = []
    for one in (given, given.moved(slice(None), "keys")):
        still.append(subject.run(one, freeze=lambda _, product: torch.ones_like(product)).output)
    by = subject.differ(*still)
    if by > CLOSE:
        yield "bypass", {"by": by}


def returned(subject: Subject) -> Found:
    """The weights that are returned are those that are used, or their mean over heads."""
    for given, result in subject.both:
        if result.returned is None or not result.uses or len(result.weights) != 1:
            continue
        real = subject.real(given)[:, None]
        theirs, mine = (one.masked_fill(~real, 0) for one in (result.returned, result.weights[0]))
        gaps = []
        for one in (mine, mine.mean(1, keepdim=True)):
            if one.shape == theirs.shape:
                gaps.append(gap(one, theirs))
        if not gaps or min(gaps) < CLOSE:
            continue
        are_weights = theirs.min() >= 0 and gap(theirs.sum(-1) + ~real[..., 0], 1) < 1e-3
        most = float((theirs * ~given.valid[:, None, None]).sum(-1).max())
        if not are_weights:
            yield "other-returned", {}
        elif most > 1e-3:
            yield "weights-before-mask", {"most": most}
        else:
            yield "other-weights-returned", {"by": min(gaps)}
        return
