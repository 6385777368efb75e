"""Rules of lengths, memory layouts, types, large numbers, gradients, training and scores."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import TINY, Inputs
from seq2attn.doctor.names import ROLES, words
from seq2attn.doctor.scores import Sample, clear_biases, compare, match
from seq2attn.doctor.subject import CLOSE, Subject, gap, unchanged
from seq2attn.findings.engine import Found

SCALE, ROWS = 30, 150  # of large inputs
STEP = 1e-2  # of finite differences
SHARE = 0.05  # by which a gradient may differ from them


def length(subject: Subject) -> Found:
    """Sources may be short or long."""
    for keys in (1, 500):
        given = subject.draw(keys).free
        if not subject.is_finite(given, subject.run(given)):
            yield "length", {"by": f"NaN with {keys} keys"}


def strides(subject: Subject) -> Found:
    """Keys may lie in memory as a transposed encoder output does."""
    given = subject.given.free
    transposed = given.each(lambda tensor: tensor.transpose(0, 1).contiguous().transpose(0, 1))
    transposed = transposed._replace(query=given.query, valid=given.valid)
    if subject.differ(subject.run(transposed).output, subject.free.output) > CLOSE:
        yield "strides", {"by": "results differ"}


def overflow(subject: Subject) -> Found:
    """Large inputs neither overflow nor underflow."""
    given = subject.draw(rows=ROWS)
    if not subject.has_mask:
        given = given.free
    query = None if given.query is None else SCALE * given.query
    result = subject.run(given._replace(keys=SCALE * given.keys, query=query))
    if not subject.is_finite(given, result):
        yield "overflow", {"by": "NaN or infinity"}
        return
    for before, weights in zip(subject.run(given).weights, result.weights, strict=True):
        valid = given.valid[:, None, None] & subject.real(given)[:, None]
        low = float((weights - before).masked_fill(~valid, 0).sum(-1).min())
        if gap((before * valid).sum(-1), 1) < 1e-3 and low < -0.01:
            yield "overflow", {"by": f"those of a row sum to {1 + low:.3g}"}
            return


def half(subject: Subject) -> Found:
    """It runs in half precision."""
    given = subject.given
    for dtype in (torch.float16, torch.bfloat16):
        with unchanged(subject.module):
            subject.module.to(dtype)
            query = None if given.query is None else given.query.to(dtype)
            some = Inputs(query, given.keys.to(dtype), given.valid)
            result = subject.run(some if subject.has_mask else some.free)
        if not subject.is_finite(some, result):
            yield "half", {"by": f"NaN in {dtype}"}
            return


# ---- gradients and training ----


@torch.enable_grad()
def gradient(subject: Subject) -> Found:
    """Gradients of the query and of the keys are those of finite differences."""
    given, bound = subject.given.free, subject.bound
    if not bound.outputs and not bound.shown:
        return
    across = torch.randn_like(subject.free.output)
    for name in ("query", "keys"):
        start = getattr(given, name)
        if start is None:
            continue
        along = torch.randn_like(start)

        def along_it(step: Tensor | float, name: str = name, start: Any = start) -> Tensor:
            moved = given._replace(**{name: start + step * along})  # noqa: B023
            return (subject.bound.run(moved).output * across).sum()

        step = torch.zeros((), requires_grad=True)
        total = along_it(step)
        found = None
        if total.requires_grad:
            (found,) = torch.autograd.grad(total, step, allow_unused=True)
        slopes = [float(along_it(size) - along_it(-size)) / (2 * size) for size in (STEP, STEP / 2)]
        size = max(map(abs, slopes))
        smooth = abs(slopes[0] - slopes[1]) < SHARE * size / 2
        by = abs((0.0 if found is None else float(found)) - slopes[1])
        if smooth and by > SHARE * size and size > CLOSE:
            yield "gradient", {"name": name}
            return


@torch.enable_grad()
def parameters(subject: Subject) -> Found:
    """Gradients reach all parameters, unless the module holds more than the attention, or an
    argument that has a default is left out.
    """
    total = subject.run(subject.given.free).output.square().sum()
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad}
    if not total.requires_grad:
        return
    gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    dead = [name for name, found in zip(named, gradients, strict=True) if found is None]
    if 0 < len(dead) <= len(named) / 2:
        call = subject.bound.call
        function = (
            call.attention.forward if isinstance(call.attention, nn.Module) else call.attention
        )
        arguments = inspect.signature(function).parameters
        omitted = [
            name
            for name in arguments
            if f"{name}=" not in call.text or words(name) & ROLES["again"]
        ]
        about = {"names": ", ".join(dead[:3]), "omitted": ", ".join(omitted)}
        yield "unused-parameter" if omitted else "dead-parameter", about


def unregistered(subject: Subject) -> Found:
    """An optimiser is given everything that can be trained."""
    known = set(subject.module.parameters())
    for part in subject.module.modules():
        for name, value in vars(part).items():
            if not known.issuperset(_trainable(value)):
                yield "unregistered", {"name": name}


def _trainable(value: Any) -> Iterator[Tensor]:
    """Yield what can be trained in an attribute: a tensor, a module, or a list of them."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _trainable(item)
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
        yield value


def training(subject: Subject) -> Found:
    """In training the mask holds as well, and the returned weights are those that are used."""
    with unchanged(subject.module):
        subject.module.train()
        given = subject.given if subject.has_mask else subject.given.free
        result = subject.run(given)
    padding = ~given.valid[:, None, None] & subject.real(given)[:, None]
    padded = [weights.masked_fill(~padding, 0) for weights in result.weights]
    most = max((float(one.max()) for one in padded), default=0.0)
    if most > TINY:
        yield "mask-in-training", {"most": most}
    if result.returned is not None and result.uses and len(result.weights) == 1:
        mine, theirs = result.weights[0], result.returned
        if mine.shape == theirs.shape and gap(mine, theirs) > CLOSE:
            yield "before-dropout", {"by": gap(mine, theirs)}


# ---- scores ----


def score(subject: Subject) -> Found:
    """Name the score. It comes last, since it changes parameters."""
    given, expected = subject.draw().free, subject.expect
    for parameter in subject.module.parameters():
        if parameter.dim() > 0:  # it may begin with 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    clear_biases(subject.module)
    queries = [given.keys if given.query is None else given.query]
    if queries[0].size(1) == 1:
        queries.append(queries[0].flip(2))
    weights = []
    for query in queries:
        some = given if given.query is None else given._replace(query=query)
        weights += subject.run(some).weights[:2]
    whole = torch.cat(weights, dim=2)[:, 0] if len(weights) == len(queries) else None
    if whole is None or weights[0].size(1) > 1 or not (whole > 0).all():
        why = "there are several heads or layers, or weights of 0, or none were caught"
        if expected is not None:
            yield "expected", {"expected": expected, "why": why}
        yield "score-unknown", {"why": why}
        return
    parameters = list(subject.module.parameters())
    sample = Sample(torch.cat(queries, dim=1), given.keys, whole.log(), parameters)
    if expected is None:
        code, name, why = match(sample, subject.scores)
        yield code, {"name": name, "why": why}
        return
    code, why = compare(sample, expected, subject.scores)
    if code:
        yield "expected", {"expected": expected, "why": why}
