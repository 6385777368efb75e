"""Examines any attention."""

import contextlib
import inspect
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor import masks, numbers, rows, scale, steps, weights
from seq2attn.doctor.lines import corrections
from seq2attn.doctor.names import instances, module_of
from seq2attn.doctor.search import find_subject, with_width
from seq2attn.doctor.subject import Subject, unchanged
from seq2attn.errors import Seq2AttnError
from seq2attn.findings import engine
from seq2attn.findings.report import LEVELS, Finding, Report

WIDTHS = (48, 32)  # of queries and keys, one after the other, which many numbers of heads divide
NARROW = 3  # sizes of layers that are no widths
HINT = (
    "Name a function attend(query, keys, valid) of shapes (B, L, Dq), (B, S, Dk) and (B, S) that "
    "calls it and returns what it returns."
)
RULES: tuple[engine.Rule, ...] = (
    rows.in_place,
    rows.not_finite,
    rows.state,
    weights.sums,
    rows.one_row,
    rows.batch,
    rows.alone,
    rows.queries,
    rows.rows_mixed,
    scale.shared,
    weights.used,
    numbers.twice,
    masks.told,
    masks.padding,
    weights.returned,
    masks.padding_amount,
    masks.empty_row,
    masks.places,
    masks.named,
    steps.decoding,
    masks.required,
    numbers.length,
    numbers.order,
    numbers.strides,
    numbers.unregistered,
    numbers.gradient,
    numbers.overflow,
    numbers.half,
    numbers.parameters,
    numbers.training,
    numbers.score,
)
"""in the order in which they are made: causes before consequences"""
OF_WIDTH = (rows.not_finite, weights.sums, numbers.score)
"""those that are tried at another width, too"""


def check_attention(
    attention: Any,
    *,
    sizes: Sequence[Any] = (),
    widths: Sequence[int] = (),
    expect: str | None = None,
    require: Sequence[str] = (),
    allow: Collection[str] = (),
    scores: Sequence[Any] = (),
) -> Report:
    """Examine an attention: a module, a class of modules, or a function. Raises `Seq2AttnError` if
    it cannot be made or called.

    It is called as the names of its arguments and a few forms allow; otherwise write
    `attend(query, keys, valid)` of query (B, L, Dq), keys (B, S, Dk) and valid (B, S), True = real
    token, that calls it; leave out `query` or `valid` if it takes none. An argument `values` gets
    values (B, S, Dk). The result may be any tuple of tensors.

    sizes: what the constructor of a class is given, in the order of its arguments; some are tried.
    widths: of the query and of the keys. By default they are tried, and a class or a function is
        examined at two widths.
    expect: the score that it should have, a name or a formula such as `dot(s, h) / sqrt(D)`.
    require: `causal`, or `window=3`.
    allow: codes of findings to leave out. It cannot see how its caller uses the result.
    scores: those that may be named.
    """
    try:
        inspect.signature(attention)
    except (TypeError, ValueError) as error:
        raise Seq2AttnError(f"the attention cannot be examined: {error}", hint=HINT) from error
    found: dict[str, Finding] = {}
    known: set[str] = set()
    first = ""
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        warnings.catch_warnings(action="ignore"),
        unchanged(module_of(attention)),
    ):
        torch.manual_seed(0)
        for subject, made in _subjects(attention, sizes, tuple(widths)):
            subject = replace(subject, scores=scores, expect=expect, require=require)
            torch.manual_seed(0)
            rules = OF_WIDTH if first else RULES
            for finding in engine.examine(rules, subject, allow, known):
                text = finding.text
                if first:
                    text += f" This is at width {subject.given.keys.size(2)}."
                lines = tuple(corrections(attention, finding.code))
                found.setdefault(finding.code, replace(finding, text=text, lines=lines))
            first = first or f"{made}{subject.call}"
            if "unchecked" in found:
                break
    return Report(sorted(found.values(), key=_rank), first)


def _subjects(
    attention: Any, sizes: Sequence[Any], widths: tuple[Any, ...]
) -> Iterator[tuple[Subject, str]]:
    """Yield an attention, or an instance of the class that it is, with its call and how it was
    made: of one width, and called alike of another one, if none is asked for.
    """
    is_class = isinstance(attention, type)
    first: Any = widths or WIDTHS[:1] * 2
    other = WIDTHS[1]
    made = instances(attention, sizes, first[0]) if is_class else [(attention, "")]
    problems = []
    for instance, text in made:
        others = [*_widths_of(_prepared(instance))]
        pairs = [first, *others] if is_class else [*others, first]
        try:
            subject = find_subject(instance, [first] if widths else pairs)
        except Seq2AttnError as error:
            problems.append(error)
            continue
        yield subject, f"{text}\n" if text else ""
        with contextlib.suppress(Exception):  # it has one width
            if is_class and not sizes:
                instance, _ = next(instances(attention, (), other))
            _prepared(instance)
            if not widths:
                yield with_width(subject, instance, other), ""
        return
    raise problems[0]


def _prepared(attention: Any) -> nn.Module:
    """Return the module of an attention in evaluation, with numbers in its parameters: what begins
    with 0, or was never set, hides everything.
    """
    module = module_of(attention).eval()
    for parameter in module.parameters():
        if not is_lazy(parameter) and parameter.numel():
            largest = float(parameter.abs().max().nan_to_num(torch.inf))
            if not 1e-6 < largest < 1e4:
                parameter.copy_(0.1 * torch.randn_like(parameter))
    return module


def _widths_of(module: nn.Module) -> Iterator[Any]:
    """Yield the widths of queries and keys that layers may take, alone or side by side."""
    shapes = [one.shape for one in module.parameters() if not is_lazy(one)]
    own = sorted({size for shape in shapes for size in shape})
    own = sorted({*own, *(size // 2 for size in own)})
    parts = [one - other for one in own for other in own]
    wide = [size for size in dict.fromkeys(own + parts) if size > NARROW][:6]
    pairs = product(range(len(wide)), repeat=2)
    for one, other in sorted(pairs, key=sum):  # the likeliest first
        yield wide[one], wide[other]


def _rank(finding: Finding) -> int:
    return LEVELS.index(finding.level)
