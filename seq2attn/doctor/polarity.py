"""Finds the form of a mask that keeps padding out, and says what the mask means.

A form is the expression that a call gives for its mask, such as `~valid[:, None]`, where valid
(B, S) is True for tokens. Doubts say how unlikely it is that a call is the one that was meant: 0 is
beyond doubt. A meaning is a reading of the arguments' names: which one is the mask, which ones are
the keys, and so on.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import pad

from seq2attn.doctor.call import B, Call, Inputs, padded
from seq2attn.doctor.forms import MEANT, Meaning, forms_of_mask, means_padding
from seq2attn.doctor.masks import padding, padding_amount
from seq2attn.doctor.roles import masks_of
from seq2attn.doctor.said import documented_by
from seq2attn.doctor.subject import ALL, CLOSE, TINY, Result, Subject, least_doubtful, unchanged
from seq2attn.doctor.words import OF_LENGTHS, OF_TOKENS, WORDS, role_of, words
from seq2attn.errors import error_text
from seq2attn.findings.engine import listed

DOUBTS = {"padding-mixed": 0.9, "not-finite": 1.5, "mask-ignored": 2.0, "mask-inverted": 3.0}
"""of a form with which the rule of padding has this finding: if no form holds, the one with the
least doubts was meant"""
LEAKS = 1.0  # doubts of a form with any other finding
LEFT_OUT = 5.0  # doubts of a call without a mask, although an argument may be one
ON_LEFT = "padding is meant to be on the left"
ONES = "valid *", "~valid + valid *"  # for ids of padding that are 1
UNSEEN = 10.0  # doubts of a mask that takes none of its forms: another layout may be meant


def with_mask(subject: Subject, meaning: Meaning) -> Subject:
    """Return a subject that is called with a mask, in the first form that keeps padding out, or
    else in the least doubtful one: its `doubts` say how doubtful (see DOUBTS), and its
    `call_findings` what is to be said of the mask.

    If the mask takes no form, the call stays without it, and its doubts are UNSEEN. If this meaning
    has no mask, they are LEFT_OUT if an argument may be one, and otherwise 0.
    """
    mask = meaning.mask
    if subject.call.embeddings and not masks_of(meaning.roles):
        return _with_mask_of_ids(subject)
    # no mask, neither as an argument nor in a statement before the call, such as `set_mask(MASK)`
    if not mask and "MASK" not in subject.call.first:
        # a mask that must be given, though, got None
        needed = [name for name in meaning.roles["mask"] if meaning.names[name]]
        told = [not_examined(name, "None works") for name in needed[:1]]
        return replace(subject, call_findings=told, doubts=LEFT_OUT * bool(masks_of(meaning.roles)))
    tried, problems = _tried(subject, meaning)
    if not tried:
        # a fault if the name tells that it is a mask of padding, or if no form can ever work
        is_fault = words(mask) & MEANT or isinstance(problems[0], NameError)
        code = "mask-crash" if is_fault else "mask-not-examined"
        told = [(code, {"name": mask, "by": error_text(problems[0])})]
        return replace(subject, call_findings=told, doubts=UNSEEN)
    best = _with_one_sign(least_doubtful(tried), meaning.roles["mask"])
    left = replace(best, inputs=best.inputs._replace(valid=best.inputs.valid.flip(1)))
    # the last place is read, which is a token's if padding is on the left
    if best.doubts and not subject.has_own_places and not listed(padding(left)):
        return replace(subject, call_findings=[not_examined(mask, ON_LEFT)])
    return replace(best, call_findings=list(_meaning(best.call, holds=not best.doubts)))


def _with_mask_of_ids(subject: Subject) -> Subject:
    """Return a subject that is called with ids of padding, which are 0, or else 1, if it makes a
    mask of ids. Otherwise, and if padding raises an error or has to be on the left, return it
    without padding.
    """
    name, form = next(one for one in subject.call.expressions.items() if "valid" in one[1])
    inputs = subject.inputs._replace(valid=padded(B, subject.length))
    masked = replace(subject.called(mask=name, form=form, needs_mask=True), inputs=inputs)
    why = ""  # padding is not examined
    try:
        if not _heeds_ids(masked):
            return subject
        if listed(padding(masked)):
            ones = masked.called(form=form.replace(*ONES))
            masked = masked if listed(padding(ones)) else ones
        if listed(padding_amount(masked)) and _is_padded_left(masked):
            why = ON_LEFT
    except Exception as error:
        why = error_text(error)
    if why:
        return replace(subject, call_findings=[not_examined(name, why)])
    return replace(masked, doubts=LEAKS * bool(listed(padding(masked))))


def not_examined(mask: str, why: str) -> tuple[str, Any]:
    """Return the finding that a mask was not examined, with its evidence."""
    return "mask-not-examined", {"name": mask, "by": why}


def _heeds_ids(subject: Subject) -> bool:
    """Return whether padding with another id than 0, but with the same vector, gives another result
    than padding.
    """
    other = subject.called(form=subject.call.form.replace(*ONES))
    with unchanged(subject.module):
        for name in subject.call.embeddings:
            vectors = subject.module.get_parameter(f"{name}.weight")
            vectors[1] = vectors[0]
        return subject.difference(other.masked.all_rows, subject.masked.all_rows) > TINY


def _is_padded_left(subject: Subject) -> bool:
    """Return whether more columns of padding on the left change nothing."""
    inputs = subject.inputs._replace(valid=subject.inputs.valid.flip(1))
    wider = torch.cat([inputs.keys[:, :2], inputs.keys], dim=1)
    output = subject.output(Inputs(inputs.query, wider, pad(inputs.valid, (2, 0))))
    before = subject.output(inputs)
    return subject.difference(output[:, -before.size(1) :], before) < CLOSE


def _tried(subject: Subject, meaning: Meaning) -> tuple[list[Subject], list[Exception]]:
    """Return the subject in each form of its mask that works, with its doubts, up to the first form
    that keeps padding out; and what the forms raised that do not work.
    """
    tried: list[Subject] = []
    problems: list[Exception] = []
    codes: set[str] = set()  # of what the rule of padding found, in all forms so far
    inputs = subject.inputs._replace(valid=padded(B, subject.length))  # with padding
    for form in forms_of_mask(meaning):
        # lengths as shares of the longest, the last form, are tried only if another did nothing
        if form == WORDS["of_lengths"][-1] and tried and "mask-ignored" not in codes:
            break
        other = replace(subject.called(mask=meaning.mask, form=form), inputs=inputs)
        try:
            output = other.masked.all_rows
            if any(torch.equal(output, one.masked.all_rows) for one in tried):
                continue  # this form means what an earlier one does
            # a mask of another layout may have broadcast
            if not _shapes(other.unmasked) == _shapes(other.masked) == _shapes(subject.unmasked):
                raise ValueError(f"the result becomes {tuple(output.shape)}")
            if len(masks_of(meaning.roles)) > 1 and _hides_query(other):
                raise ValueError("it hides the query where nothing is padding")
            found = [code for code, *_ in listed(padding(other))]
            is_lost = found and role_of(meaning.mask) == "mask"
            if problems and form in OF_LENGTHS and (is_lost or "mask-ignored" in found):
                # an argument that refuses masks, and ignores lengths, or does not hide padding if
                # it is given lengths, is neither: it takes any numbers of this shape
                raise ValueError("lengths have no effect in place of a mask")
        except Exception as error:
            problems.append(error)
            continue
        codes.update(found)
        doubts = max((DOUBTS.get(code, LEAKS) for code in found), default=0)
        tried.append(replace(other, doubts=doubts))
        if not found:  # it keeps padding out
            break
    return tried, problems


def _with_one_sign(subject: Subject, masks: Sequence[str]) -> Subject:
    """Return a subject whose other masks, which hide nothing, mean by True what its own one means;
    unchanged if they do not take that, or hide the query, or let padding through.
    """
    given, no = subject.call.expressions, "~" * ("~" in subject.call.form)
    texts = {name: no + given[name].removeprefix("~") for name in masks if name in given}
    other = subject.called(expressions={**given, **texts})
    with contextlib.suppress(Exception):
        found = listed(padding(other))
        if not _hides_query(other) and len(found) <= len(listed(padding(subject))):
            return replace(other, doubts=subject.doubts * bool(found))
    return subject


def _hides_query(subject: Subject) -> bool:
    """Return whether another query changes no weights, with all keys valid."""
    inputs, weights = subject.inputs.unpadded, subject.unmasked.weights
    if inputs.query is None or not weights:
        return False
    return all(map(torch.equal, weights, subject.run(inputs.changed_at(ALL, "query")).weights))


def _shapes(result: Result) -> list[Any]:
    """Return the shape of the output, and those of the weights, (L, S), without rows of the batch
    and heads, as heads that are all alike count as one.
    """
    return [result.output.shape, *(one.shape[2:] for one in result.weights)]


def _meaning(call: Call, holds: bool) -> Iterator[Any]:
    """Yield the finding on what a mask means, if there is one, with its evidence: the mask is added
    to scores, True means the opposite of what its documentation or its name says, or True means
    padding, and neither says so. That it is added is a fault, `mask-added`, if the documentation or
    the name promises that True or False does something, and otherwise a fact, `mask-is-added`.

    The form that was found tells what the mask does: valid or ~valid, a sum of it (lengths, which
    cannot be inverted), or 0 and -inf, to be added. holds: no padding gets through in this form.
    """
    is_inverse = "~" in call.form  # True = padding
    # what True is said to mean: padding (True), tokens (False), or nothing is said (None)
    is_padding, quoted = documented_by(call.attention, call.mask)
    by = f'its documentation, "{quoted}",'
    if is_padding is None and words(call.mask) & (MEANT | OF_TOKENS):
        is_padding, by = means_padding(call.mask), "its name"
    about = {"name": call.mask, "by": by}
    if "torch.where" in call.form:
        # a docstring that says that 0 stands for tokens may mean a mask that is added
        is_number = quoted.startswith("0") and is_padding
        is_told = is_padding is not None and not is_number
        yield "mask-added" if is_told else "mask-is-added", about
    elif holds and is_padding not in (None, is_inverse) and call.form not in OF_LENGTHS:
        yield "mask-inverted", about
    elif is_inverse and not is_padding:  # nothing says so, or padding gets through anyway
        yield "polarity"
