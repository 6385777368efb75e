"""Compares scores with a score function, up to what a softmax shows: a number that is added to all
scores of a query changes no weight. A "score" is a module that computes scores, as registered parts
do, or a formula.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError, did_you_mean, quoted
from seq2attn.findings.engine import TEXTS

TOLERANCE = 2e-3  # relative
ALIKE = 1e-5  # scores that differ by less are equal
SMALL = 0.01  # so small that tanh(x) = x
MATCHES = 200  # ways to assign parameters that are tried
DIFFERENCES = TEXTS["differences"]
FACTORS = TEXTS["factors"]
"""what a factor means that is a power of the width"""
HINT = (
    "Name a score, or write a formula of the query s, a key h and their width D, with dot(a, b), "
    "norm(a) and sqrt(a): 'dot(s, h) / sqrt(D)'"
)


class Sample(NamedTuple):
    """Queries, keys, and how a module scores them."""

    query: Tensor
    """(B, L, Dq)"""
    keys: Tensor
    """(B, S, Dk)"""
    scores: Tensor
    """(B, L, S); (B, S, L) or (B, S, S) by mistake"""
    parameters: Sequence[Tensor]
    """those of the module"""


def clear_biases(module: nn.Module) -> None:
    """Set biases of a module to 0, as formulas of scores usually leave them out."""
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()


class Fit(NamedTuple):
    """A score, or a mistake in it, that gives the scores of a sample."""

    order: int
    """0 for the score itself, more for mistakes that are less usual"""
    code: str
    """of the mistake, or the empty string"""
    text: str
    """what is wrong, in words, or the empty string"""
    factor: float
    """by which the scores of the sample are larger"""


@torch.no_grad()
def compare(sample: Sample, expected: str, known: Sequence[Any]) -> tuple[str, str]:
    """Say how the scores of a sample differ from `expected`, the name of a known score or a
    formula: a code, and a sentence. Both are empty if the weights after a softmax are the same.
    Raises `Seq2AttnError` if the name is not known, or the formula cannot be computed.

    known: objects with `name`, `equal_widths` (it needs keys as wide as queries), `is_built_in` (it
    may be named), `sizes` (its numbers of components, if any) and `make(query_width, key_width,
    size)`: a module whose scores are `score(query, score.project(keys))`, or None.
    """
    centred = _centred(sample.scores)
    if centred.abs().max() < ALIKE:  # all keys of a query have the same score
        return "constant", DIFFERENCES["constant"]
    fits: list[Fit] = []  # the expected score, or usual mistakes in it, that give these scores
    for score in _expected(expected, sample, known):
        fits += _fits(score, sample, mistaken=True)
    if fits:
        best = min(fits)  # the one of the lowest order
        return best.code, best.text
    if (centred - centred[:, :1]).abs().max() < ALIKE:  # all queries have the same scores
        return "query-ignored", DIFFERENCES["query-ignored"]
    return "other", f"it is {match(sample, known)[1]}"


def match(sample: Sample, known: Sequence[Any]) -> tuple[str, str, str]:
    """Find the built-in score that gives the scores of a sample: return the code of a finding, its
    name, with the factor that it is multiplied by, and what the factor means. The code is `score`
    if no factor is needed, then with no meaning; `score-mistake` if the factor is below 0 or a
    power of the width, and the score needs keys as wide as queries; otherwise `score-factor`; and
    `score-unknown`, with the reason in place of the meaning, if no built-in score fits.

    known: see `compare`.
    """
    unknown = "it has other layers, or depends on positions"
    # how long an explanation is, the code, the name and the explanation: the shortest one counts
    matches = [(torch.inf, "score-unknown", "another function", unknown)]
    for entry in known:
        for score in _made(entry, sample) if entry.is_built_in else ():
            for fit in _fits(score, sample, mistaken=False):
                if not fit.text:  # without a factor
                    return "score", entry.name, ""
                is_explained = ": " in fit.text  # the factor is a power of the width
                is_mistake = entry.equal_widths and (fit.factor < 0 or is_explained)
                code = "score-mistake" if is_mistake else "score-factor"
                matches.append((len(fit.text), code, f"{fit.factor:.4g} * {entry.name}", fit.text))
    return min(matches)[1:]


def _fits(score: Any, sample: Sample, *, mistaken: bool) -> Iterator[Fit]:
    """Yield how a score gives the scores of a sample, up to a factor: as it is, or with one of the
    usual mistakes. mistaken: whether these are tried.
    """
    tried = islice(_variants(score, sample), None if mistaken else 1)  # the first has no mistake
    for order, (code, scores) in enumerate(tried):
        factor = factor_of(scores, sample.scores)
        if factor is not None:
            if any(parameter.dim() == 0 for parameter in score.parameters()):
                # the score learns a factor of its own: only the sign can be wrong
                factor = math.copysign(1.0, factor)
            yield Fit(order, *_explained(code, factor, sample.keys.size(2)), factor)


# ---- the expected scores ----


class Formula(nn.Module):
    """A score written as an expression of s and h."""

    def __init__(self, expression: str) -> None:
        super().__init__()
        self.expression = expression

    def project(self, keys: Tensor) -> Tensor:
        """Return the keys: a formula has no parameters."""
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (B, L, S) of queries (B, L, D) and keys (B, S, D). Raises
        `Seq2AttnError` if the expression fails or has another shape.
        """
        names: dict[str, Any] = {
            "s": query.unsqueeze(2),  # (B, L, 1, D)
            "h": keys.unsqueeze(1),  # (B, 1, S, D)
            "D": torch.tensor(float(keys.size(2))),
            "sqrt": torch.sqrt,
            "dot": lambda left, right: (left * right).sum(3),
            "norm": lambda vector: vector.norm(dim=3),
        }
        try:
            scores: Tensor = eval(self.expression, {"__builtins__": {}}, names)
            return scores.expand(*query.shape[:2], keys.size(1))
        except Exception as error:
            raise Seq2AttnError(f"--expect {self.expression!r}: {error}", hint=HINT) from error


def _expected(expected: str, sample: Sample, known: Sequence[Any]) -> Iterator[Any]:
    """Yield the score of a formula, or those of a name: one for each way to give the score of this
    name the parameters of the sample. Raises `Seq2AttnError` if the name is not known.
    """
    if not expected.isidentifier():  # a formula
        yield Formula(expected)
        return
    entries = {entry.name: entry for entry in known}
    if expected not in entries:
        guess = did_you_mean(expected, entries)
        names = ", ".join(entries)
        raise Seq2AttnError(
            f"--expect: no score {quoted(expected)}; {guess}known: {names}", hint=HINT
        )
    yield from _made(entries[expected], sample)


def _made(entry: Any, sample: Sample) -> Iterator[Any]:
    """Yield a score with the parameters of the sample, in every way that their shapes allow, up to
    MATCHES: the module may call a matrix what it likes, so that only the shape tells which one it
    is. A score with a number of components, such as `additive`, is made with each number that is
    the length of a matrix. Nothing is yielded if the score needs keys as wide as queries, and they
    are not. Raises `Seq2AttnError` if it has no scores.

    The same object is yielded with one assignment of parameters after the other, so a caller uses
    each before it asks for the next. entry: one of the `known` scores of `compare`.
    """
    widths = [sample.query.size(2), sample.keys.size(2)]
    if entry.equal_widths and widths[0] != widths[1]:
        return
    pieces = list(_pieces(sample.parameters, widths))
    sizes = {None, *map(len, pieces)} if entry.sizes else {None}  # None: the default
    for size in sizes:
        score = entry.make(*widths, size)
        if score is None:
            raise Seq2AttnError(f"--expect {entry.name}: it has no scores")
        choices = []
        for parameter in score.parameters():
            fitting = [piece for piece in pieces if piece.shape == parameter.shape]
            choices.append(fitting or [parameter.clone()])  # its first value, if none fits
        for values in islice(product(*choices), MATCHES):
            for parameter, value in zip(score.parameters(), values, strict=True):
                parameter.copy_(value)
            yield score


def _pieces(parameters: Iterable[Tensor], widths: list[int]) -> Iterator[Tensor]:
    """Yield each parameter as a matrix, with the parts of it that may be meant, each of them also
    transposed. A matrix may map a query and a key that are joined, [s; h], and has a part for each;
    or it may map to queries, keys and values at once.

    widths: of queries and of keys.
    """
    of_query, of_keys = widths
    splits = (  # the axis along which a matrix has parts, and their sizes
        (1, [of_query, of_keys]),  # of [s; h]
        (1, [of_keys, of_query]),  # of [h; s]
        (0, [of_query] * 3),  # to queries, keys and values
    )
    for parameter in parameters:
        # its last axis stays, and the others become one; a vector is one row, and so is a number
        matrix = parameter.reshape(-1, (1, *parameter.shape)[-1])
        parts = [matrix]
        for dim, sizes in splits:
            if sum(sizes) == matrix.size(dim):
                parts += torch.split_with_sizes(matrix, sizes, dim)
        for part in parts:
            yield from (part, part.mT)


# ---- mistakes ----


def _variants(score: Any, sample: Sample) -> Iterator[tuple[str, Tensor]]:
    """Yield the right scores (B, L, S) with the empty string, then those of usual mistakes in them
    with the codes of these, more usual ones first. The scores of "root" lack a square root that
    they should have, those of "square" a square, those of "tanh" a tanh; those of "by-query" have a
    factor for each query, as a norm of it.
    """
    query, keys = sample.query, sample.keys
    projected = score.project(keys)
    scores = score(query, projected)
    yield "", scores
    yield "transposed", scores.mT
    # of small numbers, tanh(x) = x: as if it were missing
    yield "tanh", score(SMALL * query, score.project(SMALL * keys)) / SMALL
    yield "root", scores * scores.abs()  # the square, with the sign
    yield "square", scores.sign() * scores.abs().sqrt()
    if query.size(2) == keys.size(2):
        yield "keys-twice", score(keys, projected)  # (B, S, S)
    if scores.shape == sample.scores.shape:
        x, y = _centred(scores), _centred(sample.scores)
        factors = (x * y).sum(2, True) / (x * x).sum(2, True)  # (B, L, 1), by least squares
        yield "by-query", scores * factors


def _explained(code: str, factor: float, width: int) -> tuple[str, str]:
    """Return the code of the first thing that is wrong, and a sentence on all that is, such as "it
    is 4 times the expected score: a division by sqrt(D), D = 16, is missing". Both are empty if
    nothing is: no mistake was tried, and the factor is 1.

    code: of the mistake that was tried; the empty string if none was. factor: of the scores beside
    it. width: that of keys, D.
    """
    size, meaning = abs(factor), ""  # no meaning, unless the factor is a power of the width
    for power, text in FACTORS.items():
        if abs(size / width ** float(power) - 1) < TOLERANCE:
            meaning = text.format(D=width)
    # whether each thing is wrong: not the mistake "", which is none
    holds = {code: code, "sign": factor < 0, "factor": abs(size - 1) > TOLERANCE}
    codes = [name for name in holds if holds[name]]
    texts = [DIFFERENCES[name].format(size=size, meaning=meaning) for name in codes]
    return "".join(codes[:1]), "; ".join(texts)


def factor_of(expected: Tensor, scores: Tensor) -> float | None:
    """Return the factor by which scores (B, L, S) differ from the expected ones, by least squares;
    None if they differ otherwise, beyond a number that is the same for all keys of a query.
    """
    if expected.shape != scores.shape:
        return None
    x, y = _centred(expected), _centred(scores)
    factor = (x * y).sum() / (x * x).sum()
    is_same = (y - factor * x).norm() < TOLERANCE * y.norm()
    return float(factor) if is_same else None


def _centred(scores: Tensor) -> Tensor:
    """Return scores (B, L, S), in double precision, less what a softmax over the keys takes away:
    their mean for each query.
    """
    return scores.double() - scores.double().mean(dim=2, keepdim=True)
