"""Rules of gradients and of training."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import Call, Inputs, function_of
from seq2attn.doctor.rows import dropout
from seq2attn.doctor.subject import ALL, CLOSE, TINY, Result, Subject, unchanged
from seq2attn.doctor.words import CACHES, ROLES, required, words
from seq2attn.findings.engine import Found

STEP = 1e-3  # of finite differences
SLIGHT = 1e-5  # a slope of one place, of which rounding in float32 may make as much
SHARE = 0.03  # by which a gradient may differ from them
DROPPED = 0.05  # share of scores that dropout sets to 0, at least
HEADS = (1, 2, 4, 8)  # by which the rows of a projection may be split first
FEWEST = 3  # rows of a part of a head
LAYERS = (nn.Linear, nn.MultiheadAttention)  # others, such as tables, may use a few rows only
MASKS = ROLES["mask"] | CACHES | {"bias"}


def gradient(subject: Subject) -> Found:
    """Gradients of the query and of the keys are those of finite differences, unless
    `torch.no_grad` around the attention says that there are none.
    """
    # by a decorator, which may be `torch.no_grad`: then parameters get no gradient either
    if hasattr(function_of(subject.call.attention), "__wrapped__"):
        with torch.enable_grad():
            if not subject.output().requires_grad:
                return
    if not (subject.outputs or subject.shown):
        return  # the result is weights that were caught, below the level of gradients
    for name in ("query", "keys"):
        is_given = getattr(subject.given, name) is not None
        # twice, as a kink may lie at the first place
        if is_given and not any(_has_gradient(subject, name) for _ in range(2)):
            yield "gradient", name
            return


@torch.enable_grad()
def _has_gradient(subject: Subject, name: str) -> bool:
    """Return whether the gradient of an input (`query` or `keys`) agrees with finite differences in
    one random direction at one random place; True, too, if the module does not run in double
    precision.

    STEP is small enough to miss most kinks, such as those of relu, and large enough for modules
    that compute in float32 inside.
    """
    given = subject.given.unpadded.to(torch.float64)
    start = getattr(given, name)
    along = torch.zeros_like(start)  # of one place: the fewer, the fewer kinks and jumps
    row, place = (int(torch.randint(size, ())) for size in start.shape[:2])
    along[row, place] = torch.randn_like(start[row, place])
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)

    def inputs(step: Tensor) -> Inputs:
        return given._replace(**{name: start + step * along})

    with unchanged(subject.module):
        subject.module.double()
        try:
            returned = subject.results(inputs(zero))
            # a memory that is kept has none, and another result may have one
            outputs = [index for index in subject.outputs if returned[index].requires_grad]
            moved = replace(subject, outputs=outputs or subject.outputs).output
            here = moved(inputs(zero))
            difference = (moved(inputs(zero + STEP)) - moved(inputs(zero - STEP))) / (2 * STEP)
            # the outputs become one number: their sum with these shares
            drawn = torch.Generator().manual_seed(1)
            shares = torch.rand(here.shape, generator=drawn, dtype=torch.float64)
            slope = torch.zeros_like(zero)  # the gradient, if what is returned has none
            if here.requires_grad:
                total = (shares * here).sum()
                (slope,) = torch.autograd.grad(total, zero, materialize_grads=True)
        except RuntimeError:
            return True
    return torch.allclose(slope, (shares * difference).sum(), rtol=SHARE, atol=SLIGHT)


@torch.enable_grad()
def parameters(subject: Subject) -> Found:
    """Gradients reach all parameters.

    Nothing is said where layers may rightly stay unused: if an axis of length 1 was made up for the
    keys, if an argument that is no mask is left out, or if keys are given that are projected
    already.
    """
    if subject.is_image or not _is_all_given(subject.call):
        return
    subject = _with_factors(subject)
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad}
    usual = _gradients(subject, subject.given.unpadded, named)
    # some keep in evaluation what they computed once: in training, gradients may reach the rest
    with unchanged(subject.module):
        subject.module.train()
        in_training = _gradients(subject, subject.given.unpadded, named)
    dead = [name for name in named if usual[name] is None and in_training[name] is None]
    if len(dead) > len(named) / 2:  # a module that holds more than the attention
        dead = [name for name in dead if _is_used(subject, name)]
    # large inputs may saturate, so that rows of a weight get a gradient from small ones alone
    small = _gradients(subject, subject.small().unpadded, named)
    widths = {one.size(-1) for one in named.values() if one.dim() > 1}  # of inputs of layers
    widths |= {use.values.size(-1) for use in subject.free.uses}  # and of heads
    for name, gradient in usual.items():
        is_layer = isinstance(subject.module.get_submodule(name.rpartition(".")[0]), LAYERS)
        of_small = small[name]
        if is_layer and gradient is not None and of_small is not None and gradient.dim() > 1:
            parts = _silent((gradient.abs() + of_small.abs()).sum(1), widths)
            dead += [f"{name}, {part}" for part in parts]
    if dead:
        yield "dead-parameter", ", ".join(dead[:3])


def _is_all_given(call: Call) -> bool:
    """Return whether all arguments but masks are given, and none is a projection of the keys."""
    texts = {**call.given, call.mask: call.form}
    for name in required(function_of(call.attention)):
        is_given = texts.get(name, "None") != "None"
        if not (is_given or words(name) & MASKS) or words(name) & ROLES["again"]:
            return False
    return True


def _with_factors(subject: Subject) -> Subject:
    """Return a subject whose arguments that were given as 0, which may be factors, are 1; itself if
    one must be a whole number, such as a position.
    """
    ones = {name: "1.0" for name, text in subject.call.given.items() if text == "0"}
    with_ones = subject.called(given={**subject.call.given, **ones})
    with contextlib.suppress(Exception):
        with_ones.output()
        return with_ones
    return subject


def _is_used(subject: Subject, name: str) -> bool:
    """Return whether other numbers in a parameter give another result."""
    before = subject.free.output
    with unchanged(subject.module):
        parameter = subject.module.get_parameter(name)
        parameter.data = parameter.data + torch.randn_like(parameter)
        return subject.difference(subject.output(), before) > CLOSE


def _gradients(
    subject: Subject, given: Inputs, parameters: Mapping[str, Tensor]
) -> Mapping[str, Tensor | None]:
    """Return the gradients of parameters, by name, in what is returned beside weights; None of
    those that do not reach it.
    """
    returned = subject.results(given)
    results = [one for index, one in enumerate(returned) if index not in subject.shown]
    total = torch.stack([one.square().sum() for one in results or returned]).sum()
    if not total.requires_grad or not parameters:
        return dict.fromkeys(parameters)
    found = torch.autograd.grad(total, [*parameters.values()], allow_unused=True)
    return dict(zip(parameters, found, strict=True))


def _silent(rows: Tensor, widths: set[int]) -> Iterator[str]:
    """Yield which half, third or quarter of the rows of a weight has no gradient while the others
    have one: in a joint projection to queries, keys and values, or to heads of keys, one of them is
    then not used. The same of each head, if heads are split before.

    rows (N,): the sizes of the gradients of rows. widths: of the inputs of layers, and of heads; a
    part of another size is not a projection.
    """
    for parts, heads in product((2, 3, 4), HEADS):
        size, rest = divmod(len(rows), parts * heads)  # rows of a part
        if rest or size < FEWEST or (heads == 1 and size not in widths):
            continue
        pieces = rows.view(heads, parts, size).any(2).any(0).tolist()
        if any(pieces) and not all(pieces):
            start = pieces.index(False) * size
            each = f" of each {parts * size}" * (heads > 1)
            yield f"rows {start} to {start + size - 1}{each}"
            return


def unregistered(subject: Subject) -> Found:
    """An optimiser is given everything that can be trained: nothing is kept in a list, or as a
    tensor, where `module.parameters()` does not find it.
    """
    known = set(subject.module.parameters())
    for part in subject.module.modules():
        for name, value in vars(part).items():
            if not known.issuperset(_trainable(value)):
                yield "unregistered", name


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
    """In training, padding and later places are masked as well, also where there is dropout."""
    zeros = _zeros(subject.masked)
    for rate in (0.0, 0.5):
        with unchanged(subject.module), dropout(subject.module, rate):
            for part in subject.module.modules():  # but for batch norms, which would mix rows
                part.training = not isinstance(part, nn.modules.batchnorm._NormBase)
            found = next(_in_training(subject, zeros), None)
        if found:
            yield found
            return


def _in_training(subject: Subject, zeros: float) -> Found:
    """Yield what is wrong in the mode that is set. zeros: what `_zeros` returns in evaluation."""
    free, result = subject.given.unpadded, subject.run(subject.given)
    if _zeros(result) > zeros + DROPPED:
        yield "dropout-before-softmax"
    most = float(subject.on_padding(result).max())
    if most > TINY:
        yield "mask-in-training", f"padding gets up to {most:.2g} of a row's weight"
    elif subject.is_causal:
        outputs = []
        for given in (free, free.moved((ALL, -1), "keys")):
            torch.default_generator.manual_seed(0)  # the same numbers are dropped
            outputs.append(subject.output(given)[:, :-1])
        if (by := subject.difference(*outputs)) > CLOSE:
            yield "mask-in-training", f"the last token changes an earlier row by {by:.2g}"


def _zeros(result: Result) -> float:
    """Return the largest share of zeros in what a softmax was given."""
    shares = [float((scores == 0).float().mean()) for scores, _ in result.watch.softmaxes]
    return max(shares, default=0.0)
