"""The rules that every model keeps, whichever parts it is made of.

Each rule is a function of a `Subject`, called `check_` and its name, that yields what it finds:
codes of the catalogue with their evidence. Only the first counts. A rule may leave its subject in
training mode or with gradients, so each needs a new subject.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import pad

from seq2attn.contract.subject import B, L, Subject, differ, form, returned
from seq2attn.data.batches import valid_mask
from seq2attn.data.vocabulary import PAD, SPECIAL
from seq2attn.findings.engine import Found, Rules
from seq2attn.model.attention import Attention
from seq2attn.model.cells import Cell
from seq2attn.model.normalisers import Normaliser
from seq2attn.model.points import At, Point, Rank, hooked_places, points_of

STRAIGHT_THROUGH = "straight_through"


def check_shape(subject: Subject) -> Found:
    """Results of parts, encoded sources, first states, logits and weights have the right shapes and
    types; logits and weights are finite.

    What broadcasts would pass silently otherwise, and a number of another type would slow down all
    that follows.
    """
    for name, result, expected in returned(subject):
        found, right = form(result), form(expected)
        if found != right:
            yield "form", name, found, right
    if not subject.forward().isfinite().all():
        yield "not-finite-result"


def check_randomness(subject: Subject) -> Found:
    """In evaluation the same strings give the same result.

    A part that draws random numbers outside training, or counts its calls, breaks this.
    """
    if not torch.equal(subject.forward(), subject.forward()):
        yield "other-result"


def check_arguments(subject: Subject) -> Found:
    """No part changes in place what it is given: tokens, lengths, masks, memory or state.

    Nothing is yielded: torch raises an error where a tensor that was made in `inference_mode` is
    changed outside it, and only the error's text is exchanged here, so that the line stays known.
    """
    model = subject.model
    with torch.inference_mode():
        batch = subject.batch.select(torch.arange(B))  # a copy, made in this mode
        memory, state = model.encode(batch.source, batch.source_lengths)
    try:
        with torch.no_grad():
            model(batch)
            model.step(batch.decoder_input[:, 0], state, memory)
    except RuntimeError as error:
        if "inference tensor" in str(error):
            error.args = ("an argument is changed in place; make a new tensor",)
        raise
    yield from ()


def check_mask(subject: Subject) -> Found:
    """Weights are not below 0, and are 0 on padding; a row in which no key is allowed has no
    weights, and passes no gradient to its scores. Not checked without attention.

    If the normaliser says that its weights sum to one, each row sums to 1 or to 0. Any row may sum
    to 0, as rows past a string's end do, and those in which no key is allowed. Where a window's
    factor or a history takes weight away, any sum up to 1 is right. Weights of a normaliser or
    history that is `signed` may be below 0, and sum to anything.
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
        closed = normaliser(scores, torch.zeros_like(scores).bool())
        (gradients,) = torch.autograd.grad(closed.sum(), scores)
        if closed.any() or gradients.any():
            yield "closed-row"
    if signed or not attention.normaliser.sums_to_one:
        return
    is_exact = attention.history.sums_to_one  # no history takes weight away
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
    expected = model(batch).logits  # (B, L, V)
    with torch.no_grad():
        memory, state = model.encode(batch.source, batch.source_lengths)
        # other strings, whose keys no part may confuse with those above
        model.encode(batch.source.flip(0), batch.source_lengths.flip(0))
        for position, tokens in enumerate(batch.decoder_input.unbind(1)):
            step, state = model.step(tokens, state, memory)
            real = batch.decoder_lengths > position  # (B,) rows that have not ended
            if differ(step.logits[real, 0], expected[real, position]):
                yield "steps", position


def check_padding(subject: Subject) -> Found:
    """Results depend neither on what padding holds nor on how much of it there is.

    A part that reads the width of the batch, or averages over all positions, breaks this.
    """
    batch = subject.batch
    wider = pad(batch.source, (0, 2), value=PAD)
    garbage = wider.masked_fill(wider == PAD, len(SPECIAL))  # a symbol in place of padding
    if differ(subject.forward(replace(batch, source=garbage)), subject.forward()):
        yield "reads-padding"


def check_batch(subject: Subject) -> Found:
    """A row has the same result alone as in a batch.

    A part that normalises over the batch breaks this.
    """
    alone = subject.forward(subject.batch.select(slice(1, 2)))  # the second of three rows
    if differ(alone, subject.forward()[1:2]):
        yield "reads-rows"


def check_training(subject: Subject) -> Found:
    """The first call makes no parameter and no buffer, nor puts a new one in the place of another;
    and a step of training has finite gradients, and changes no buffer that checkpoints leave out.

    Otherwise a resumed training would differ from an uninterrupted one, or its checkpoint could not
    be loaded.
    """
    model = subject.model
    saved = model.state_dict(keep_vars=True)  # the tensors themselves, which `is` can compare
    # what this first call makes comes too late: the optimiser does not know a new parameter, and a
    # new model has no place for it, or for a new buffer, when it loads a checkpoint
    subject.forward()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor is not saved.get(name):
            yield "made-late", name
    model.train()
    # buffers that a checkpoint leaves out
    unsaved = {name: buffer.clone() for name, buffer in model.named_buffers() if name not in saved}
    subject.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            yield "gradient-infinite", name
    for name, before in unsaved.items():
        if not torch.equal(model.get_buffer(name), before):
            yield "unsaved-buffer", name


def check_context(subject: Subject) -> Found:
    """The weights that a model returns are those with which it averaged the values.

    Those used are caught by a hook. Not checked for several heads, which are no `Attention`; nor
    for decoders that attend several times at a position; nor for those that read no context, so
    that no hook may replace it (`fixed`).
    """
    attention = subject.model.decoder.attention
    if not isinstance(attention, Attention) or attention.context.fixed:
        return
    (caught,) = _passing(subject, [attention.weights]).values()
    used = torch.cat(caught, dim=1)
    weights = subject.forward()[..., -subject.width :]  # (B, L, S), 0 past a row's end
    if used.shape == weights.shape:  # otherwise it attends more than once at each position
        real = valid_mask(subject.batch.decoder_lengths, L)
        if differ(weights[real], used[real]):
            yield "other-weights"


def check_state(subject: Subject) -> Found:
    """A cell's hidden state comes first: if another tensor of its state is bounded, so is the
    first.

    (c, h) in place of (h, c) breaks this: of an LSTM, c may grow, and h = o * tanh(c) may not. So
    the rule takes one step from a state of large numbers, which only a tensor that is not bounded
    keeps.
    """
    for cell in subject.parts(Cell):
        state = 1000 * subject.draw(cell.state_tensors, B, cell.width)
        after = cell.step(cell.project_input(subject.draw(B, cell.input_width)), state.unbind())
        largest = torch.stack(after).abs().amax(dim=(1, 2))  # of each tensor
        # bounded means by 1, and 10 is far above that
        if largest[0] > 10 and largest.min() <= 1:
            yield "state-order"


def check_points(subject: Subject) -> Found:
    """A value passes through every point of the parts that are checked (`Point`, where hooks may
    see and change values), or hooks and caches would miss it.
    """
    points: dict[Point, str] = {}  # the names of attributes, by the points in them
    for part in subject.parts():
        points |= {point: attribute for attribute, _, point in points_of(part)}
    passing = _passing(subject, points)
    for point, name in points.items():
        if not passing[point]:
            yield "point-missed", name


def _passing(subject: Subject, points: Iterable[Point]) -> dict[Point, list[Tensor]]:
    """Return the values that pass each of these points, in order, while the model is called with
    the subject's batch, as other hooks leave them: those of `Rank.CACHE` come last.
    """
    passing: dict[Point, list[Tensor]] = {point: [] for point in points}

    def note(value: Tensor, at: At) -> None:
        passing[at.point].append(value)

    with hooked_places(dict.fromkeys(passing, note).items(), Rank.CACHE):
        subject.forward()
    return passing


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
    """Gradients agree with finite differences: that of a random sum of all results, with all
    parameters moved along one random direction.

    Not checked for a part that declares `gradient = "straight_through"`: it returns another
    gradient on purpose, as its function has steps.
    """
    if any(getattr(part, "gradient", "") == STRAIGHT_THROUGH for part in subject.parts()):
        return
    parameters = {name: one.detach() for name, one in subject.model.named_parameters()}
    direction = {name: subject.draw(*one.shape) for name, one in parameters.items()}
    factors = subject.draw(*subject.forward().shape)

    def total(step: Tensor) -> Tensor:
        moved = {name: one + step * direction[name] for name, one in parameters.items()}
        return (factors * subject.forward(parameters=moved)).sum()

    start = torch.zeros((), dtype=torch.float64, requires_grad=True)
    if not gradcheck(total, start, raise_exception=False):
        yield "wrong-gradients"


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
