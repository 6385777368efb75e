"""Rules of the weights that were caught: they are shares, the result follows from them, and they
are those that are returned.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2attn.doctor.subject import ALL, CLOSE, TINY, Subject, gap
from seq2attn.findings.engine import Found

EXACT = 1e-3  # a sum of weights may differ from 1 by less


def sums(subject: Subject) -> Found:
    """Weights are not below 0, and sum to 1 over the keys, with a mask as without."""
    for given, result in subject.both:
        real, valid = subject.real(given)[:, None], given.valid[:, None, None]
        for weights, before in zip(result.weights, subject.free.weights, strict=True):
            weights = weights.masked_fill(~real, 0)
            totals = weights.sum(-1).masked_fill(~real[..., 0], 1)
            by = gap(totals, 1)
            if torch.inf > by > EXACT or weights.min() < -TINY:
                ends = f"{totals.min():.3g} to {totals.max():.3g}"
                about = {"totals": ends, "by": by, "low": float(weights.min())}
                yield _not_shares(subject, weights, before * valid * real, valid), about
                return


def _not_shares(subject: Subject, weights: Tensor, plain: Tensor, valid: Tensor) -> str:
    """Return what is wrong with weights that do not sum to 1, or are below 0."""
    if not valid.all():
        return "mask-after-softmax" if gap(plain, weights) < CLOSE else "sums-with-mask"
    totals = weights.sum(-1)
    of_head = totals.transpose(0, 1).flatten(1)  # (H, B L): sums of shares that heads mix are alike
    spread = float((of_head.amax(1) - of_head.amin(1)).max())
    other = [gap(weights.sum(axis), 1) for axis in (0, 1, 2) if weights.size(axis) > 1]
    if ((weights == 0).all(0).all(0) & subject.seen).any():
        return "mask-after-softmax"
    if weights.min() < -TINY and spread > EXACT:
        return "negative"
    return "axis" if min([gap(weights, 1), *other]) < EXACT else "sums"


def used(subject: Subject) -> Found:
    """The result follows from the weights that were caught, and from what they weigh."""
    given, result = subject.given.free, subject.free
    if not subject.outputs:
        yield "no-context"
        return
    last = subject.last_use
    heads = 0 if last is None else result.weights[last].size(1)
    unused = [subject.more(last, head).max() < TINY for head in range(heads)]
    if any(unused) and not (all(unused) and subject.seen.any()):
        yield "unused-weights"
        return
    if any("values" in text for text in subject.call.given.values()):
        moved = given._replace(values=given.keys.cos()).moved(ALL, "values")
        if subject.change(moved).max() < TINY:
            yield "keys-as-values" if result.uses else "values-ignored"
            return
    moved = given.moved(ALL, "keys")
    pairs = list(zip(result.uses, subject.run(moved).uses, strict=False))
    if pairs and all(gap(one.values, other.values) < TINY for one, other in pairs):
        yield "values-ignored"
    elif last is not None and not subject.is_self:
        still = []
        for one in (given, moved):
            still.append(subject.run(one, freeze=lambda _, one: torch.ones_like(one)).output)
        if subject.differ(*still) > CLOSE:
            yield "bypass"


def returned(subject: Subject) -> Found:
    """The weights that are returned are those that are used, or their mean over heads."""
    for index in subject.shown[:1]:
        if subject.raw(subject.given.free)[0][index].max() <= 0:
            yield "logarithms"
    for given, result in subject.both:
        if result.returned is None or not result.uses or not result.weights:
            continue
        real = subject.real(given)[:, None]
        by = _gap(result.weights, result.returned, real)
        shown = result.returned.masked_fill(~real, 0)
        if by > CLOSE:
            is_other = shown.min() < 0 or gap(shown.sum(-1) + ~real[..., 0], 1) > EXACT
            yield "other-returned" if is_other else "other-weights-returned", by
            return


def _gap(weights: Sequence[Tensor], returned: Tensor, real: Tensor) -> float:
    """Return how far returned weights are from those of a use or of all, or from their mean."""
    gaps = []
    for one in (*weights, torch.cat([*weights], dim=1)):
        for mine in (one, one.mean(1, keepdim=True)):
            if mine.shape == returned.shape:
                gaps.append(gap(mine.masked_fill(~real, 0), returned.masked_fill(~real, 0)))
    return min(gaps, default=0.0)
