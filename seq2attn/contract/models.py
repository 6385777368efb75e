"""The rules that every model keeps, whichever parts it is made of.

Each rule is a function of a `Subject`, called `check_` and its name, that yields what it finds:
codes of the catalogue with their evidence. Only the first counts. A rule may leave its subject in
training mode or with gradients, so each needs a new subject.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from seq2attn.contract.shapes import check_shape
from seq2attn.contract.subject import B, L, Subject, differ
from seq2attn.data.batches import valid_mask
from seq2attn.findings.engine import Found, Rules
from seq2attn.model.attention import Attention
from seq2attn.model.cells import Cell
from seq2attn.model.normalisers import Normaliser
from seq2attn.model.points import At, Point, Rank, hooked_places, points_of

STRAIGHT_THROUGH = "straight_through"
LARGE = 1000  # the size of numbers that a bounded state does not keep
SMALL = 1e-6  # the step of central differences


def check_randomness(subject: Subject) -> Found:
    """In evaluation the same strings give the same result.

    A part that draws random numbers outside training, or counts its calls, breaks this.
    """
    if not torch.equal(subject.forward(), subject.forward()):
        yield "other-result"


def check_arguments(subject: Subject) -> Found:
    """No part changes what it is given in place: tokens, lengths, masks, memory or state."""
    model, batch = subject.model, subject.batch
    yield from _changed(vars(batch), subject.forward)
    memory, state = model.encode(batch.source, batch.source_lengths)
    given = {"memory": memory, "state": state}
    yield from _changed(given, lambda: model.step(batch.decoder_input[:, 0], state, memory))


def _changed(given: Mapping[str, Any], call: Callable[[], object]) -> Found:
    """Yield a finding for each tensor in `given` that a call changes in place.

    given: what the call gets, by name.
    """
    tensors = dict(_tensors(given))
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    call()
    for name, tensor in tensors.items():
        if not torch.equal(tensor, before[name]):
            yield "argument-in-place", name


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor in nested mappings and tuples, after the way to it, `memory.valid`.

    name: the way to `value`; empty at the top.
    """
    if isinstance(value, Tensor):
        yield name, value
    if isinstance(value, tuple):
        value = dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _tensors(member, f"{name}.{key}" if name else str(key))


def check_mask(subject: Subject) -> Found:
    """Weights are not below 0, and are 0 on padding; a row in which no key is allowed passes no
    gradient to its scores. If the normaliser says that its weights sum to one, `_row_sums` checks
    their rows. Weights of a normaliser or history that is `signed` may be below 0, and sum to
    anything. Not checked without attention.
    """
    attention = subject.model.decoder.attention
    if not isinstance(attention, Attention):
        return
    # an `Attention` returns weights: they stand behind the logits
    weights = subject.forward()[..., -subject.width :]  # (B, L, S)
    signed = attention.normaliser.signed or attention.history.signed
    if not signed and (weights < 0).any():
        yield "weights-below-0"
    if weights.masked_select(~subject.valid).any():
        yield "weight-on-padding"
    for normaliser in subject.parts(Normaliser):  # called alone, with no key allowed
        scores = subject.draw(B, L, subject.width).requires_grad_()
        total = normaliser(scores, torch.zeros_like(scores).bool()).sum()
        (gradients,) = torch.autograd.grad(total, scores)
        if gradients.any():
            yield "closed-row"
    if attention.normaliser.sums_to_one and not signed:
        yield from _row_sums(subject, attention, weights)


def _row_sums(subject: Subject, attention: Attention, weights: Tensor) -> Found:
    """Yield wrong sums of rows of weights (B, L, S). A sum is right if it is 1, or 0, as where no
    key is allowed (whether none is, is not looked up). Where a window's factor or a history takes
    weight away, any sum up to 1 is right.
    """
    is_exact = attention.history.sums_to_one
    if attention.window is not None:
        # any query: whether there is a factor does not depend on it
        query = subject.draw(B, 1, attention.score.query_width)
        view = attention.window(query, subject.batch.source_lengths, subject.width, 0)
        is_exact = is_exact and view.factor is None
    for total in weights.sum(dim=2).flatten().tolist():
        is_one_or_none = min(abs(total), abs(total - 1)) < 1e-4
        if not is_one_or_none and (is_exact or total > 1):
            yield "row-sum", total


def check_steps(subject: Subject) -> Found:
    """Single steps without gradients give what teacher forcing gives, all steps in one call.

    A part breaks this that looks at later queries, or that keeps the keys of the last strings.
    """
    model, batch = subject.model, subject.batch
    expected = subject.forward()
    with torch.no_grad():
        memory, state = model.encode(batch.source, batch.source_lengths)
        # other strings, whose keys no part may confuse with those above
        model.encode(batch.source.flip(0), batch.source_lengths.flip(0))
        for position, tokens in enumerate(batch.decoder_input.unbind(1)):
            step, after = model.step(tokens, state, memory)
            real = batch.decoder_lengths > position  # (B,) rows that have not ended
            results = subject.results_of(step)  # (B, 1, V + S)
            if differ(results[real, 0], expected[real, position]):
                yield "steps", position
            state = after


def check_padding(subject: Subject) -> Found:
    """Results depend neither on what padding holds nor on how much of it there is.

    A part that reads the width of the batch, or averages over all positions, breaks this.
    """
    expected = subject.forward()
    for batch in subject.other_padding():
        if differ(subject.forward(batch), expected):
            yield "reads-padding"


def check_batch(subject: Subject) -> Found:
    """A row has the same result alone as in a batch.

    A part that normalises over the batch breaks this.
    """
    results = subject.forward()
    for row in range(len(results)):
        here = slice(row, row + 1)
        alone = subject.forward(subject.batch.select(here))
        if differ(alone, results[here]):
            yield "reads-rows"


def check_training(subject: Subject) -> Found:
    """A step has a finite loss and finite gradients, makes no parameter and no buffer, and changes
    no buffer that checkpoints leave out.

    Otherwise a resumed training would differ from an uninterrupted one, or its checkpoint could not
    be loaded.
    """
    model = subject.model
    saved, parameters = model.state_dict(), set(model.parameters())
    # parameters and buffers that this first call makes come too late: the optimiser does not know
    # them, and a new model has no place for them when it loads a checkpoint
    subject.forward()
    model.train()
    # buffers that a checkpoint leaves out
    unsaved = {name: buffer.clone() for name, buffer in model.named_buffers() if name not in saved}
    loss = subject.backward()
    if not abs(loss) < torch.inf:  # nor NaN
        yield "loss-infinite", loss
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        if parameter not in parameters:
            yield "late-parameter", name
        if gradient is not None and not gradient.isfinite().all():
            yield "gradient-infinite", name
    buffers = dict(model.named_buffers())
    for name in sorted(model.state_dict().keys() - saved.keys()):
        if name in buffers:  # and not a late parameter
            yield "late-buffer", name
    for name, before in unsaved.items():
        if not torch.equal(model.get_buffer(name), before):
            yield "unsaved-buffer", name


def check_context(subject: Subject) -> Found:
    """The weights that a model returns are those that it used: its contexts are the values,
    averaged with them.

    Contexts are caught by a hook. Not checked for several heads, nor for decoders that attend
    several times at a position, or read no context: their `context` is `fixed`.
    """
    model, batch, attention = subject.model, subject.batch, subject.model.decoder.attention
    if not isinstance(attention, Attention) or attention.context.fixed:
        return
    contexts: list[Tensor] = []
    # (`append` returns None, which leaves the context as it is)
    hooks = [(attention.context, lambda context, _: contexts.append(context))]
    with hooked_places(hooks, Rank.CACHE):
        weights = model(batch).weights
    memory, _ = model.encode(batch.source, batch.source_lengths)
    averaged = weights @ memory.values  # (B, L, Dv)
    # (B, L, Dv) without what a history adds to a context, which follows the averaged values
    context = torch.cat(contexts, dim=1)[..., : averaged.size(2)]
    if context.shape == averaged.shape:  # one head, and once at each position
        real = valid_mask(batch.decoder_lengths, L)
        if differ(averaged[real], context[real]):
            yield "other-weights"


def check_state(subject: Subject) -> Found:
    """A cell's hidden state comes first: if another tensor of its state is bounded, so is the
    first.

    (c, h) in place of (h, c) breaks this: of an LSTM, c may grow, and h = o * tanh(c) may not. So
    the rule takes one step from a state of `LARGE` numbers, which only a tensor that is not bounded
    keeps.
    """
    for cell in subject.parts(Cell):
        state = tuple(LARGE * subject.draw(B, cell.width) for _ in range(cell.state_tensors))
        after = cell.step(cell.project_input(subject.draw(B, cell.input_width)), state)
        first, *others = [float(tensor.detach().abs().max()) for tensor in after]
        # bounded means by 1, and 10 is far above that; a single tensor has no order (`default`)
        if first > 10 and min(others, default=first) <= 1:
            yield "state-order"


def check_points(subject: Subject) -> Found:
    """A value passes through every point of the parts that are checked (`Point`, where hooks may
    see and change values), or hooks and caches would miss it.
    """
    points = {}  # the names of attributes, by the points in them
    for part in subject.parts():
        for attribute, _, point in points_of(part):
            points[point] = attribute
    passed: set[Point] = set()
    hooks = {point: partial(_pass, passed, point) for point in points}
    with hooked_places(hooks.items(), Rank.CACHE):
        subject.forward()
    for point, name in points.items():
        if point not in passed:
            yield "point-missed", name


def _pass(passed: set[Point], point: Point, value: Tensor, at: At) -> None:
    passed.add(point)


def check_parameters(subject: Subject) -> Found:
    """Every parameter of the parts that are checked receives a gradient, unless it is frozen.

    A parameter without a gradient was forgotten in the formula.
    """
    subject.backward()
    for part in subject.parts():
        for name, parameter in part.named_parameters():
            if parameter.requires_grad and parameter.grad is None:
                yield "no-gradient", name


def check_gradients(subject: Subject) -> Found:
    """The gradient of a random sum of all results agrees with a central difference in a random
    direction: all parameters are moved along it together, so that one number, `step`, is what
    results depend on.

    Not checked for a part that says otherwise: `gradient = "straight_through"`.
    """
    if any(getattr(part, "gradient", "") == STRAIGHT_THROUGH for part in subject.parts()):
        return
    parameters = {
        name: parameter.detach()
        for name, parameter in subject.model.named_parameters()
        if parameter.requires_grad
    }
    direction = {name: subject.draw(*tensor.shape) for name, tensor in parameters.items()}

    def results(step: Tensor) -> Tensor:
        moved = {name: tensor + step * direction[name] for name, tensor in parameters.items()}
        decoded = functional_call(subject.model, moved, subject.batch)
        # (N, V + S): without what stands past the ends of rows
        return subject.results_of(decoded)[valid_mask(subject.batch.decoder_lengths, L)]

    if not has_right_slope(results, subject.draw):
        yield "wrong-gradients"


def has_right_slope(results: Callable[[Tensor], Tensor], draw: Callable[..., Tensor]) -> bool:
    """Return whether the gradient of results that depend on one number agrees, where that is 0,
    with a central difference.

    results: given that number, a tensor (), returns a tensor of any shape. draw: returns random
        numbers of a shape; with such numbers as factors, the results are summed, so that the
        gradient is one number, too.
    """
    zero = torch.zeros_like(draw()).requires_grad_()  # () of the type that `draw` gives
    here = results(zero)
    factors = draw(*here.shape)
    (gradient,) = torch.autograd.grad((factors * here).sum(), zero)
    with torch.no_grad():
        change = results(zero + SMALL) - results(zero - SMALL)
    difference = (factors * change).sum() / (2 * SMALL)
    return torch.allclose(gradient, difference, rtol=1e-5, atol=1e-7)


WHILE_TRAINING: Rules = {
    "shape": check_shape,
    "arguments": check_arguments,
    "randomness": check_randomness,
    "steps": check_steps,
    "mask": check_mask,
    "batch": check_batch,
    "padding": check_padding,
    "training": check_training,
}
"""the rules that the foreign parts of a config must keep before they are trained, in the precision
of training"""
RULES: Rules = {
    **WHILE_TRAINING,
    "context": check_context,
    "state": check_state,
    "points": check_points,
    "parameters": check_parameters,
    "gradients": check_gradients,
}
"""all rules in the order in which they are checked, in float64 except `shape`"""
