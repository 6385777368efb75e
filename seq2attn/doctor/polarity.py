"""Finds the form of a mask that keeps padding out, and says what the mask means."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from seq2attn.doctor.call import B, Call, padded
from seq2attn.doctor.forms import MEANT, Meaning, as_said, filled, forms_of_mask, means_padding
from seq2attn.doctor.masks import padding
from seq2attn.doctor.roles import masks_of
from seq2attn.doctor.said import documented_by
from seq2attn.doctor.subject import ALL, Result, Subject, least_doubtful
from seq2attn.doctor.words import OF_LENGTHS, OF_TOKENS, WORDS, words
from seq2attn.findings.engine import listed
from seq2attn.text import error_text

DOUBTS = {"padding-mixed": 0.9, "not-finite": 1.5, "mask-ignored": 2.0, "mask-inverted": 3.0}
"""of a form of the mask: if none holds, the usual one was meant"""
LEAKS = 1.0  # of any other finding
LEFT_OUT = 5.0  # of a call without the mask that there is
UNSEEN = 10.0  # doubts of a mask that takes none of its forms: another layout may be meant


def with_mask(subject: Subject, meaning: Meaning) -> Subject:
    """Return a subject that is called with a mask, in the first form that keeps padding out, or
    else in the least doubtful one: its `doubts` say how doubtful (see DOUBTS), and its
    `call_findings` what is to be said of the mask. If the mask takes no form, the call stays without it, and UNSEEN is the
    doubt. A call without a mask, although an argument may be one, is doubtful by LEFT_OUT.
    """
    mask = meaning.mask
    if not mask and "MASK" not in subject.call.first:  # this reading has no mask
        needed = [name for name in meaning.roles["mask"] if meaning.names[name]]
        told = [("mask-not-examined", {"name": name, "by": "None works"}) for name in needed[:1]]
        return replace(subject, call_findings=told, doubts=LEFT_OUT * bool(masks_of(meaning.roles)))
    tried, problems = _tried(subject, meaning)
    if not tried:
        # only where the name tells that it is such a mask is this its fault
        code = "mask-crash" if words(mask) & MEANT else "mask-not-examined"
        told = [(code, {"name": mask, "by": error_text(problems[0])})]
        return replace(subject, call_findings=told, doubts=UNSEEN)
    best = least_doubtful(tried)
    if together := _together(subject, best, meaning):
        return together
    return replace(best, call_findings=list(_meaning(best.call, holds=not best.doubts)))


def _tried(subject: Subject, meaning: Meaning) -> tuple[list[Subject], list[Exception]]:
    """Return the subject with each form of its mask that works, up to the first that keeps padding
    out; and what the forms before it raised that do not work.
    """
    mask, forms = meaning.mask, forms_of_mask(meaning)
    said = documented_by(subject.call.attention, mask)[1].lower()
    is_of_truth = bool(re.search(r"\b(true|1)\b", said))
    tried: list[Subject] = []
    problems: list[Exception] = []
    codes: set[str] = set()  # of what the rule of padding found, in all forms so far
    inputs = subject.inputs._replace(valid=padded(B, subject.length))
    for form in as_said(mask, forms, meaning.said, inputs) or forms:
        if _are_enough(form, codes, is_of_truth):
            break
        texts = _alike(subject.call.expressions, form, meaning)
        other = replace(subject.called(expressions=texts, mask=mask, form=form), inputs=inputs)
        try:
            output = other.masked.output
            if any(torch.equal(output, one.masked.output) for one in tried):
                continue  # this form means what an earlier one does
            if not _shapes(other.unmasked) == _shapes(other.masked) == _shapes(subject.unmasked):
                raise ValueError(f"the result becomes {tuple(output.shape)}")
            found = _of_padding(other)
            if problems and "mask-ignored" in found and form in WORDS["of_lengths"]:
                # a mask may take lengths as numbers, and yet this is none of its forms
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


def _are_enough(form: str, codes: set[str], is_of_truth: bool) -> bool:
    """Return whether the forms so far are enough: neither this one nor a later one is worth trying.

    codes: of what the rule of padding found in earlier forms. is_of_truth: a docstring says what
    True means.
    """
    if form == WORDS["of_lengths"][-1]:  # shares of the longest: if whole numbers did nothing
        return "mask-ignored" not in codes
    # another form leaked, but added nothing: the mask is multiplied or filled
    is_no_sum = codes and "mask-added" not in codes and (is_of_truth or "padding-leak" in codes)
    return bool(WORDS["added"] in form and is_no_sum)


def _alike(expressions: Mapping[str, str], form: str, meaning: Meaning) -> dict[str, str]:
    """Return the expressions of arguments, where the mask of a second memory means what the first
    one does in this form.
    """
    second = filled(WORDS["second"]["mask"], meaning)
    no = "~" if "~" in form else ""
    return {
        name: no + second if text.lstrip("~") == second else text
        for name, text in expressions.items()
    }


def _of_padding(subject: Subject) -> list[str]:
    """Return the codes that the rule of padding finds. A mask that hides all keys, where another
    memory is left, is inverted, too.
    """
    found = [code for code, *_ in listed(padding(subject))]
    if not found and not subject.change_with(subject.inputs.unpadded.changed_at(ALL, "keys")).any():
        return ["mask-inverted"]
    return found


def _together(subject: Subject, best: Subject, meaning: Meaning) -> Subject | None:
    """Return what `with_mask` returns if the other masks are given, too, and that is less doubtful;
    None if it is not. Some masks count only if another one is given, which hides nothing; and a
    second memory has a mask of its own.

    best: the subject with the mask in its best form.
    """
    call, expressions, doubts = best.call, subject.call.expressions, best.doubts
    others = [name for name in meaning.roles["mask"] if name not in (call.mask, *expressions)]
    of_keys = expressions[meaning.roles["keys"][0]]
    memories = [name for name, text in expressions.items() if text == of_keys]
    if doubts == DOUBTS["mask-ignored"]:
        text = filled(WORDS["whole_mask"][1], meaning)  # it hides nothing; [0] is "None"
    elif doubts in (DOUBTS["padding-mixed"], LEAKS) and len(memories) > 1:
        text = call.form  # padding still gets through the second memory: its mask is like the first
    else:
        return None
    if not others and len(memories) > 1:  # or it has none, and no padding either
        others, text = memories[1:], of_keys.replace("keys", "(0 * keys[:, :4])")
    if others:
        with contextlib.suppress(Exception):
            # this calls `_together` again, which then finds no other mask
            together = with_mask(
                subject.called(expressions={**expressions, **dict.fromkeys(others, text)}), meaning
            )
            if together.doubts < doubts:
                return together
    return None


def _shapes(result: Result) -> list[Any]:
    """Return the shape of the output, and those of the weights without rows and heads. A mask of
    the wrong layout may broadcast, and change them.
    """
    return [result.output.shape, *(one.shape[2:] for one in result.weights)]


def _meaning(call: Call, holds: bool) -> Iterator[Any]:
    """Yield what is to be said of a mask: that it is added to scores, that True means the opposite
    of what its docstring or its name says, or that True means padding where neither says so.

    The form that the search found tells what the mask does: valid or ~valid, a sum of it (lengths,
    which cannot be inverted), or 0 and -inf, to be added. holds: no padding gets through.
    """
    is_inverse = "~" in call.form  # True = padding
    is_padding, quoted = documented_by(call.attention, call.mask)
    by = f'its documentation, "{quoted}",'
    if is_padding is None and words(call.mask) & (MEANT | OF_TOKENS):
        is_padding, by = means_padding(call.mask), "its name"
    about = {"name": call.mask, "by": by}
    if "torch.where" in call.form:
        # the caller of a layer of `transformers` has turned this mask into 0 and -inf; and what a
        # docstring says of 0 may be meant of a mask that is added
        is_usual = by == "its name" and call.mask == "attention_mask"
        is_number = quoted.startswith("0") and is_padding  # it says that 0 is at tokens
        is_told = is_padding is not None and not is_number and not is_usual
        yield "mask-added" if is_told else "mask-is-added", about
    elif holds and is_padding not in (None, is_inverse) and call.form not in OF_LENGTHS:
        yield "mask-inverted", about
    elif is_inverse and not is_padding:
        yield "polarity"
