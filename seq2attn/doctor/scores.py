"""Compares scores with a score function, up to what a softmax shows: a number that is added to all
scores of a query changes no weight.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2attn.errors import Seq2AttnError
from seq2attn.model.scores import Score
from seq2attn.parts import SCORES

B, L, S = 8, 2, 5  # rows, queries and keys of a sample
WIDTHS = (8, 12)  # of queries and keys, where they may differ
TOLERANCE = 2e-3  # relative
MATCHES = 1000  # ways to assign parameters that are tried
FUNCTIONS = {name: getattr(torch, name) for name in ("exp", "log", "sqrt", "tanh", "relu")}
"""of a formula, with dot(a, b) and norm(a)"""
REPLACED = (
    ("tanh", Tensor.clone, "the tanh is missing"),
    ("tanh", torch.relu, "a relu stands in place of the tanh"),
    ("tanh", torch.sigmoid, "a sigmoid stands in place of the tanh"),
    ("normalize", Tensor.clone, "vectors are not divided by their lengths"),
)
"""mistakes: a function of the formula, what stands in its place, and how to say it"""
FACTORS = {
    0.5: "a division by sqrt(D), D = {D}, is missing",
    1: "a division by D = {D} is missing, or a sum stands in place of a mean",
    -0.5: "divided by D = {D} in place of sqrt(D), or once too often by sqrt(D), or a mean",
    -1: "a mean over D = {D} components in place of their sum, or a division by D",
}
"""mistakes: a power of D that is a factor too much"""


class Difference(NamedTuple):
    """How scores differ from the expected ones; `code` is empty if no softmax shows it."""

    code: str
    text: str


class Sample(NamedTuple):
    """Queries, keys, and how a module scores them."""

    query: Tensor
    """(B, L, Dq)"""
    keys: Tensor
    """(B, S, Dk)"""
    scores: Tensor
    """(B, L, S), but for a mistake"""
    parameters: Sequence[Tensor] = ()
    """those of the module"""

    @property
    def widths(self) -> list[int]:
        """Dq and Dk"""
        return [self.query.size(2), self.keys.size(2)]


def compare_score(name: str, expected: str) -> Difference:
    """Compare the registered score `name`, with its default options and without biases, with
    `expected`: another one, or a formula such as `-norm(s - h)**2`.
    """
    query_width, key_width = WIDTHS
    if not is_name(expected) or SCORES.get(name).equal_widths or SCORES.get(expected).equal_widths:
        query_width = key_width
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        query, keys = torch.randn(B, L, query_width), torch.randn(B, S, key_width)
        score = SCORES.make(SCORES.choose(name), query_width, key_width)
        clear_biases(score)
        scores = score(query, score.project(keys))
        return compare(Sample(query, keys, scores, list(score.parameters())), expected)


def clear_biases(module: nn.Module) -> None:
    """Set biases to 0, as formulas of scores usually leave them out."""
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()


def compare(sample: Sample, expected: str) -> Difference:
    """Say how the scores of a sample differ from `expected`, the name of a score or a formula."""
    query, keys, scores, _ = sample
    shape = (len(query), query.size(1), keys.size(1))
    if scores.mT.shape == shape:
        return Difference("transposed", "the scores are (B, S, L), not (B, L, S)")
    if _is_constant(scores, 2):
        return Difference("constant", "all keys have the same score: the query or the keys cancel")
    differences = []
    for score in _expected(expected, sample):
        for order, (code, text, mistaken) in enumerate(_mistakes(score, query, keys)):
            factor = _factor(mistaken, scores)
            if factor is not None:
                differences.append((order, _explained(code, text, factor, score, sample.widths)))
    if differences:
        return min(differences)[1]
    if scores.shape != shape:
        return Difference("shape", f"the scores are {tuple(scores.shape)}, not (B, L, S) = {shape}")
    if _is_constant(scores, 1):
        return Difference("query-ignored", "all queries have the same scores: the query is ignored")
    found = match(sample)
    return Difference("other", f"it is {found.name if found else 'another function'}")


class Match(NamedTuple):
    """The score that gives the scores of a sample."""

    name: str
    """with its factor"""
    mistake: str
    """what its factor tells of a product without parameters"""


def match(sample: Sample) -> Match | None:
    """Return the score that comes with seq2attn and gives the scores of a sample; None if none
    does.
    """
    matches = []
    for entry in SCORES:
        is_ours = isinstance(entry.implementation, str)
        for score in _expected(entry.name, sample) if is_ours else ():
            factor = _factor(score(sample.query, score.project(sample.keys)), sample.scores)
            if factor is not None:
                is_usual = abs(abs(factor) - 1) < TOLERANCE
                text = _explained("", "", factor, score, sample.widths).text
                is_mistake = entry.equal_widths and (factor < 0 or ": " in text)
                name = entry.name if f"{factor:.4g}" == "1" else f"{factor:.4g} * {entry.name}"
                matches.append((not is_usual, Match(name, text if is_mistake else "")))
    return min(matches)[1] if matches else None


# ---- the expected scores ----


def is_name(expected: str) -> bool:
    """Return False for a formula. Raises `Seq2AttnError` for the name of no score."""
    if not expected.isidentifier():
        return False
    if SCORES.load(expected) is None:
        raise Seq2AttnError(f"--expect {expected}: it has no scores")
    return True


class Formula(Score):
    """A score written as an expression of s and h."""

    def __init__(self, expression: str, width: int) -> None:
        super().__init__(width, width)
        self.expression = expression

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        names: dict[str, Any] = {
            **FUNCTIONS,
            "s": query.unsqueeze(2),  # (B, L, 1, D)
            "h": keys.unsqueeze(1),  # (B, 1, S, D)
            "D": torch.tensor(float(keys.size(2))),
            "dot": lambda left, right: (left * right).sum(3),
            "norm": lambda vector: vector.norm(dim=3),
        }
        try:
            scores: Tensor = eval(self.expression, {"__builtins__": {}}, names)
            return scores.expand(len(query), query.size(1), keys.size(1))
        except Exception as error:
            raise Seq2AttnError(
                f"--expect {self.expression!r}: {error}",
                hint="Name a score, or write a formula of the query s, a key h and their width D, "
                f"with dot(a, b), norm(a), {', '.join(FUNCTIONS)}: 'dot(s, h) / sqrt(D)'",
            ) from error


def _expected(expected: str, sample: Sample) -> Iterator[Score]:
    """Yield the expected score with the parameters of the sample, in every way in which their
    shapes allow it.
    """
    widths = sample.widths
    if not is_name(expected):
        yield Formula(expected, widths[1])
        return
    entry = SCORES.get(expected)
    if entry.equal_widths and widths[0] != widths[1]:
        return
    pieces = list(_pieces(sample.parameters, widths))
    fields = entry.options.model_fields.items()
    sizes = [name for name, field in fields if "int" in str(field.annotation)]
    for size in {None, *(piece.size(0) for piece in pieces if sizes)}:
        options = dict.fromkeys(sizes, size) if size else {}
        score = SCORES.make(SCORES.choose(expected, **options), *widths)
        choices = []
        for parameter in score.parameters():
            fitting = [piece for piece in pieces if piece.shape == parameter.shape]
            choices.append(fitting or [parameter.clone()])
        for values in islice(product(*choices), MATCHES):
            for parameter, value in zip(score.parameters(), values, strict=True):
                parameter.copy_(value)
            yield score


def _pieces(parameters: Iterable[Tensor], widths: list[int]) -> Iterator[Tensor]:
    """Yield each parameter as a matrix, and the parts of a matrix that maps [s; h], also
    transposed.
    """
    for parameter in parameters:
        matrix = parameter.squeeze()
        if matrix.dim() < 2:
            matrix = matrix.reshape(1, -1)
        parts = [matrix]
        if matrix.size(-1) == sum(widths):
            parts += torch.split_with_sizes(matrix, widths, -1)
            parts += torch.split_with_sizes(matrix, widths[::-1], -1)
        if matrix.size(0) == 3 * matrix.size(1):  # of nn.MultiheadAttention
            parts += matrix.chunk(3)
        for part in parts:
            yield from (part, part.mT)


# ---- mistakes ----


class _Replaced(TorchFunctionMode):
    """Computes with another function in place of the one called `name`."""

    def __init__(self, name: str, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.name, self.function = name, function

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.function(args[0]) if func.__name__ == self.name else func(*args, **kwargs or {})


def _mistakes(score: Score, query: Tensor, keys: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the right scores, and those of usual mistakes: a code, its meaning, the scores."""
    scores = score(query, score.project(keys))
    yield "", "", scores
    for name, function, text in REPLACED:
        with _Replaced(name, function):
            yield name, text, score(query, score.project(keys))
    if query.size(2) == keys.size(2):
        pairs = score(keys, score.project(keys))  # (B, S, S)
        yield "keys-twice", "the keys stand in the query's place", pairs
        itself = pairs.diagonal(dim1=1, dim2=2).unsqueeze(1)  # (B, 1, S)
        yield "keys-twice", "each key is compared with itself, not with the query", itself
    yield "root", "a square root is missing, or a square is too much", scores * scores.abs()
    root = scores.sign() * scores.abs().sqrt()
    yield "square", "a square is missing, or a square root is too much", root


def _explained(code: str, text: str, factor: float, score: Score, widths: list[int]) -> Difference:
    """Return a mistake together with the meaning of a factor."""
    texts, size = [text] if text else [], abs(factor)
    if factor < 0:
        code = code or "sign"
        texts.append("the sign is wrong")
    has_scale = any(parameter.dim() == 0 for parameter in score.parameters())
    if abs(size - 1) > TOLERANCE and not has_scale:
        code = code or "factor"
        meanings = [
            f": {text.format(D=width)}"
            for width in widths
            for power, text in FACTORS.items()
            if abs(size / width**power - 1) < TOLERANCE
        ]
        texts.append(f"it is {size:.4g} times the expected score{''.join(meanings[:1])}")
    return Difference(code, "; ".join(texts))


def _factor(expected: Tensor, scores: Tensor) -> float | None:
    """Return the factor by which scores (B, L, S) differ from the expected ones; None if they
    differ otherwise.
    """
    try:
        x = _centred(expected.expand_as(scores))
    except RuntimeError:  # another shape
        return None
    y = _centred(scores)
    factor = (x * y).sum() / (x * x).sum()
    is_same = (y - factor * x).norm() < TOLERANCE * y.norm()
    return float(factor) if is_same else None


def _centred(scores: Tensor) -> Tensor:
    return scores.double() - scores.double().mean(dim=2, keepdim=True)


def _is_constant(scores: Tensor, dim: int) -> bool:
    """Return True if scores (B, L, S) differ by a constant only, along queries or along keys."""
    centred = _centred(scores)
    return bool((centred - centred.narrow(dim, 0, 1)).abs().max() < 1e-5)
