"""Rules of lengths, memory layouts, types, large numbers, gradients, training and scores."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import Inputs
from seq2attn.doctor.names import CACHES, ROLES, function_of, required, said_of, words
from seq2attn.doctor.rows import dropout
from seq2attn.doctor.scale import scales
from seq2attn.doctor.scores import Sample, clear_biases, compare, match
from seq2attn.doctor.subject import ALL, CLOSE, TINY, Result, Subject, unchanged
from seq2attn.findings.engine import TEXTS, Found, listed

MANY = 500  # keys of a long source
SCALE, ROWS = 30, 150  # large inputs: what they are multiplied by, and how many rows are tried
LOST = 0.01  # share of weight that valid keys may lose at large inputs; of a factor that has a name
MOST = 0.5  # a share that only a softmax of large scores has
STEP = 1e-3  # of finite differences
SLIGHT = 1e-5  # a slope of one place, of which rounding in float32 may make as much
SHARE = 0.03  # by which a gradient may differ from them
DROPPED = 0.05  # share of scores that dropout sets to 0, at least
LAYERS = (nn.Linear, nn.MultiheadAttention)  # others, such as tables, may use a few rows only
MASKS = ROLES["mask"] | CACHES
SCALED = r"(?<!un)scaled|sqrt|√"  # what a name or a docstring says of a factor,
DENIED = (
    r"\b(no|not|without|never)\b[^.,;:\n]*|[^.,;:\n]*\b(folded|absorbed|initiali\w+)\b[^.,;:\n]*"
)
"""unless it stands in such a phrase"""
PROMISED = r"(sqrt|√)\W{0,3}(d_?k|d_?h|\w*head|d\b)"  # the right factor, in a docstring
NEVER = {"width", "inverse", "sign"}
"""factors that are mistakes whatever is said, but for 1 / D, with which some parametrise layers"""
OVER_WIDTH = r"\bmup\b|µp|maximal update|(?<!sqrt\()/ ?d\b"


def length(subject: Subject) -> Found:
    """Sources may be short or long, but for images, which are square."""
    for keys in () if subject.call.after else (1, MANY):
        if not subject.is_finite(subject.draw(keys).free):
            yield "length", f"NaN with {keys} keys"


def order(subject: Subject) -> Found:
    """If the order of a few keys changes nothing, that of many changes nothing either, unless keys
    are visited in blocks and a running maximum or sum is wrong.

    Nothing is examined where there is a window, as the last row then does not see the first or the
    last of many keys; nor where a part has a number for the size of blocks, which
    `positions.blocks` examines, or of segments.
    """
    if subject.by_position or subject.is_local:
        return
    given = subject.draw(MANY, rows=2).free
    output = subject.output(given)[:, -1]
    moved = [subject.output(given.moved((ALL, place), "keys"))[:, -1] for place in (0, -1)]
    if any(torch.equal(output, other) for other in moved):  # a key that the last row does not see
        return
    by = subject.of_order(given)
    if by > CLOSE:
        yield "order", by


def strides(subject: Subject) -> Found:
    """Keys may lie in memory as a transposed encoder output does."""
    given = subject.given.free
    other = given.keys.transpose(0, 1).contiguous().transpose(0, 1)
    if subject.change(given._replace(keys=other)).max() > CLOSE:
        yield "strides", "results differ"


def overflow(subject: Subject) -> Found:
    """Large inputs neither overflow nor underflow: valid keys keep the sum of their weights. If a
    mask fills in -100, say, padding takes some of it where scores are as large.
    """
    given = subject.draw(rows=ROWS)
    large = given.times(SCALE)
    large = large._replace(values=large.keys)  # and not their cosines, which are small
    if not subject.is_finite(large):
        yield "overflow"
        return
    is_counted = given.valid[:, None, None] & subject.real(given)[:, None]  # (B, 1, L, S)
    for pair in zip(subject.run(given).weights, subject.run(large).weights, strict=True):
        before, after = (weights.masked_fill(~is_counted, 0).sum(-1) for weights in pair)
        low = float((after - before).min())
        if low < -LOST:
            yield "underflow", 1 + low  # as weights that are right sum to 1 before
            return


def twice(subject: Subject) -> Found:
    """The softmax is applied once, and not to the smallest scores alone.

    A softmax that is given the very tensor that another one returned is seen by `Watch`. Otherwise
    large inputs show it: the logarithms of the weights give back what the last softmax was applied
    to. If these numbers may be weights themselves, and one is as large as only a softmax of large
    scores makes it, they come from another softmax.
    """
    if subject.free.watch.is_twice:
        yield "softmax-twice"
        return
    if subject.free.watch.is_of_least:
        yield "least-kept"
    for weights in subject.run(subject.draw(rows=ROWS).free.times(SCALE)).weights:
        logs = weights[(weights > 0).all(-1)].log()
        # what the last softmax was applied to, up to a number that is the same for all keys: it is
        # chosen so that they sum to 1, as they do if a softmax made them
        first = logs - logs.mean(-1, keepdim=True) + 1 / subject.length
        if len(logs) and first.min() > -CLOSE and first.max() > MOST:
            yield "softmax-twice"


def half(subject: Subject) -> Found:
    """It runs in half precision."""
    for dtype in (torch.float16, torch.bfloat16):
        with unchanged(subject.module):
            subject.module.to(dtype)
            if not subject.is_finite(subject.given.to(dtype)):
                yield "half", f"NaN in {dtype}"
                return


# ---- gradients and training ----


def gradient(subject: Subject) -> Found:
    """Gradients of the query and of the keys are those of finite differences, unless
    `torch.no_grad` around the attention says that there are none.
    """
    # by a decorator, which may be `torch.no_grad`: then parameters get no gradient either
    if hasattr(function_of(subject.call.attention), "__wrapped__"):
        with torch.enable_grad():
            if not subject.output(subject.given.free).requires_grad:
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
    given = subject.given.free.to(torch.float64)
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
            returned, _ = subject.raw(inputs(zero), is_watched=False)
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
    keys, if an argument that is no mask is left out, if keys are given that are projected already,
    or if most parameters get no gradient, as in a module that holds more than the attention: then
    those alone count that change the result. A number that is given as 0 may be a factor, and is 1
    here.
    """
    if subject.is_image:
        return
    call = subject.call
    ones = {name: "1.0" for name, text in call.given.items() if text == "0"}
    with_ones = replace(subject, call=replace(call, given={**call.given, **ones}))
    with contextlib.suppress(Exception):  # it is a whole number, such as a position
        with_ones.output(subject.given.free)
        subject = with_ones
    texts = {**call.given, call.mask: call.form}
    for name in required(function_of(call.attention)):
        is_given = texts.get(name, "None") != "None"
        if not (is_given or words(name) & MASKS) or words(name) & ROLES["again"]:
            return
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad}
    found: list[Any] = []  # gradients
    for given in (subject.given.free, subject.small().free):  # large inputs may saturate
        found.append(_gradients(subject, given, list(named.values())))
    dead = [name for name, gradient in zip(named, found[0], strict=True) if gradient is None]
    if len(dead) > len(named) / 2:
        dead = [name for name in dead if _is_used(subject, name)]
        if not dead:
            return
    # some keep in evaluation what they computed once: in training, gradients may reach the rest
    with unchanged(subject.module):
        subject.module.train()
        in_training = _gradients(subject, subject.given.free, [named[name] for name in dead])
    dead = [name for name, gradient in zip(dead, in_training, strict=True) if gradient is None]
    widths = {one.size(-1) for one in named.values() if one.dim() > 1}  # of inputs of layers
    widths |= {use.values.size(-1) for use in subject.free.uses}  # and of heads
    for name, usual, small in zip(named, *found, strict=True):  # its two gradients
        is_layer = isinstance(subject.module.get_submodule(name.rpartition(".")[0]), LAYERS)
        if is_layer and usual is not None and usual.dim() > 1:
            parts = _silent((usual.abs() + small.abs()).sum(1), widths)
            dead += [f"{name}, {part}" for part in parts]
    if dead:
        yield "dead-parameter", ", ".join(dead[:3])


def _is_used(subject: Subject, name: str) -> bool:
    """Return whether other numbers in a parameter give another result."""
    before = subject.free.output
    with unchanged(subject.module):
        parameter = subject.module.get_parameter(name)
        parameter.data = parameter.data + torch.randn_like(parameter)
        return subject.differ(subject.output(subject.given.free), before) > CLOSE


def _gradients(subject: Subject, given: Inputs, of: list[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradients of parameters in what is returned beside weights; None of those that do
    not reach it.
    """
    returned, _ = subject.raw(given, is_watched=False)
    results = [one for index, one in enumerate(returned) if index not in subject.shown]
    total = torch.stack([one.square().sum() for one in results or returned]).sum()
    if not total.requires_grad or not of:
        return [None] * len(of)
    return torch.autograd.grad(total, of, allow_unused=True)


def _silent(rows: Tensor, widths: set[int]) -> Iterator[str]:
    """Yield which half, third or quarter of the rows of a weight has no gradient while the others
    have one: in a joint projection to queries, keys and values, or to heads of keys, one of them is
    then not used.

    rows (N,): the sizes of the gradients of rows. widths: of the inputs of layers, and of heads; a
    part of another size is not a projection.
    """
    for parts in (2, 3, 4):
        pieces = [bool(piece.any()) for piece in rows.tensor_split(parts)]
        size = len(rows) // parts
        if any(pieces) and not all(pieces) and size in widths and len(rows) % parts == 0:
            start = pieces.index(False) * size
            yield f"rows {start} to {start + size - 1}"


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
    given = subject.given
    zeros = _zeros(subject.masked)
    for rate in (0.0, 0.5):
        with unchanged(subject.module), dropout(subject.module, rate):
            for part in subject.module.modules():  # but for batch norms, which would mix rows
                part.training = not isinstance(part, nn.modules.batchnorm._NormBase)
            result = subject.run(given)
            if _zeros(result) > zeros + DROPPED:
                yield "dropout-before-softmax"
                return
            most = float(subject.on_padding(result).max())
            if most > TINY:
                yield "mask-in-training", f"padding gets up to {most:.2g} of a row's weight"
                return
            if subject.is_causal:
                results = []
                for one in (given.free, given.free.moved((ALL, -1), "keys")):
                    torch.manual_seed(0)  # the same numbers are dropped
                    results.append(subject.output(one)[:, :-1])
                if (by := subject.differ(*results)) > CLOSE:
                    yield "mask-in-training", f"the last token changes an earlier row by {by:.2g}"
                    return


def _zeros(result: Result) -> float:
    """Return the largest share of zeros in what a softmax was given."""
    shares = [float((scores == 0).float().mean()) for scores, _ in result.watch.softmaxes]
    return max(shares, default=0.0)


# ---- scores ----


def score(subject: Subject) -> Found:
    """Name the score, or say how it differs from the one that is expected. If it has no name, say
    by what the product of queries and keys is multiplied. This rule comes last, since it changes
    parameters.
    """
    expected = subject.expect
    told = listed(_scaled(subject))  # findings on the factor, before the parameters change
    sample = _sample(subject)
    if sample is None:
        why = "there are several heads or layers, or weights of 0, or none were caught"
        if expected:
            yield "expected", {"expected": expected, "by": why}
        else:
            yield from told or [("score-unknown", why)]
    elif expected:
        code, why = compare(sample, expected, subject.scores)
        if code:
            yield "expected", {"expected": expected, "by": why}
    else:
        code, name, why = match(sample, subject.scores)
        if code == "score-unknown" and told:
            yield from told
            return
        yield code, {"name": name, "by": why}
        if code == "score":  # its formula is right, and its factor may not be the promised one
            yield from (one for one in told if one[0] != "scale")


def _sample(subject: Subject) -> Sample | None:
    """Return queries and keys with the logarithms of their weights, which are their scores up to a
    number for each query; None unless there is one head, in one layer, and no weight is 0.

    Parameters are moved, as some begin with 0. Of modules with one query at a time, two are joined,
    as the first alone would not show what the query does to the scores.
    """
    given = subject.draw().free
    for parameter in subject.module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    clear_biases(subject.module)
    several = [given]
    if given.query is not None and given.query.size(1) == 1:
        several.append(given._replace(query=given.query.flip(2)))
    queries: list[Tensor] = []
    weights: list[Tensor] = []
    for one in several:
        queries.append(one.keys if one.query is None else one.query)
        weights += subject.run(one).weights
    if len(weights) != len(several) or weights[0].size(1) > 1:  # one layer, one head
        return None
    joined = torch.cat(weights, dim=2)[:, 0]  # (B, L, S)
    if not (joined > 0).all():
        return None
    parameters = list(subject.module.parameters())
    return Sample(torch.cat(queries, dim=1), given.keys, joined.log(), parameters)


def _scaled(subject: Subject) -> Found:
    """Say by what the product of queries and keys is multiplied, in the first layer where that is
    found: `scale`, a fact, if it is the usual root, a number without a meaning, or 1 where nothing
    is said of a factor. Other factors are a `scale-mistake` if nobody means them, or if the
    docstring promises the root of the width, or else a `scale-factor`. Most are only known where
    the module itself splits its queries into heads.
    """
    # what is said, and the first lines alone, without phrases such as "not scaled"
    docs, line = (
        re.sub(DENIED, "", said_of(subject.call.attention, first).lower())
        for first in (False, True)
    )
    is_promised = re.search(PROMISED, docs)
    for factor, width, heads, is_normed in scales(subject):
        known = {"root": width**-0.5}  # factors that have a text in the catalogue
        if not is_normed and "unflatten" not in subject.call.text:  # it is not given heads
            known["all"] = (width * heads) ** -0.5
            known["width"] = 1 / width
            known["inverse"] = width**0.5
            known["keys"] = subject.length**-0.5
            if heads > 1:
                known["heads"] = heads**-0.5
        is_said = is_promised or re.search(SCALED, line)
        known["said" if is_said and not is_normed else "none"] = 1.0
        # where two are alike, as with as many heads as each is wide, the first is meant
        names = [name for name in known if abs(factor - known[name]) < LOST * factor]
        name = "sign" if factor < 0 else (names or ["other"])[0]
        text = TEXTS["scales"][name].format(by=1 / factor, width=width, all=width * heads)
        # sqrt(d) may mean the width of all heads
        is_root = is_promised and (name != "all" or is_promised[2] != "d")
        if name in ("root", "none", "other"):
            yield "scale", text
        elif is_root or (name in NEVER and not re.search(OVER_WIDTH, docs)):
            yield "scale-mistake", text
        else:
            yield "scale-factor", text
        return
