"""Examines any attention: `check_attention`, and what it returns."""

import contextlib
import copy
import inspect
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from seq2attn.contract.subject import Broken
from seq2attn.doctor.adapter import CATALOGUE, HINT, find_adapter, required, unchanged
from seq2attn.doctor.checks import CHECKS, Trial
from seq2attn.errors import Seq2AttnError
from seq2attn.findings.report import LEVELS, Finding, Report

WIDTHS = (16, 12, 20)  # of queries and keys, unless given
FINDINGS = CATALOGUE["findings"]
NUMBERS = {"not-finite", "state", "axis", "in-place", "gradient", "overflow", "score"}
"""checks of numbers: an exception in them says nothing of what they look for"""
ENDS = {"not-finite", "state", "random", "cache", "axis", "negative", "in-place"}
"""codes after which nothing else can be judged"""


def check_attention(
    attention: Any,
    *,
    sizes: Sequence[int | str] = (),
    query_width: int | None = None,
    key_width: int | None = None,
    expect: str | None = None,
    allow: Collection[str] = (),
) -> Report:
    """Examine an attention that need not be of seq2attn: a module, a class of modules, or a
    function. Raises `Seq2AttnError` if it cannot be made or called, or returns no weights.

    It is called as the names of its arguments and a few shapes allow; otherwise write
    `attend(query, keys, valid)` of query (B, query_width), keys (B, S, key_width) and valid (B, S),
    True = real token, or None, that returns the context (B, Dv), or None, and the weights (B, S) or
    (B, H, S). An argument `values` gets values (B, S, key_width).

    sizes: what the constructor of a class is given, in the order of its arguments; some are tried.
    expect: the score that it should have, a name or a formula such as `dot(s, h) / sqrt(D)`.
    allow: codes of findings to leave out. It cannot see how its caller uses the result.
    """
    try:
        inspect.signature(attention)
    except (TypeError, ValueError) as error:
        raise Seq2AttnError(f"the attention cannot be examined: {error}", hint=HINT) from error
    numbers = [size for size in sizes if isinstance(size, int)] or WIDTHS
    usual = [*numbers, *(2 * number for number in numbers)]
    queries = usual if query_width is None else [query_width]
    keys = usual if key_width is None else [key_width]
    problems = []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        warnings.catch_warnings(action="ignore"),
    ):
        torch.manual_seed(0)
        for instance in _instances(attention, sizes):
            module = _module_of(instance)
            with unchanged(module):
                module.eval()
                fresh = _copy(instance)
                try:
                    adapter, inputs = find_adapter(instance, list(product(queries, keys)))
                except Seq2AttnError as error:
                    problems.append(error)
                    continue
                unused = replace(adapter, attention=fresh)
                trial = Trial(adapter, unused, inputs, module, expect)
                findings = sorted(_examine(trial, allow), key=_rank)
                return Report(findings, str(adapter))
    raise problems[0]


def _instances(attention: Any, sizes: Sequence[int | str]) -> list[Any]:
    """Return the attention, or instances of the class that it is: of several widths, and of one."""
    if not isinstance(attention, type):
        return [attention]
    made, problems = [], []
    names = list(inspect.signature(attention).parameters) if sizes else required(attention)
    for numbers in [sizes] if sizes else [WIDTHS, WIDTHS[:1] * 3]:
        try:
            made.append(attention(**dict(zip(names, numbers, strict=False))))
        except Exception as error:
            problems.append(_reason(error))
    if not made:
        raise Seq2AttnError(
            f"{attention.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
        )
    return made


def _copy(attention: Any) -> Any:
    """Return a copy, or the attention itself if it cannot be copied or has no numbers yet."""
    is_ready = not any(map(is_lazy, _module_of(attention).parameters()))
    with contextlib.suppress(Exception):
        return copy.deepcopy(attention) if is_ready else attention
    return attention


def _module_of(attention: Any) -> nn.Module:
    """Return the attention, or the modules that a function calls as one."""
    attention = getattr(attention, "__self__", attention)
    if isinstance(attention, nn.Module):
        return attention
    if not inspect.isfunction(attention):
        return nn.Module()
    seen = inspect.getclosurevars(attention)
    modules = nn.ModuleList()
    for value in (*seen.nonlocals.values(), *seen.globals.values()):
        if isinstance(value, nn.Module):
            modules.append(value)
    return modules


def _examine(trial: Trial, allow: Collection[str]) -> Iterator[Finding]:
    """Yield what the checks find, but for what follows from an earlier finding."""
    known: set[str] = set()
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        try:
            results = list(check(trial) or ())
        except Seq2AttnError:  # of --expect
            raise
        except Exception as error:
            is_named = isinstance(error, Broken) or name not in NUMBERS
            code = name if name in FINDINGS and is_named else "unfinished"
            results = [(code, {"name": name, "by": _reason(error)})]
        for code, evidence in results:
            causes = FINDINGS[code].get("follows", "").split()
            if code not in allow and known.isdisjoint(causes):
                yield make_finding(code, **evidence)
        for code, _ in results:
            known.update((code, FINDINGS[code].get("group", code)))
        if known & ENDS:
            yield make_finding("unchecked")
            return


def make_finding(code: str, **evidence: Any) -> Finding:
    """Return the finding of this code, with its evidence."""
    about = FINDINGS[code]
    return Finding(about["level"], code, about["text"].format(**evidence), about["look"])


def _rank(finding: Finding) -> int:
    return LEVELS.index(finding.level)


def _reason(error: Exception) -> str:
    """Return an exception as one line."""
    kind = "" if isinstance(error, Broken) else f"{type(error).__name__}: "
    return f"{kind}{error}".partition("\n")[0][:160]
