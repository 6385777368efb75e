"""Rules of the weights that were caught: they are shares, the result follows from them, and they
are those that are returned.

A use is a product of weights and values that sums over the keys, caught by a `Watch` while a call
runs. A rule yields the code of each finding, alone or with what the finding's text shows. B counts
rows of the batch, H heads, L queries or rows of the output, S keys; N stands for B, H and L in some
order. Differences of outputs are shares of their largest number; `gap` is the largest difference of
two tensors. CLOSE is what rounding may make of equal results, TINY is less.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from seq2attn.doctor.call import B, Inputs
from seq2attn.doctor.catch import Change, Watch
from seq2attn.doctor.said import docs_of
from seq2attn.doctor.subject import ALL, CLOSE, TINY, Subject, gap
from seq2attn.doctor.words import role_of, words
from seq2attn.findings.engine import Found

OTHERS = ((0,), (1,), (2,), (1, 3), (2, 3), (1, 2, 3))
"""axes of weights (B, H, L, S) over which a softmax may run by mistake"""
WITHOUT_SOFTMAX = {"linear", "retention", "retentive", "galerkin", "delta"}
"""words for attention whose weights are products of query and key"""
ANY_SUM = (
    r"(?i)\b(no|not a|without|(instead|rather|place)\b[^.]*)( a)? softmax"
    r"|(not |un)normali[sz]ed|local activation|divided by the number of"
)
"""words of a docstring on weights that need not sum to 1"""
EXACT = 1e-3  # a sum of weights may differ from 1 by less


def sums(subject: Subject) -> Found:
    """Weights are not below 0, and sum to 1 over the keys, with a mask as without. At most one
    finding is yielded: `axis` with S, if a softmax made every weight 1; or else the likeliest cause
    with the range of the sums (`totals`), by how much they are wrong, and the lowest weight. With a
    mask that is `mask-after-softmax`, if it only sets weights of padding to 0, or `sums-with-mask`;
    without one, `scaled-late`, or what `_cause` says.
    """
    uses, watch = subject.unmasked.uses, subject.unmasked.watch
    # a softmax ran over an axis of length 1, which makes every weight 1: a row sums to S
    if watch.is_over_one and any(gap(use.weights, 1) < EXACT for use in uses):
        yield "axis", subject.length
        return
    for inputs, result in subject.unmasked_and_masked:
        for weights, unmasked in zip(result.weights, subject.unmasked.weights, strict=True):
            totals = weights.sum(-1)  # (B, H, L)
            # a row of zeros is padding's, or attends to nothing on purpose, unless all rows do
            if totals.any() or not inputs.valid.all():
                totals = totals.masked_fill((weights == 0).all(-1), 1)
            by = gap(totals, 1)
            # `by` is infinity if there is NaN, which is another rule's finding
            is_wrong = torch.inf > by > EXACT or weights.min() < -TINY
            if not is_wrong:
                continue
            if inputs.valid.all():
                code = "scaled-late" if _is_divided(subject, totals) else _cause(subject, weights)
            else:
                # the weights are those of no mask, but for 0 on padding
                is_cut = gap(unmasked[weights != 0], weights[weights != 0]) < CLOSE
                code = "mask-after-softmax" if is_cut else "sums-with-mask"
                # where no score is far above the others, what is added to a sum is slight
                of_small = subject.run(subject.draw_small()).weights
                if not is_cut and all(gap(one.sum(-1), 1) < EXACT for one in of_small):
                    yield "underflow", float(totals.min())
                    return
            low, high = f"{totals.min():.3g}", f"{totals.max():.3g}"
            ends = low if low == high else f"{low} to {high}"
            yield code, {"totals": ends, "by": by, "low": float(weights.min())}
            return
    # weights of large keys may be 1 for one key and 0 for others, over whatever axis
    if uses and all((use.weights.amax(-1) > 1 - EXACT).all() for use in uses):
        small = replace(subject, inputs=subject.draw_small())
        if subject.inputs.keys.abs().max() > 1 > small.inputs.keys.abs().max():
            yield from sums(small)


def _is_divided(subject: Subject, totals: Tensor) -> bool:
    """Return whether the sums of weights are all 1 / sqrt(width), of a head or of all: then the
    weights were divided by it, and not the scores.
    """
    widths = {use.values.size(-1) for use in subject.unmasked.uses} | {subject.inputs.keys.size(2)}
    return any(gap(totals * width**0.5, 1) < EXACT for width in widths)


def _cause(subject: Subject, weights: Tensor) -> str:
    """Return the code of the finding that says why weights (B, H, L, S), in a call without a mask,
    are below 0 or do not sum to 1: `axis`, if the softmax ran over another axis than that of the
    keys; `mask-after-softmax`, of a causal mask, say; `negative`; or `sums`, if no cause is found.
    """
    totals = weights.sum(-1).transpose(0, 1).flatten(1)  # (H, B L)
    # by how much sums differ between rows of a head: where a layer mixes the weights of heads, rows
    # may have any sum, but all rows of a head have the same one
    spread = float((totals.amax(1) - totals.amin(1)).max())
    # how far weights are from those of a softmax over other axes than the keys: over one of length
    # 1, all are 1; over others, sums over these are 1, and sums over the keys differ between rows
    others = [gap(weights, 1)]
    for axes in OTHERS:
        # what returns weights alone may be a map of all pairs of a query and a key, whose weights
        # sum to 1 over both
        is_map = axes == (2, 3) and not subject.output_indices
        if spread > EXACT and not is_map and all(weights.size(axis) > 1 for axis in axes):
            others.append(gap(weights.sum(axes), 1))
    if min(others) < EXACT:
        return "axis"
    has_softmax = any(use.has_softmax for use in subject.unmasked.uses)
    # a key without weight that yet changes the result has a part in the sum of the softmax
    if has_softmax and ((weights == 0).all(0).all(0) & subject.seen).any():
        return "mask-after-softmax"
    # weights may rightly be below 0 if a layer mixes those of a softmax, or if none is meant, as in
    # recommenders over ids such as NARM (Li et al. 2017)
    may_be_negative = has_softmax or subject.call.embeddings or _needs_no_softmax(subject)
    is_wrong = weights.min() < -TINY and spread > EXACT and not may_be_negative
    return "negative" if is_wrong and not _are_shares(subject, weights) else "sums"


def _are_shares(subject: Subject, weights: Tensor) -> bool:
    """Return whether weights (B, H, L, S) are divided by the number of keys: half as large if each
    key is given twice.
    """
    twice = subject.inputs.unpadded.each(lambda one: torch.cat([one, one], dim=1))
    with contextlib.suppress(Exception):  # it may take this number of keys alone
        halves = subject.run(twice).weights
        sizes = weights.shape[2:]
        return any(gap(2 * one[:, :, : sizes[0], : sizes[1]], weights) < CLOSE for one in halves)
    return False


def _needs_no_softmax(subject: Subject) -> bool:
    """Return whether the name, the docstring or the class of a part says that weights are not the
    result of a softmax, or need not sum to 1, as in linear attention; or an argument, that a
    softmax has to be asked for.
    """
    names = re.findall(r"\w+", docs_of(subject.call.attention, first=True))
    parts = " ".join(type(part).__name__ for part in subject.module.modules())
    is_local = re.search("LocalActivation|ActivationUnit", parts)  # of Deep Interest Networks
    is_named = words(*names) & WITHOUT_SOFTMAX
    is_asked = any("softmax" in words(name) for name in subject.arguments)
    return bool(is_named or is_local or is_asked or re.search(ANY_SUM, subject.docs))


def used(subject: Subject) -> Found:
    """The result follows from the values that the weights multiply, and these from the keys, or
    from the values where these are given. At most one finding is yielded, such as `no-context` if
    there is no result beside weights, or `bypass` if keys also reach it by another way than the
    weighted average.
    """
    if not subject.output_indices:
        yield "no-context"
        return
    inputs, uses = subject.inputs.unpadded, subject.unmasked.uses
    # with weights, and yet no row follows another place; or no key changes any row
    if (subject.keeps_tokens_apart and subject.unmasked.weights) or not subject.seen.any():
        yield "values-ignored"
        return
    if any("values" in text for text in subject.call.expressions.values()):
        # of inputs without values, the call makes them of the keys, by cos. The same are set here,
        # and then changed, while the keys stay
        given = inputs._replace(values=inputs.keys.cos())
        other_values = given.changed_at(ALL, "values")
        if subject.change_with(other_values).max() < TINY:
            # if weights multiply anything, it follows from the keys alone
            yield "keys-as-values" if uses else "values-ignored"
            return
        by_keys, by_values = (
            max(map(gap, subject.unmasked.weights, subject.run(other).weights), default=0.0)
            for other in (given.changed_at(ALL, "keys"), other_values)
        )
        is_told = any(role_of(name) == "values" for name in subject.call.expressions)
        if by_keys < TINY and by_values > CLOSE and is_told:
            yield "keys-exchanged"
            return
    other_keys = inputs.changed_at(ALL, "keys")
    # not strict, as other keys may lead to another number of uses
    pairs = list(zip(uses, subject.run(other_keys).uses, strict=False))
    if pairs and all(gap(one.values, other.values) < TINY for one, other in pairs):
        yield "values-ignored"
    elif all(subject.orders) and pairs and not subject.is_self and _passes_by(subject):
        yield "bypass"


def _passes_by(subject: Subject) -> bool:
    """Return whether keys change the result while all averages are replaced by ones: then they
    reach it by another way than through the weights and values.
    """
    inputs = subject.inputs.unpadded
    both = (inputs, inputs.changed_at(ALL, "keys"))
    outputs = (subject.run(inputs, freeze=_constant(1)).output for inputs in both)
    return subject.difference(*outputs) > CLOSE


def _constant(number: float) -> Change:
    """Return what `Watch` takes as `freeze`: a function that makes every average this number."""
    return lambda _, average: torch.full_like(average, number)


def residual(subject: Subject) -> Found:
    """In a decoder layer, queries attend to each other before they attend to the keys. If queries
    reach the result by a residual connection, what they got from each other does, too; otherwise
    `residual` is yielded. Nothing is examined where queries do not attend to each other, or where
    they are as many as keys, as then it is not known which of them weights are of.
    """
    inputs = subject.inputs.unpadded
    queries = 0 if inputs.query is None else inputs.query.size(1)
    other_keys = inputs.changed_at(ALL, "keys")
    # the weights of each average over the queries, with these keys and with others; not strict, as
    # these may lead to another number of averages
    pairs = zip(*(subject.averages(queries, one) for one in (inputs, other_keys)), strict=False)
    # if other keys change all of them, it is the keys that attend to the queries
    is_told = 1 < queries != subject.length
    if not is_told or not any(torch.equal(*pair) for pair in pairs):
        return

    def output(inputs: Inputs, among: float, freeze: Change | None = None) -> Tensor:
        """Return the output with averages of queries over each other replaced by the number
        `among`, and averages over the keys as `freeze` says; by default these stay.
        """
        with Watch(queries, queries, subject.constant, freeze=_constant(among)):
            return subject.run(inputs, freeze=freeze).output

    def by_each_other(freeze: Change | None = None) -> float:
        """Return how much the result changes if queries get 2, and not 1, from each other."""
        return subject.difference(output(inputs, 1, freeze), output(inputs, 2, freeze))

    no_keys = _constant(1)  # leaves a residual connection as the only way to the result
    changed = output(inputs.changed_at(ALL, "query"), 1, no_keys)
    is_added = subject.difference(changed, output(inputs, 1, no_keys)) > CLOSE  # queries use it
    # what they got from each other reaches the result, but not by the residual connection
    if is_added and by_each_other(no_keys) < TINY and by_each_other() > CLOSE:
        yield "residual"


def returned(subject: Subject) -> Found:
    """The weights that are returned are those that are used, or their mean over heads, with a mask
    as without. If something else of their shape is returned, that is a fact, `other-returned`, but
    a mistake, `other-weights-returned`, if it is weights. Logarithms of weights are another fact,
    `logarithms`.
    """
    for index in subject.weight_indices[:1]:
        if subject.results(subject.inputs.unpadded)[index].max() <= 0:  # as no weights are
            yield "logarithms"
    for inputs, result in subject.unmasked_and_masked:
        if result.returned is None or not result.uses or not result.weights:
            continue
        if result.watch.is_sorted:  # queries were, and what is returned may be in their old order
            continue
        shown = result.returned
        by = _gap(result.weights, shown)
        if by <= CLOSE:
            continue
        # do they change if all averages are replaced by ones? Then they are made from the averages,
        # by another attention, as those of a pointer are
        later = subject.run(inputs, freeze=_constant(1)).returned
        if later is not None and gap(later, shown) > CLOSE:
            return
        totals = shown.sum(-1)
        are_weights = shown.min() >= 0 and gap(totals[totals != 0], 1) <= EXACT  # 0 is padding's
        yield "other-weights-returned" if are_weights else "other-returned", by
        return


def _gap(weights: Sequence[Tensor], returned: Tensor) -> float:
    """Return the least difference of returned weights (B, H, L, S) from those of a use, from those
    of all uses side by side as heads, or from the mean of either over heads; 0 if none of these has
    their shape.

    weights: of each use, (B, H, L, S).
    """
    gaps = []
    for used in (*weights, torch.cat([*weights], dim=1)):
        for one in (used, used.mean(1, keepdim=True)):
            if one.shape == returned.shape:
                gaps.append(gap(one, returned))
    return min(gaps, default=0.0)


def chosen(subject: Subject) -> Found:
    """If the k keys with the largest scores of a query are chosen, these alone have weights: not
    all keys that a row sees, as where the other scores become 0 (`top-open`), nor fewer than k, as
    where only scores above the k-th are kept (`top-few`).
    """
    kept, sees = subject.unmasked.watch.selected, subject.seen.sum(1)  # (L,)
    # k is 1 where only the largest score is wanted, or one query of self-attention is chosen, and 0
    # where nothing is
    for weights in subject.unmasked.weights if kept > 1 else ():
        counts = (weights > 0).sum(-1)[..., sees > kept]  # (B, H, rows that see more than k keys)
        if counts.numel() and (counts == sees[sees > kept]).all():
            yield "top-open", kept
        elif counts.numel() and counts.max() < kept:
            yield "top-few", kept, int(counts.max())


# ---- heads ----


def shared(subject: Subject) -> Found:
    """Heads that share keys, as in grouped-query attention, share values, too. It is a mistake if
    as many pairs of heads share values as share keys, but other pairs.

    Which product of queries and keys belongs to which use of weights and values is not known, so
    each is compared with each; with another number of pairs, it belongs to another use.
    """
    watch = subject.unmasked.watch
    for use, (_, keys) in product(watch.uses, watch.scores):
        of_keys, of_values = map(_alike, (keys, use.values))  # pairs of heads, (N, N)
        if of_keys.sum() == of_values.sum() and not torch.equal(of_keys, of_values):
            yield "heads-crossed"
            return


def normalised(subject: Subject) -> Found:
    """Keys are normalised over their features, if at all, and not over the heads."""
    for _, keys in subject.unmasked.watch.scores:
        # other shapes than (B H, S, D), and a single head
        if keys.dim() != 3 or len(keys) % B or len(keys) == B:
            continue
        # (B, H, S, D): rows of the batch may come before heads, or heads before rows
        sizes = keys.shape[1:]
        for heads in (keys.reshape(B, -1, *sizes), keys.reshape(-1, B, *sizes).transpose(0, 1)):
            squares = heads.square().sum(1)  # (B, S, D), all equal after a norm over the heads
            # all numbers equal: these are not keys, but even weights, whose product with the values
            # was recorded, too
            if gap(squares / squares.mean(), 1) < CLOSE < gap(heads / heads.mean(), 1):
                yield "heads-normalised"
                return


def _alike(heads: Tensor) -> Tensor:
    """Return (N, N) which heads hold the same numbers, N counting heads of all rows of the batch.

    heads: (N, S, D).
    """
    return (heads[:, None] == heads).flatten(2).all(2)
