"""Examines any attention."""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor import (
    gradients,
    masks,
    numbers,
    positions,
    required,
    rows,
    score,
    steps,
    turned,
    weights,
)
from seq2attn.doctor.call import module_of
from seq2attn.doctor.catch import unfused
from seq2attn.doctor.constructors import instances
from seq2attn.doctor.lines import corrections, file_of
from seq2attn.doctor.search import called_as, doubts_of, doubts_of_roles, find_subject, with_width
from seq2attn.doctor.subject import Subject, unchanged
from seq2attn.errors import Seq2AttnError
from seq2attn.findings import engine
from seq2attn.findings.report import LEVELS, Finding, Report

WIDTHS = (48, 32)  # of queries and keys alike, first and second, which many numbers of heads divide
NARROW = 3  # sizes of layers up to this one are not widths
HINT = (
    "Name a function attend(query, keys, valid) of shapes (B, L, Dq), (B, S, Dk) and (B, S) that "
    "calls it and returns what it returns."
)
RULES: tuple[engine.Rule, ...] = (
    rows.in_place,
    masks.told,
    required.returns,
    rows.not_finite,
    rows.state,
    weights.sums,
    rows.one_row,
    rows.batch,
    rows.queries,
    positions.moved,
    weights.shared,
    weights.normalised,
    weights.used,
    weights.chosen,
    weights.residual,
    numbers.twice,
    positions.sides,
    positions.selected,
    masks.padding,
    weights.returned,
    masks.padding_amount,
    masks.empty_row,
    turned.other_way,
    masks.places,
    masks.windows,
    masks.named,
    masks.among,
    masks.unread,
    steps.decoding,
    required.required,
    numbers.length,
    numbers.order,
    positions.window_size,
    positions.positions,
    positions.tables,
    numbers.strides,
    gradients.unregistered,
    gradients.gradient,
    numbers.overflow,
    numbers.half,
    gradients.parameters,
    gradients.training,
    score.score,
)
"""in the order in which they are made: causes before consequences"""
OF_WIDTH = (rows.not_finite, weights.sums, score.score)
"""the rules that are tried at another width, too"""


def check_attention(
    attention: Any,
    *,
    sizes: Sequence[Any] = (),
    widths: Sequence[int] = (),
    expect: str | None = None,
    require: Sequence[str] = (),
    allow: Collection[str] = (),
    call: str = "",
    scores: Sequence[Any] = (),
) -> Report:
    """Examine an attention: a module, a class of modules, or a function. Return its findings, and
    how it was called. Raises `Seq2AttnError` if it cannot be made or called.

    It is called as the names of its arguments and a few forms allow; otherwise write
    `attend(query, keys, valid)` of query (B, L, Dq), keys (B, S, Dk) and valid (B, S), True = real
    token, that calls it; leave out `query` or `valid` if it takes none. An argument `values` gets
    values (B, S, Dk). The result may be any tuple of tensors. The numbers of a module and its modes
    are restored at the end.

    sizes: what the constructor of a class is given, in the order of its arguments; by default some
        are tried.
    widths: (of the query, of the keys). By default several are tried, and the attention is examined
        at two, if it takes another one than the first.
    expect: the score that it should have, a name or a formula such as `dot(s, h) / sqrt(D)`.
    require: `causal`; a window such as `window=3`; `stable`; or what is returned, exactly and in
        this order: `returns=context,weights` or `returns=context` (see `required`).
    allow: codes of findings to leave out, such as one that the caller makes up for.
    call: how it is called, such as `attention(query[:, 0], keys, valid)`; by default that is found.
    scores: those by which a score may be named, as `seq2attn.doctor.scores.compare` describes them.
    """
    required.refuse_unknown(require, allow)
    try:
        if "self" in inspect.signature(attention).parameters:
            raise TypeError("it is a method of no instance")
        # a decorator may have put a function around a class
        if isinstance(inspect.unwrap(attention), type):
            attention = inspect.unwrap(attention)
    except (TypeError, ValueError) as error:
        raise Seq2AttnError(f"the attention cannot be examined: {error}", hint=HINT) from error
    found: dict[str, Finding] = {}  # by code, of which the first finding is kept
    known: set[str] = set()  # codes and groups of what was found, to which `examine` adds
    code = file_of(attention)
    adapter = ""  # the call, as code to be shown; "" until the first width was examined
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        warnings.catch_warnings(action="ignore"),
        unchanged(module_of(attention)),
        unfused(),
    ):
        torch.default_generator.manual_seed(0)
        for subject, made in _subjects(attention, sizes, tuple(widths), call):
            subject = replace(subject, scores=scores, expect=expect, require=require)
            # all rules at the first width, a few at the second
            rules = map(_seeded, OF_WIDTH if adapter else RULES)
            for finding in engine.examine(rules, subject, allow, known):
                text = finding.text
                if adapter:  # found at the second width
                    text += f" This is at width {subject.inputs.keys.size(2)}."
                lines = tuple(corrections(attention, finding.code))
                look = engine.CATALOGUE[finding.code].looked(code)
                shown = replace(finding, text=text, lines=lines, look_at=look)
                found.setdefault(finding.code, shown)
            adapter = adapter or f"{made}{subject.call}"
            if "unchecked" in found:  # a finding after which nothing else can be judged
                break
    by_level = sorted(found.values(), key=lambda finding: LEVELS.index(finding.level))
    return Report(by_level, "" if call else adapter)


def _subjects(
    attention: Any, sizes: Sequence[Any], widths: tuple[Any, ...], call: str
) -> Iterator[tuple[Subject, str]]:
    """Yield a `Subject`, which is an attention with the call that was found for it, and the line of
    code that makes the attention, with its line break. Of a class, the attention is the instance
    with the least doubtful call. Without a class, nothing has to be made, and the line is "".
    Raises `Seq2AttnError` if there is no call.

    sizes: what the constructor of a class is given, or ().
    call: as in `check_attention`.
    widths: (of the query, of the keys), or (). If there are none, a second subject follows, with
        inputs of another width and without a line, called in the same way, unless that fails: what
        one width hides, such as a wrong root of it, another one shows.
    """
    is_class = isinstance(attention, type)
    width = widths[0] if widths else WIDTHS[0]  # that a class is made for
    problems, found = [], []
    made = instances(attention, sizes, width) if is_class else [(attention, "", True)]
    for instance, line, is_of_numbers in made:
        of_layers = _widths_of(_prepared(instance))
        try:
            pairs = [widths] if widths else [*of_layers, (width, width)]
            subject = called_as(instance, call, pairs) if call else find_subject(instance, pairs)
            if not is_of_numbers and doubts_of(subject):  # the instance is a guess, and so is this
                raise Seq2AttnError("what its constructor takes is not known", hint=HINT)
        except Seq2AttnError as error:
            problems.append(error)
            continue
        found.append((subject, f"{line}\n" if line else ""))
        # weights were caught, and each query has a row: no other instance can be better
        if not doubts_of_roles(subject):
            break
    if not found:
        raise problems[0]  # of the likeliest instance
    subject, line = min(found, key=lambda one: doubts_of_roles(one[0]))
    yield subject, line
    if not widths:
        with contextlib.suppress(Exception):  # of an attention that can have one width only
            instance = subject.call.attention
            # an instance that was made for one width; others may take several as they are
            if is_class and not sizes:
                instance, *_ = next(instances(attention, (), WIDTHS[1]))
            _prepared(instance)
            yield with_width(subject, instance, WIDTHS[1]), ""


def _seeded(rule: engine.Rule) -> engine.Rule:
    """Return a rule that starts with the seed 0, so that its random numbers are the same whatever
    other rules drew.
    """

    @functools.wraps(rule)
    def seeded(subject: Subject) -> engine.Found:
        torch.default_generator.manual_seed(0)
        yield from rule(subject)

    return seeded


def _prepared(attention: Any) -> nn.Module:
    """Return the module of an attention, which is put into evaluation mode. Numbers of parameters
    that are 0, so that nothing would reach anything through them, are set to small random ones; and
    all of a parameter whose largest number is above 1e4, as it was never set, or below 1e-6, or
    1e-2 in a matrix, through which little would reach anything.
    """
    module = module_of(attention)
    module.eval()  # a statement of its own: in some classes `eval` does not return the module
    for parameter in module.parameters():
        if not is_lazy(parameter) and parameter.numel():
            largest = float(parameter.abs().max().nan_to_num(torch.inf))
            smallest = 1e-6 if parameter.dim() < 2 else 1e-2
            is_set = smallest < largest < 1e4  # torch.empty may hold anything
            kept = (parameter != 0) & is_set
            if not kept.all():
                parameter.copy_(torch.where(kept, parameter, 0.1 * torch.randn_like(parameter)))
    return module


def _widths_of(module: nn.Module) -> list[Any]:
    """Return the pairs (width of queries, width of keys) that a module may take, 36 at most, the
    likeliest first. Each width is one of six: the size of a layer's input, in the order of layers,
    or else another size of a parameter.

    The input of a layer may be a query and a key side by side, or these, their difference and their
    product: then a width is half or a quarter of its size, or the difference between two sizes.
    """
    inputs: list[int] = []
    sizes: set[int] = set()
    for parameter in module.parameters():
        if not is_lazy(parameter):
            inputs += parameter.shape[1:2]  # of a linear layer, its input; of a vector, nothing
            for parts in (1, 2, 4):
                sizes |= {size // parts for size in parameter.shape}
    differences = [one - other for one, other in product(sorted({*inputs}), repeat=2)]
    candidates = dict.fromkeys([*inputs, *differences, *sorted(sizes)])
    wide = [size for size in candidates if size > NARROW]
    wide.sort(key=lambda size: size != WIDTHS[0])  # first the one that a class was made for
    pairs = product(wide[:6], repeat=2)
    return sorted(pairs, key=lambda pair: sum(map(wide.index, pair)))  # the earliest sizes first
