"""What a score costs: parameters, arithmetic, memory. The tests compare these formulas with real models.

B sequences, L queries each, S keys, width D for queries and keys; a multiplication and an addition are two operations,
and a square root, exponential, tanh or division counts as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seq2attn.errors import Seq2AttnError


@dataclass(frozen=True)
class Sizes:
    """The sizes that costs depend on."""

    batch: int
    """B"""
    source: int
    """S"""
    target: int
    """L"""
    hidden: int
    """D"""
    embedding: int
    """E"""
    vocabulary: int
    """V"""
    element: int = 4
    """bytes of a number: 4 in float32"""


@dataclass(frozen=True)
class Formula:
    """The counts of one score. `scoring` and `projecting` are operations, `hidden` and `projected` numbers stored."""

    parameters: Callable[[Sizes], int]
    scoring: Callable[[Sizes], int]
    """for one query against S projected keys"""
    projecting: Callable[[Sizes], int]
    """for the keys, and values, of one sequence"""
    projected: Callable[[Sizes], int]
    """numbers stored for the projected keys of one sequence; 0 if keys are not projected"""
    hidden: Callable[[Sizes], int]
    """numbers in the hidden layer, for one query"""


def _dot(n: Sizes) -> int:
    return 2 * n.source * n.hidden


def _linear(n: Sizes) -> int:
    return 2 * n.source * n.hidden**2


def _keys(n: Sizes) -> int:
    return n.source * n.hidden


def _nothing(_: Sizes) -> int:
    return 0


FORMULAS: dict[str, Formula] = {
    "dot": Formula(_nothing, _dot, _nothing, _nothing, _nothing),
    "scaled": Formula(_nothing, _dot, _keys, _keys, _nothing),
    "general": Formula(lambda n: n.hidden**2, _dot, _linear, _keys, _nothing),
    "scaled_general": Formula(lambda n: n.hidden**2, _dot, lambda n: _linear(n) + _keys(n), _keys, _nothing),
    "additive": Formula(
        lambda n: 2 * n.hidden**2 + n.hidden,
        # W_s s once a query; then for each key D additions, D tanh, and the product with v
        lambda n: 2 * n.hidden**2 + 4 * n.source * n.hidden,
        _linear,
        _keys,
        _keys,
    ),
    "cosine": Formula(
        lambda n: 1,
        # of the query 2D for its square, a root and D divisions; exp(b) and a multiplication of each score
        lambda n: _dot(n) + 3 * n.hidden + 1 + 1 + n.source,
        lambda n: n.source * (3 * n.hidden + 1),
        _keys,
        _nothing,
    ),
    "key_value": Formula(
        lambda n: 3 * n.hidden**2,
        _dot,
        lambda n: 3 * _linear(n) + _keys(n),  # W_k h, scaled, and W_q^T of it; W_v h
        lambda n: 2 * _keys(n),
        _nothing,
    ),
}


@dataclass(frozen=True)
class CostRow:
    """One score at the given sizes."""

    score: str
    total_parameters: int
    attention_parameters: int
    flops_scoring: int
    """operations to score one query against S keys"""
    flops_projecting: int
    """operations to project the keys of a sequence, spread over its L queries"""
    flops_rest: int
    """softmax and context of one query: the same for every score"""
    flops_query: int
    """all three"""
    bytes_at_once: int
    """projected keys, hidden layer, scores and weights, when all L queries of the batch are scored at once"""
    bytes_by_step: int
    """the same when one query of each sequence is scored at a time"""


@dataclass(frozen=True)
class Costs:
    """Costs by score."""

    sizes: Sizes
    rows: tuple[CostRow, ...]


def score_costs(scores: Sequence[str], sizes: Sizes) -> Costs:
    """Parameters, operations and bytes of each score, by formula."""
    missing = [name for name in scores if name not in FORMULAS]
    if missing:
        raise Seq2AttnError(f"no cost formula for {', '.join(missing)}; available: {', '.join(FORMULAS)}")
    return Costs(sizes, tuple(_row(name, sizes) for name in scores))


def reverser_parameters(n: Sizes) -> int:
    """Parameters of the Reverser without attention: GRU, unidirectional encoder, initial state without parameters,
    arrangement `bahdanau`, contexts of width D.

    Two embeddings V E; an encoder GRU 3D (E + D + 2) and a decoder GRU 3D (E + D + D + 2), each with two bias vectors; an
    output layer V (2D + 1).
    """
    embeddings = 2 * n.vocabulary * n.embedding
    encoder = 3 * n.hidden * (n.embedding + n.hidden + 2)
    decoder = 3 * n.hidden * (n.embedding + 2 * n.hidden + 2)
    return embeddings + encoder + decoder + n.vocabulary * (2 * n.hidden + 1)


def _row(name: str, n: Sizes) -> CostRow:
    formula = FORMULAS[name]
    scoring = formula.scoring(n)
    projecting = round(formula.projecting(n) / n.target)
    rest = 4 * n.source + _dot(n)  # softmax: subtract, exponential, sum, divide; context: S products of D
    scores_and_weights = 2 * n.target * n.source  # numbers a sequence
    kept = formula.projected(n) + scores_and_weights
    return CostRow(
        score=name,
        total_parameters=reverser_parameters(n) + formula.parameters(n),
        attention_parameters=formula.parameters(n),
        flops_scoring=scoring,
        flops_projecting=projecting,
        flops_rest=rest,
        flops_query=scoring + projecting + rest,
        bytes_at_once=n.batch * n.element * (kept + n.target * formula.hidden(n)),
        bytes_by_step=n.batch * n.element * (kept + formula.hidden(n)),
    )
