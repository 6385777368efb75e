"""Examines any attention: `check_attention`, and what it returns."""

import inspect
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2attn.doctor.adapter import CATALOGUE, find_adapter
from seq2attn.doctor.checks import CHECKS, FIRST
from seq2attn.doctor.trial import Trial, first_line
from seq2attn.errors import Seq2AttnError
from seq2attn.plugins import run_file
from seq2attn.text import did_you_mean, quoted

WIDTHS = (16, 12, 20)  # of queries and keys, unless given


@dataclass(frozen=True)
class Finding:
    """What is wrong with an attention, or a property of it."""

    level: str
    """fault: wrong results; care: it fails in some settings; note: a property"""
    code: str
    text: str
    """with the evidence"""
    look_at: str
    """what usually causes it"""


@dataclass(frozen=True)
class Report:
    """What was found, causes before consequences, and how the attention was called."""

    findings: list[Finding]
    adapter: str

    @property
    def faults(self) -> list[Finding]:
        """The findings of level `fault`."""
        return [finding for finding in self.findings if finding.level == "fault"]

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.level}: {finding.code}: {finding.text}")
            if finding.level != "note":
                lines.append(f"    look at: {finding.look_at}")
        if self.adapter:
            lines += ["It was called as follows. If that is wrong, correct it:", self.adapter]
        return "\n".join(lines)


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
    function.

    It is called as the names of its arguments and a few shapes allow; otherwise write
    `attend(query, keys, valid)` of query (B, query_width), keys (B, S, key_width) and valid (B, S),
    True = real token, or None, that returns the context (B, Dv), or None, and the weights (B, S) or
    (B, H, S). An argument `values` gets values (B, S, key_width).

    sizes: what the constructor of a class is given, in the order of its arguments; some are tried.
    expect: the score that it should have, a name or a formula such as `dot(s, h) / sqrt(D)`.
    allow: codes of findings to leave out. It cannot see how its caller uses the result.
    """
    numbers = [size for size in sizes if isinstance(size, int)] or WIDTHS
    pairs = list(product(_widths(query_width, numbers), _widths(key_width, numbers)))
    report = Report([], "")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
        for instance in _instances(attention, sizes):
            torch.manual_seed(0)
            module = _module_of(instance)
            was_training = module.training
            module.eval()
            try:
                adapter, inputs = find_adapter(instance, pairs)
                findings = list(_examine(Trial(adapter, inputs, module, expect), allow))
                return Report(findings, str(adapter))
            except Seq2AttnError as error:
                report = Report([_finding("cannot-run", error=error.message)], "")
            finally:
                module.train(was_training)
    return report


def _widths(width: int | None, numbers: Sequence[int]) -> list[int]:
    return [*numbers, *(2 * number for number in numbers)] if width is None else [width]


def _instances(attention: Any, sizes: Sequence[int | str]) -> Iterator[Any]:
    """Yield the attention, or instances of the class that it is: of several widths, then of one."""
    if not isinstance(attention, type):
        yield attention
        return
    problems, made = [], 0
    for numbers in [sizes] if sizes else [WIDTHS, WIDTHS[:1] * 3]:
        left, given = list(numbers), {}
        for name, parameter in inspect.signature(attention).parameters.items():
            is_needed = parameter.default is parameter.empty
            if is_needed and not sizes and name in CATALOGUE["arguments"]:
                given[name] = CATALOGUE["arguments"][name]
            elif left and (is_needed or sizes):
                given[name] = left.pop(0)
        try:
            instance = attention(**given)
        except Exception as error:
            problems.append(first_line(error))
            continue
        made += 1
        yield instance
    if not made:
        raise Seq2AttnError(
            f"{attention.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
        )


def load_attention(place: str) -> Any:
    """Return what FILE:NAME means: a function, a module, or a class of modules."""
    path, _, name = place.rpartition(":")
    found, _ = run_file(Path(path), "seq2attn_examined")
    if not hasattr(found, name):
        names = [known for known, value in vars(found).items() if callable(value)]
        guess = did_you_mean(name, names)
        raise Seq2AttnError(f"{path} has no {quoted(name)}; {guess}it has: {', '.join(names)}")
    return getattr(found, name)


def _module_of(attention: Any) -> nn.Module:
    """Return the module that a function calls, an empty one if it calls none."""
    near = [attention]
    if inspect.isfunction(attention):
        seen = inspect.getclosurevars(attention)
        near += [*seen.nonlocals.values(), *seen.globals.values()]
    if inspect.ismethod(attention):
        near.append(attention.__self__)
    return next((value for value in near if isinstance(value, nn.Module)), nn.Module())


def _finding(code: str, **evidence: Any) -> Finding:
    about = CATALOGUE["findings"][code]
    texts = [about[key].format(**evidence) for key in ("text", "look")]
    return Finding(about["level"], code, *texts)


def _examine(trial: Trial, allow: Collection[str]) -> Iterator[Finding]:
    """Yield what the checks find. After those that everything rests on, a fault ends it."""
    known: set[str] = set()
    for check in CHECKS:
        try:
            findings = [_finding(code, **evidence) for code, evidence in check(trial)]
        except Exception as error:
            findings = [_finding("unfinished", name=check.__name__, error=first_line(error))]
        for finding in findings:
            causes = CATALOGUE["findings"][finding.code].get("follows", "").split()
            if finding.code not in allow and known.isdisjoint(causes):
                yield finding
        known |= {finding.code for finding in findings}
        if check in FIRST and any(finding.level == "fault" for finding in findings):
            return
