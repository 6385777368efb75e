"""What a score costs, by formula: parameters, arithmetic, memory; and how many parameters each part
of a model has. The tests compare the formulas with real models.

B sequences, L queries each, S keys, width D for queries and keys; a multiplication and an addition
are two operations, and a square root, exponential, tanh or division counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from seq2attn.analysis import Analysis
from seq2attn.display.table import Column, Number, Table

if TYPE_CHECKING:
    from torch import nn

BYTES = 4  # of a number in float32
PARTS = {  # patterns of parameter names; the first match counts
    r"encoder\.embedding|source_embedding": "encoder embedding",
    r"encoder\.layers\.\d+\.(backward_)?cell": "encoder cells",
    r"initial_state": "initial state",
    r"decoder\.attention|.*\.(self_attn|multihead_attn)": "attention",
    r"decoder\.embedding|target_embedding": "decoder embedding",
    r"decoder\.cell": "decoder cells",
    r"decoder\.combine": "attentional vector",
    r"(encoder|decoder)(\.\d|_norm)": "feed-forward and norms",
    r"encoder": "other encoder layers",  # of a plug-in's
    r"(decoder\.)?output": "output layer",
    r"": "other parts",  # of a plug-in's
}


class Counts(NamedTuple):
    """The counts of one score."""

    parameters: int
    scoring: int  # operations for one query against S projected keys
    projecting: int = 0  # operations for the keys, and values, of one sequence
    projected: int = 0  # numbers stored for the projected keys of one sequence
    hidden_layer: int = 0  # numbers in it, for one query


def formulas(s: int, d: int) -> dict[str, Counts]:
    """Return the `Counts` of each score that has a formula, by its name: parameters; operations to
    score one query against S keys of width D; operations and numbers stored for the keys of one
    sequence; and of `additive` the numbers in the hidden layer for one query.

    s, d: S and D.
    """
    keys = s * d  # numbers in the keys
    dot = 2 * s * d  # a product of D numbers for each key
    linear = 2 * s * d**2  # a (D, D) matrix times each key
    return {
        "dot": Counts(0, dot),
        # projecting: each number is multiplied once, and the product is stored beside the keys
        "scaled": Counts(0, dot, projecting=keys, projected=keys),
        "general": Counts(d**2, dot, projecting=linear, projected=keys),
        "scaled_general": Counts(d**2, dot, projecting=linear + keys, projected=keys),
        # scoring: the query times W_s; then for each key D additions, D tanh, and a product with v
        "additive": Counts(
            2 * d**2 + d,
            2 * d**2 + 4 * keys,
            projecting=linear,
            projected=keys,
            hidden_layer=keys,
        ),
        # scoring: 2D for the square of the query, a root, and D divisions by it; the strength, an
        # exponential, and a multiplication of each score by it; projecting: the same division of
        # each key by its norm
        "cosine": Counts(1, dot + 3 * d + 2 + s, projecting=s * (3 * d + 1), projected=keys),
        # projecting: each key times W_k, a scale and W_q^T; and times W_v
        "key_value": Counts(3 * d**2, dot, projecting=3 * linear + keys, projected=2 * keys),
    }


def score_costs(
    scores: Sequence[str], batch: int, source: int, target: int, hidden: int
) -> Analysis:
    """Return what each of the scores costs, by formula: parameters; operations for one query of one
    sequence; bytes for the whole batch. Every shipped score but `none` has a formula.

    batch, source, target, hidden: B, S, L and D.

    The columns of the table; an operation is a floating-point operation:

    attention_parameters: those of the score.
    flops_scoring: operations to score one query against S keys.
    flops_projecting: operations to project the keys of a sequence, divided by its L queries.
    flops_query: both, and softmax and context of one query, which are the same for every score.
    bytes_at_once: projected keys, hidden layer, scores and weights, when all L queries of the batch
        are scored at once.
    bytes_by_step: the same when one query of each sequence is scored at a time: the hidden layer is
        then that of one query; the rest is kept.
    """
    known = formulas(source, hidden)
    # for one query: softmax (subtract, exponential, sum, divide) and context (S products of D)
    rest = 4 * source + 2 * source * hidden
    rows = []
    for name in scores:
        counts = known[name]
        # operations for one query: keys are projected once for all L queries, so it has a share
        projecting = round(counts.projecting / target)
        # numbers for a sequence: projected keys, and scores and weights of all its queries
        kept = counts.projected + 2 * target * source
        operations = counts.scoring, projecting, counts.scoring + projecting + rest
        at_once = batch * BYTES * (kept + target * counts.hidden_layer)
        by_step = batch * BYTES * (kept + counts.hidden_layer)
        rows.append([name, counts.parameters, *operations, at_once, by_step])
    sizes = {"batch": batch, "source": source, "target": target, "hidden": hidden}
    columns = [
        Column("score"),
        Number("parameters", key="attention_parameters"),
        # without a heading, only programs see these two
        Column("", key="flops_scoring"),
        Column("", key="flops_projecting"),
        Number("operations per query", key="flops_query"),
        Number("bytes at once"),
        Number("by step", key="bytes_by_step"),
    ]
    return Analysis(sizes, Table(columns, rows))


def parameter_ledger(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters of each part, by its name in `PARTS`, and their `total`.

    Every parameter is in exactly one part. Parts without parameters are left out, except attention.
    """
    counts = dict.fromkeys(PARTS.values(), 0)
    for name, parameter in model.named_parameters():
        label = next(label for pattern, label in PARTS.items() if re.match(pattern, name))
        counts[label] += parameter.numel()
    ledger = {label: count for label, count in counts.items() if count or label == "attention"}
    ledger["total"] = sum(counts.values())
    return ledger
