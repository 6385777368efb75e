"""Rules of gradients and of training."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import Call, Inputs, function_of
from seq2attn.doctor.rows import dropout
from seq2attn.doctor.subject import CLOSE, TINY, Result, Subject, unchanged
from seq2attn.doctor.words import CACHES, POSITIONS, ROLES, required, words
from seq2attn.findings.engine import Found

STEP = 1e-3  # of finite differences
SLIGHT = 1e-5  # by which a gradient may differ from them: rounding in float32 may make as much
SHARE = 0.03  # or by this share of them
DROPPED = 0.05  # share of scores that dropout sets to 0, at least
HEADS = (1, 2, 4, 8)  # by which the rows of a projection may be split first
FEWEST = 3  # rows of a part of a head
CUT = r"(?i)gradient[^.]* (cut|stopped|blocked|detached)|\bdetach|straight.through|stop.?grad"
LAYERS = (nn.Linear, nn.MultiheadAttention)  # others, such as tables, may use a few rows only
SET_UP = {"init", "reset", "initialize", "initialise"}
"""words of methods that set a module up"""
MASKS = ROLES["mask"] | CACHES | {"bias"}
"""words of arguments that may be left out while all layers are used"""


def gradient(subject: Subject) -> Found:
    """Gradients of the query and of the keys are those of finite differences, unless the attention
    is decorated, as by `torch.no_grad`, so that it has none, or its docstring says that they are
    cut. Nothing is said if it returns neither an output nor weights. Only the first of the two that
    is wrong is named.
    """
    if re.search(CUT, subject.docs):
        return
    # if a decorated function gives not even its parameters a gradient, it shall have none
    if hasattr(function_of(subject.call.attention), "__wrapped__"):
        with torch.enable_grad():
            if not subject.output().requires_grad:
                return
    # if nothing is returned, the only results are weights that `Watch` caught, where torch computes
    # without gradients
    if not (subject.output_indices or subject.weight_indices):
        return
    for name in ("query", "keys"):
        is_given = getattr(subject.inputs, name) is not None
        # of three random places one will do, as kinks may lie at the others
        if is_given and not any(_has_gradient(subject, name) for _ in range(3)):
            yield "gradient", name
            return


@torch.enable_grad()
def _has_gradient(subject: Subject, name: str) -> bool:
    """Return whether the gradient of an input, whose `name` is "query" or "keys", agrees with
    finite differences in one random direction at one random place; True, too, if the module does
    not run in double precision. It is False if an operation in place destroys what the gradient
    needs, in training mode as well.

    The fewer places move, the fewer kinks are met, such as those of relu, and STEP is small enough
    to miss most, and large enough for modules that compute in float32 inside.
    """
    inputs = subject.inputs
    # NaN in results of padding would spread to the gradients of inputs: then all keys are valid
    if not all(one.isfinite().all() for one in subject.results(inputs)):
        inputs = inputs.unpadded
    inputs = inputs.to(torch.float64)
    start = getattr(inputs, name)
    along = torch.zeros_like(start)
    is_token = inputs.valid if name == "keys" else torch.ones(start.shape[:2])
    places = is_token.nonzero()
    row, place = places[torch.randint(len(places), ())]
    along[row, place] = nn.functional.normalize(torch.randn_like(start[0, 0]), dim=0)
    outputs = subject.output_indices or subject.weight_indices

    def total(step: Tensor) -> Tensor:
        """Return the sum of the results, each number times a random factor, with the input moved
        along the direction by the distance `step`, (). The factors are the same at each call.
        """
        results = subject.results(inputs._replace(**{name: start + step * along}))
        drawn, sums = torch.Generator().manual_seed(1), []
        for result in (results[index] for index in outputs):
            factors = torch.rand(result.shape, generator=drawn, dtype=torch.float64)
            # returned scores of padding are -inf, or NaN
            sums.append((factors * result.nan_to_num(0, 0, 0)).sum())
        # some results have no gradient on purpose, such as a memory kept for the next call
        return torch.stack([one for one in sums if one.requires_grad] or sums).sum()

    with unchanged(subject.module):
        subject.module.double()
        try:
            zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
            # `gradcheck` would compare them as well, but it imports sympy, in half a second
            slope, wider = (
                (total(zero + step) - total(zero - step)) / (2 * step) for step in (STEP, 10 * STEP)
            )
            if not wider.isclose(slope, rtol=SHARE, atol=SLIGHT):  # it rounds, or has kinks
                return True
            # 0 * zero: the total may not depend on it at all, and then its gradient is 0
            (exact,) = torch.autograd.grad(total(zero) + 0 * zero, zero)
            return bool(exact.isclose(slope, rtol=SHARE, atol=SLIGHT))
        except RuntimeError as error:
            # another error is no fault of gradients: of a module that makes float32 inside, for one
            if "inplace operation" not in str(error):
                return True
        subject.module.train()  # there dropout may copy what is changed in place
        with contextlib.suppress(RuntimeError):
            torch.autograd.grad(total(zero), zero)
            return True
        return False


@torch.enable_grad()
def parameters(subject: Subject) -> Found:
    """Gradients reach all parameters, and all parts of the weights of layers (see `_silent`). At
    most three that they do not reach are named.

    Nothing is said where layers may rightly stay unused: if an argument that is not a mask is left
    out; or if keys are given that are projected already. Nor is a parameter that the call does not
    use, if most get no gradient; or if other methods name it, or, of an image, perhaps of one row,
    `forward`.
    """
    if not _is_all_given(subject.call):
        return
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad}
    usual = _gradients(subject, subject.inputs.unpadded, named)
    # in evaluation, some attentions keep what they computed once, which then gives no gradients
    with unchanged(subject.module):
        subject.module.train()
        in_training = _gradients(subject, subject.inputs.unpadded, named)
    # (a gradient of 0 reaches a parameter: a layer may be given zeros, such as a first state)
    dead = [name for name in named if usual[name] is None and in_training[name] is None]
    # what is not returned by default may yet be asked for, as by `return_weights=True`
    flags = {name: "True" for name, one in subject.arguments.items() if one.default is False}
    with contextlib.suppress(Exception):  # flags may exclude each other
        asked = subject.called(expressions={**subject.call.expressions, **flags})
        of_all = _gradients(asked, subject.inputs.unpadded, named) if flags and dead else {}
        dead = [name for name in dead if of_all.get(name) is None]
    # if most are dead, the module holds more than the attention, and parameters that the call does
    # not use are not meant
    if len(dead) > len(named) / 2:
        dead = [name for name in dead if _is_used(subject, name)]
    methods = SET_UP if subject.is_image else SET_UP | {"forward"}
    dead = [
        name
        for name in dead
        if not _is_named(subject.module, name, but_for=methods) or _is_used(subject, name)
    ]
    # large inputs may saturate, so that rows of a weight get a gradient from small ones alone
    small = _gradients(subject, subject.draw_small().unpadded, named)
    # for `_silent`: the widths of inputs of layers, and of heads
    widths = {one.size(-1) for one in named.values() if one.dim() > 1}
    widths |= {use.values.size(-1) for use in subject.unmasked.uses}
    for name, gradient in usual.items() if not subject.is_image else ():
        is_layer = isinstance(subject.module.get_submodule(name.rpartition(".")[0]), LAYERS)
        of_small = small[name]
        if is_layer and gradient is not None and of_small is not None and gradient.dim() > 1:
            # the weight of a layer: its rows are outputs, its columns inputs, which are summed up
            parts = _silent((gradient.abs() + of_small.abs()).sum(1), widths)
            dead += [f"{name}, {part}" for part in parts]
    if dead:
        yield "dead-parameter", ", ".join(dead[:3])


def _is_all_given(call: Call) -> bool:
    """Return whether all arguments but masks are given, and none is a projection of the keys."""
    texts = {**call.expressions, call.mask: call.form}
    for name in required(function_of(call.attention)):
        is_given = texts.get(name, "None") != "None"
        may_miss = words(name) & MASKS and not words(name) & POSITIONS["encoded"]
        if not (is_given or may_miss) or words(name) & ROLES["again"]:
            return False
    return True


def _is_used(subject: Subject, name: str) -> bool:
    """Return whether other numbers in a parameter give another result."""
    before = subject.unmasked.output
    with unchanged(subject.module):
        parameter = subject.module.get_parameter(name)
        parameter.data = parameter.data + torch.randn_like(parameter)
        return subject.difference(subject.output(), before) > CLOSE


def _is_named(module: nn.Module, name: str, but_for: set[str]) -> bool:
    """Return whether a parameter, or a part that holds it, is named in a method of a module other
    than those with one of these words in their names: a network may have several that are called.
    """
    for attribute in name.split("."):
        own = [owner for owner in type(module).__mro__ if not owner.__module__.startswith("torch.")]
        for method, function in chain(*(vars(owner).items() for owner in own)):
            names = getattr(getattr(function, "__code__", None), "co_names", ())
            if attribute in names and not words(method) & but_for:
                return True
        module = dict(module.named_children()).get(attribute, module)
    return False


def _gradients(
    subject: Subject, inputs: Inputs, parameters: Mapping[str, Tensor]
) -> Mapping[str, Tensor | None]:
    """Return the gradients of parameters, by name: those of the sum of the squares of what is
    returned; None for a parameter on which that sum does not depend.
    """
    total = torch.stack([one.square().sum() for one in subject.results(inputs)]).sum()
    if not total.requires_grad or not parameters:
        return dict.fromkeys(parameters)
    found = torch.autograd.grad(total, [*parameters.values()], allow_unused=True)
    return dict(zip(parameters, found, strict=True))


def _silent(rows: Tensor, widths: set[int]) -> Iterator[str]:
    """Yield the first half, third or quarter of the rows of a weight that has no gradient while
    other parts have one, such as "rows 32 to 63"; nothing if there is none. Such a weight projects
    to queries, keys and values at once, or to several heads, and one of these is not used.

    The rows may be split into heads first, and then each head into parts: then one part is silent
    in every head, as in "rows 4 to 7 of each 12".

    rows (N,): the sizes of the gradients of the rows of the weight.
    widths: of the inputs of layers, and of heads: without heads, only a part of such a size is a
        projection.
    """
    for parts, heads in product((2, 3, 4), HEADS):
        size, rest = divmod(len(rows), parts * heads)  # size: rows of a part, in one head
        if rest or size < FEWEST or (heads == 1 and size not in widths):
            continue
        has_gradient = rows.view(heads, parts, size).any(2).any(0).tolist()  # of each part
        if any(has_gradient) and not all(has_gradient):
            start = has_gradient.index(False) * size
            each = f" of each {parts * size}" * (heads > 1)
            yield f"rows {start} to {start + size - 1}{each}"
            return


def unregistered(subject: Subject) -> Found:
    """An optimiser is given everything that can be trained: no attribute of a part of the module
    holds tensors or modules, in a list perhaps, where `module.parameters()` does not find them.
    """
    known = set(subject.module.parameters())
    for part in subject.module.modules():
        for name, value in vars(part).items():
            if not known.issuperset(_trainable(value)):
                yield "unregistered", name


def _trainable(value: Any) -> Iterator[Tensor]:
    """Yield the tensors that can be trained in the value of an attribute: of a tensor itself, of a
    module its parameters, of a list or tuple those of its items.
    """
    if isinstance(value, list | tuple):
        for item in value:
            yield from _trainable(item)
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
        yield value


def training(subject: Subject) -> Found:
    """In training, with dropout, padding gets no weight; and dropout does not come before the
    softmax, where it sets scores to 0.
    """
    with unchanged(subject.module), dropout(subject.module, 0.5):
        for part in subject.module.modules():  # but for batch norms, which would mix rows
            part.training = not isinstance(part, nn.modules.batchnorm._NormBase)
        result = subject.run(subject.inputs)
    most = float(subject.weight_on_padding(result).max())
    if _zeros(result) > _zeros(subject.masked) + DROPPED:
        yield "dropout-before-softmax"
    elif most > TINY:
        yield "mask-in-training", most


def _zeros(result: Result) -> float:
    """Return the largest share of zeros in what a softmax was given; 0 without a softmax."""
    shares = [float((scores == 0).float().mean()) for scores, _ in result.watch.softmaxes]
    return max(shares, default=0.0)
