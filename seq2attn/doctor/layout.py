"""What a few calls show of an attention: whether it attends to itself, what it returns, the order
of rows, heads and queries in its weights, and which embeddings look up the ids that it is given.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from seq2attn.doctor.call import B, order_of, settle
from seq2attn.doctor.forms import embeddings_of
from seq2attn.doctor.subject import ALL, CLOSE, TINY, Subject


def observed(subject: Subject) -> Subject:
    """Return a subject with what a few calls show: whether it attends to itself (`is_self`), which
    of the returned tensors are weights (`weight_indices`) and which are outputs (`output_indices`),
    and the layout of the weights that are used (`orders`).

    Weights have an axis of length S, that of the keys; in self-attention, where L = S, two of them.
    Outputs are other tensors with an axis of the batch, but for: the keys themselves; if a query is
    given, what has an axis of keys, beside returned weights, unless there are as many queries;
    beside weights, what follows no key and does not begin with the batch; what has two axes, beside
    what has more; and of several queries, what has no row for each, beside what has one. Of several
    outputs with a row for each query, only the first counts if there are as many queries given as
    keys.
    """
    inputs, length = subject.inputs.unpadded, subject.length
    returned, _ = subject.results_and_watch(inputs)
    # keys are given as (B, D, S)
    is_channels = any("keys.mT" in text for text in subject.call.expressions.values())
    is_self = inputs.query is None and _is_for_each_key(returned, length, is_channels)
    subject = replace(subject, is_self=is_self)
    queries = subject.queries(inputs)
    outputs, shown = [], []
    for index, tensor in enumerate(returned):
        if _are_weights(tensor, subject):
            shown.append(index)
        elif B in tensor.shape and not _is_input(subject, index):
            outputs.append(index)
    if shown:  # beside weights, states of a decoder, (layers, B, D), follow no key
        pairs = zip(returned, subject.results(inputs.changed_at(ALL, "keys")), strict=True)
        may_be = [len(one) == B or not torch.equal(one, other) for one, other in pairs]
        outputs = [index for index in outputs if may_be[index]]
    # beside weights, what has an axis of keys may be projected keys, unless queries are as many
    if shown and inputs.query is not None and queries != length:
        outputs = [index for index in outputs if length not in returned[index].shape]
    # (B, L) may be weights of the keys, (B, S), where there are as many queries as keys
    outputs = [index for index in outputs if returned[index].dim() > 2] or outputs
    by_query = [index for index in outputs if queries in returned[index].shape]
    if queries > 1 and by_query:  # the others may be states
        # with as many queries as keys, later ones may rather have a row for each key
        outputs = by_query[:1] if inputs.query is not None and queries == length else by_query
    shown.sort(key=lambda index: returned[index].numel())  # means over heads before single heads
    subject = replace(subject, output_indices=outputs, weight_indices=shown)
    return replace(subject, orders=_orders(subject))


def _are_weights(tensor: Tensor, subject: Subject) -> bool:
    """Return whether a returned tensor has the axes of weights: keys, and queries, unless there is
    only one; and, with the axis of the batch, a whole number of heads.
    """
    inputs, length, sizes = subject.inputs, subject.length, list(tensor.shape)
    queries = subject.queries(inputs)
    # in self-attention, one axis is that of the queries
    has_keys = length in sizes and (not subject.is_self or sizes.count(length) > 1)
    if queries not in sizes:
        # of a single query; but with an axis of features, a multiple of the width of the keys, the
        # result is what keys became, as in blocks in which keys also attend to the query
        has_keys &= queries == 1 and all(size % inputs.keys.size(2) for size in sizes)
    has_whole_heads = tensor.numel() % (B * queries * length) == 0
    return has_keys and has_whole_heads


def _is_input(subject: Subject, index: int) -> bool:
    """Return whether a result is the keys themselves, as of a memory of the last segment: small
    keys, too, as large ones may attend to themselves alone.
    """
    for inputs in (subject.inputs.unpadded, subject.draw_small().unpadded):
        tensor = subject.results(inputs)[index]
        if not torch.equal(settle(tensor, *inputs.keys.shape[:2]), inputs.keys):
            return False
    return True


def _is_for_each_key(returned: Sequence[Tensor], length: int, is_channels: bool) -> bool:
    """Return whether the first result is one for each key, (B, S, F) or (S, B, F), or (B, F, S) if
    keys are given so (`is_channels`); what is pooled may follow.
    """
    shapes = [one.shape for one in returned if B in one.shape]
    if not shapes or shapes[0].numel() <= B * length:
        return False
    return length in (shapes[0][1:] if is_channels else shapes[0][:-1])


def _orders(subject: Subject) -> list[str]:
    """Return for each use the order of rows of the batch, heads and queries in its weights (N, S),
    such as "bhl" (see `order_of`), from what changes in them with the first row of the batch, and
    with the last query of each row. Raises `ValueError` if these changes change how many uses there
    are.

    The order is "" for what was caught but is not weights: its N is no product of these; or it is
    features of keys, which linear attention sums over the keys for all queries at once. No query
    changes features, and a change of one row of them reaches the output of several queries.
    """
    inputs = subject.inputs.unpadded
    place = subject.queries(inputs) - 1  # the last query: no earlier row of causal queries sees it
    first_row = inputs.changed_at(0, "query", "keys")
    one_query = inputs.changed_at((ALL, place), "keys" if subject.is_self else "query")
    calls = [subject.results_and_watch(one)[1].uses for one in (inputs, first_row, one_query)]
    orders, ignore_query = [], []  # of each use
    for uses in zip(*calls, strict=True):  # of the three calls, the same use
        plain, other_row, other_query = (use.weights for use in uses)
        changed = plain != other_query  # (N, S)
        follows = changed.any(1)  # (N,) the rows of weights that follow the changed query
        if subject.is_self:
            # the changed query is a key of all other queries, so their weights change, too; but the
            # ratio of two other keys' weights, here of the first two, changes for its own row alone
            ratio, other = (weights[:, 0] / weights[:, 1] for weights in (plain, other_query))
            follows &= (ratio / other - 1).abs() > CLOSE
            changed[:, place] = False  # the weight of a key that changed shows no query
        by_row = (plain != other_row).any(1)
        orders.append(order_of(by_row, follows, place, subject.queries(inputs)))
        ignore_query.append(not changed.any())
    arranged = replace(subject, orders=[*orders])  # as if all were weights
    for index, order in enumerate(orders):
        if order and ignore_query[index]:
            # (L,) rows of the output that one row of what was caught reaches
            reached = arranged.effect_of_weights(index).amax(0) > TINY
            if reached.sum() > 1:
                orders[index] = ""
    return orders


def given_ids(subject: Subject) -> dict[str, int]:
    """Return the names of the embeddings that are given ids of the call, which are beyond all that
    embeddings know, each with how many more another one knows. Raises `ValueError` without any.
    """
    given: set[nn.Embedding] = set()

    def note(part: nn.Module, arguments: Any) -> Any:
        """Note an embedding that is given ids of the call, and give it others that it knows."""
        if isinstance(part, nn.Embedding) and arguments[0].max() >= part.num_embeddings:
            given.add(part)
            return arguments[0].clamp(max=part.num_embeddings - 1)
        return None

    with register_module_forward_pre_hook(note):
        subject.results(subject.inputs.unpadded)
    if not given:
        raise ValueError("no embedding is given ids")
    most = max(part.num_embeddings for part in embeddings_of(subject.module))
    parts = subject.module.named_modules()
    return {name: most - part.num_embeddings for name, part in parts if part in given}
