"""Finds by what the products of queries and keys are multiplied before a softmax.

q and k are a query and a key of one head. B counts rows of the batch, H heads, L queries, S keys, D
the width of q and k. N stands for B, H and L in some order. A rule yields the code of each finding,
with what the finding's text shows.
"""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from seq2attn.doctor.call import B, arrange, orders_of
from seq2attn.doctor.catch import Watch
from seq2attn.doctor.scores import factor_of
from seq2attn.doctor.subject import CLOSE, Subject, gap
from seq2attn.findings.engine import Found

EVEN = 1e-3  # by which norms of normalised keys may differ


def products(watch: Watch) -> list[tuple[Tensor, Tensor]]:
    """Return each q · k (N, S) of a watched call, as if q and k had not been multiplied by numbers
    before, with its keys (..., S, D): all matrix products whose rows are as long as there are keys.
    A product with a parameter, as in a linear layer, is nan, which matches no weights.
    """
    found = []
    for left, right, factor in watch.products:
        product = left @ right / factor
        # either operand may be the keys, in q @ k.mT as in k @ q.mT
        for rows, keys in ((product, right.mT), (product.mT, left)):
            if rows.size(-1) == watch.length:
                found.append((rows.reshape(-1, watch.length), keys))
    return found


def shared(subject: Subject) -> Found:
    """Heads that share keys, as in grouped-query attention, share values, too. It is a mistake if
    as many pairs of heads share values as share keys, but other pairs.

    Which product of queries and keys belongs to which use of weights and values is not known, so
    each is compared with each; with another number of pairs, it belongs to another use.
    """
    for use, (_, keys) in itertools.product(
        subject.unmasked.uses, products(subject.unmasked.watch)
    ):
        of_keys, of_values = map(_alike, (keys, use.values))  # pairs of heads, (N, N)
        if of_keys.sum() == of_values.sum() and not torch.equal(of_keys, of_values):
            yield "heads-crossed"
            return


def normalised(subject: Subject) -> Found:
    """Keys are normalised over their features, if at all, and not over the heads."""
    for _, keys in products(subject.unmasked.watch):
        # not (B H, S, D), or with one head alone
        if keys.dim() != 3 or len(keys) % B or len(keys) == B:
            continue
        # (B, H, S, D): rows of the batch may come before heads, or heads before rows
        for heads in (keys.unflatten(0, (B, -1)), keys.unflatten(0, (-1, B)).transpose(0, 1)):
            squares = heads.square().sum(1)  # (B, S, D), all equal after a norm over the heads
            # but if the keys themselves are all equal, they are even weights that multiply values.
            # `gap` is the largest difference
            if gap(squares / squares.mean(), 1) < CLOSE < gap(heads / heads.mean(), 1):
                yield "heads-normalised"
                return


def _alike(heads: Tensor) -> Tensor:
    """Return (N, N) which heads hold the same numbers, N counting heads of all rows of the batch.

    heads: (N, S, D).
    """
    return (heads[:, None] == heads).flatten(2).all(2)


def scales(subject: Subject) -> Iterator[tuple[float, int, int, bool]]:
    """Yield, for each use of weights (B, H, L, S), the factor of q · k before its softmax, the
    width of q and k, the number of heads, and whether keys are normalised: then any factor may be
    right. A use whose weights follow from no recorded product is left out.

    The logarithms of the weights of a call without padding (`unmasked`) are compared with the
    products that were recorded. Removed from both is what the softmax takes away, a number for each
    query, and what is added at each place alike in all rows of the batch, such as a position bias.
    """
    queries, recorded = subject.queries(subject.inputs), products(subject.unmasked.watch)
    for weights in subject.unmasked.weights:
        seen = (weights > 0).all(0)  # (H, L, S) keys with weight in all rows of the batch
        logs = _without_offsets(weights.log(), seen)
        # which of the products were the scores, and in which order, is not known: all are tried
        for (scores, keys), order in itertools.product(recorded, orders_of(weights.size(1))):
            if scores.numel() != weights.numel():
                continue
            product = arrange(scores, order, B, queries)  # (B, H, L, S), if this is the order
            if product.shape != weights.shape:
                continue
            if factor := factor_of(_without_offsets(product, seen), logs):  # None: no factor fits
                norms = keys.norm(dim=-1)
                is_normed = gap(norms / norms.mean(), 1) < EVEN
                yield factor, keys.size(-1), weights.size(1), is_normed
                break


def _without_offsets(numbers: Tensor, seen: Tensor) -> Tensor:
    """Return numbers (B, H, L, S) as (B H, L, S), less their mean over the rows of the batch, and
    then less that over the keys that are seen; 0 for keys that are not.

    seen: (H, L, S).
    """
    numbers = numbers.double().masked_fill(~seen, 0)
    numbers = numbers - numbers.mean(0)
    means = numbers.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return ((numbers - means) * seen).flatten(0, 1)
