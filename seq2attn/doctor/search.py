"""Finds how an attention is called: names of arguments say what they may be, and the forms that may
be meant are tried, the usual ones first.
"""

import contextlib
import copy
import inspect
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor.call import B, Call, Inputs, L, S, draw, padded
from seq2attn.doctor.masks import padding
from seq2attn.doctor.names import (
    OF_TOKENS,
    WORDS,
    Roles,
    axes_of,
    documented,
    function_of,
    mask_of,
    module_of,
    required,
    role_of,
    roles,
    said_of,
    words,
)
from seq2attn.doctor.rows import batch, not_finite
from seq2attn.doctor.subject import ALL, Result, Subject, observed
from seq2attn.errors import Seq2AttnError
from seq2attn.findings.engine import listed
from seq2attn.text import error_text

MEANT = {"valid", "pad", "padding", "padded", "len", "lens", "length", "lengths"}
"""words of a mask, or of lengths, that say what is padding"""
DOUBTS = {"mask-ignored": 2.0, "mask-inverted": 3.0}
"""of a form of the mask: if none holds, the usual one was meant"""
UNSEEN = ("mask-crash", "mask-not-examined")
"""of a mask that takes none of its forms: another layout may be meant"""
MOST = 2000  # calls that are tried: what needs more is refused
LONGEST = 64  # of sources whose length a module may ask for
Problem = tuple[Call, Roles, Exception]
Widths = tuple[int, int]
"""of the query and of the keys"""


class Meaning(NamedTuple):
    """What the arguments of an attention may be, and which inputs it may take."""

    names: Mapping[str, bool]
    """of arguments, and whether each is given"""
    roles: Roles
    is_split: bool
    """queries and keys come in heads"""
    widths: Widths
    length: int
    said: str
    """what is said of shapes"""


def find_subject(attention: Any, widths: Sequence[Widths]) -> Subject:
    """Return an attention with the call that was found, for a query and keys of the first of these
    widths that it takes. Raises `Seq2AttnError` if there is none.

    A call that works but whose mask takes no form is put aside, and queries and keys split into
    heads are tried: some masks fit only these.
    """
    is_ready = not any(map(is_lazy, module_of(attention).parameters()))
    fresh = copy.deepcopy(attention) if is_ready else None
    problems: list[Problem] = []
    put_aside: list[Subject] = []
    for meaning in _meanings(attention, widths):
        if len(problems) > MOST:
            break
        if put_aside and not meaning.is_split:
            continue
        subject = _called(attention, fresh, meaning, problems)
        if subject is None:
            if problems:
                call, of_names, _ = problems[0]
                if _unknown(call, of_names):
                    break  # no other layout tells what these arguments are
            continue
        subject = _with_mask(subject, meaning.roles)
        if not any(code in UNSEEN for code, *_ in subject.told):
            return subject
        put_aside.append(subject)
    if put_aside:
        return put_aside[0]
    raise _refusal(*max(problems, key=_progress))


def _called(
    attention: Any, fresh: Any, meaning: Meaning, problems: list[Problem]
) -> Subject | None:
    """Return the attention with the first call that is beyond doubt (see `_doubts`), or else with
    the least doubtful one; None if none works. What they raise is added to `problems`.
    """
    module = module_of(attention)
    keys = meaning.roles["keys"][0]
    found: list[tuple[float, int, Subject]] = []
    for calls, inputs in _ways(attention, meaning):
        said: list[str] = []  # messages of errors
        for call in calls:  # they differ by the form of the mask
            try:
                subject = observed(Subject(call, module, inputs.free, fresh))
                moved = subject.given.moved(ALL, "keys")
                if not meaning.names[keys] and not subject.change(moved).any():
                    raise ValueError(f"{keys} changes nothing")
                doubts = _doubts(subject)
            except Exception as error:
                problems.append((call, meaning.roles, error))
                said.append(error_text(error))
                if len(said) > 2 and said[2] == said[0]:
                    break  # three forms of the mask, one error: the mask is not its cause
                continue
            if not doubts:
                return subject
            found.append((doubts, len(found), subject))
    return min(found, key=lambda one: one[:2])[2] if found else None


def with_width(subject: Subject, attention: Any, width: int) -> Subject:
    """Return an attention that is called as that of a subject, with inputs of another width."""
    query = subject.given.query
    given = draw(width, width, 0 if query is None else query.size(1), length=subject.length)
    call, module = replace(subject.call, attention=attention), module_of(attention)
    given = given._replace(valid=subject.given.valid)
    return observed(replace(subject, call=call, module=module, given=given, fresh=None))


def _meanings(attention: Any, widths: Sequence[Widths]) -> Iterator[Meaning]:
    """Yield what the arguments may be, the likeliest first: all combinations of what may be meant,
    the last of which varies fastest.
    """
    needed, said = required(function_of(attention)), said_of(attention)
    lengths = [S, *_lengths_of(module_of(attention))]  # of sources
    only_needed, all_given = tuple(needed.values()), (True,) * len(needed)
    ways = dict.fromkeys((only_needed, all_given))  # they may be the same
    # shapes as the docstring says before others
    texts = dict.fromkeys((said, "")) if any(axes_of(name, said) for name in needed) else [""]
    splits = (False, True)  # queries and keys in one piece, or in heads
    for length, are_given, text, is_split, pair in product(lengths, ways, texts, splits, widths):
        names = dict(zip(needed, are_given, strict=True))
        for of_names in roles(names):
            yield Meaning(names, of_names, is_split, pair, length, text)


def _lengths_of(module: nn.Module) -> list[int]:
    """Return the lengths of sources that a module may ask for: the whole numbers that it holds, as
    of windows or blocks, where it is not one of torch.
    """
    held: set[int] = set()
    for part in module.modules():
        if not type(part).__module__.startswith("torch."):
            held.update(value for value in vars(part).values() if type(value) is int)
    return sorted(size for size in held if 1 < size <= LONGEST and size not in (B, L, S))


def _ways(attention: Any, meaning: Meaning) -> Iterator[tuple[list[Call], Inputs]]:
    """Yield inputs and the calls that may be meant for them, for each layout in `words.toml`. The
    calls differ by the form of a mask that must be given. An optional mask is left out here:
    `_with_mask` tries it once the rest of the call is known.
    """
    names, of_names = meaning.names, meaning.roles
    # methods that prepare a call, such as `attention.reset()`
    first = "\n".join(text for name, text in WORDS["first"].items() if hasattr(attention, name))
    mask, is_alone = mask_of(of_names), not of_names["query"]
    is_masked = names.get(mask, False)
    forms = _forms(mask, of_names) if is_masked else ["None"]
    layouts = WORDS["alone" if is_alone else "cross"]
    choices = [[layout for layout in layouts if ("unflatten" in layout[0]) == meaning.is_split]]
    choices += [WORDS[role] if of_names[role] else [""] for role in ("history", "other")]
    for (keys, query, queries), history, other in product(*choices):
        inputs = draw(*meaning.widths, queries, length=meaning.length)
        if not _is_as_said(meaning, inputs, {"keys": keys, "query": query}):
            continue
        values = keys if is_alone else keys.replace("keys", "values")
        texts = {"query": query, "keys": keys, "again": keys, "values": values}
        texts |= {"history": history, "other": other, "mask": "None", "lengths": "None"}
        given = {}
        for name, is_needed in names.items():
            if name == mask:
                continue
            for role, with_role in of_names.items():
                if name in with_role and (is_needed or role not in ("mask", "lengths")):
                    given[name] = texts[role]
        call = Call(attention, given, first, mask * is_masked, needs_mask=is_masked)
        yield [replace(call, form=form) for form in forms], inputs


def _is_as_said(meaning: Meaning, inputs: Inputs, texts: Mapping[str, str]) -> bool:
    """Return whether inputs in these layouts have the axes that the docstring gives them."""
    for role, text in texts.items():
        for name in meaning.roles[role]:
            axes = axes_of(name, meaning.said)
            value = None
            with contextlib.suppress(RuntimeError):  # a width that cannot be split: a call says so
                value = eval(text, inputs._asdict()) if axes else None
            if isinstance(value, Tensor) and (len(value), value.dim()) != (B, len(axes)):
                return False
    return True


def _forms(mask: str, of_names: Roles) -> list[str]:
    """Return the expressions that a mask, or lengths, may have, the likeliest first: such that True
    means what its name says, then the opposite, then those that are added to scores. They are made
    of templates in `words.toml`, where NO stands for nothing or ~, and L for the number of queries.
    """
    if mask in of_names["lengths"]:
        return list(WORDS["of_lengths"])
    forms = []
    meant = ("~", "") if _means_padding(mask) else ("", "~")
    for form in WORDS["of_mask"]:
        forms += [form.replace("NO", no) for no in meant]
    for form in WORDS["of_mask"]:
        if form.startswith("NO"):  # not one of whole numbers
            forms.append(form.replace("NOvalid", WORDS["added"]))
    length = "query.size(1)" if of_names["query"] else "keys.size(1)"
    return [form.replace("L", length) for form in forms]


def _doubts(subject: Subject) -> float:
    """Return how doubtful a call is, 0 if not at all: it is if no weights were caught, the output
    has no row for each query, rows of the batch mix, or there is NaN. Only what a wrong layout does
    counts, not what a fault does: otherwise the search would find the call that hides a fault.
    """
    result = subject.free
    doubts = 0.0
    if not result.weights and not result.uses:
        doubts += 2
    if result.output.size(1) != subject.queries(subject.given):
        doubts += 1
    return doubts + 2 * len([*batch(subject), *not_finite(subject)])


# ---- masks ----


def _with_mask(subject: Subject, of_names: Roles) -> Subject:
    """Return a subject with the first form of the mask that keeps padding out, or else with the one
    that is least doubtful (see DOUBTS), and in `told` with what is to be said of the mask.
    """
    mask = mask_of(of_names)
    if not mask and "MASK" not in subject.call.first:
        return subject
    tried: list[tuple[float, int, Subject]] = []
    problems: list[Exception] = []
    given = subject.given._replace(valid=padded(B, subject.length))
    codes: set[str] = set()  # of what the rule of padding found, in all forms
    for form in _forms(mask, of_names):
        if WORDS["added"] in form and "padding-leak" in codes and "mask-added" not in codes:
            break  # another form leaked, but added nothing: the mask is multiplied or filled
        call = replace(subject.call, mask=mask, form=form)
        other = replace(subject, call=call, given=given)
        try:
            output = other.masked.output
            if any(torch.equal(output, one.masked.output) for *_, one in tried):
                continue  # this form means what an earlier one does
            without_mask = _shapes(subject.free)
            if not _shapes(other.free) == _shapes(other.masked) == without_mask:
                raise ValueError(f"the result becomes {tuple(output.shape)}")
            found = [code for code, *_ in listed(padding(other))]
        except Exception as error:
            problems.append(error)
            continue
        codes.update(found)
        doubts = max((DOUBTS.get(code, 1.0) for code in found), default=0.0)
        tried.append((doubts, len(tried), other))
        if not found:
            break
    if not tried:
        code = "mask-crash" if words(mask) & MEANT else "mask-not-examined"
        return replace(subject, told=[(code, {"name": mask, "by": error_text(problems[0])})])
    doubt, _, best = min(tried, key=lambda one: one[:2])
    return replace(best, told=list(_meaning(best.call, holds=not doubt)))


def _shapes(result: Result) -> list[Any]:
    """Return the shapes that a mask of the right layout leaves as they are."""
    return [result.output.shape, *(one.shape[2:] for one in result.weights)]


def _means_padding(mask: str) -> bool:
    return bool(words(mask) & MEANT) and not words(mask) & OF_TOKENS


def _meaning(call: Call, holds: bool) -> Iterator[Any]:
    """Yield what is to be said of a mask: that it is added to scores, that True means the opposite
    of what its docstring or its name says, or that True means padding where neither says so.

    The form that the search found tells what the mask does: valid or ~valid, a sum of it (lengths,
    which cannot be inverted), or 0 and -inf, to be added. holds: no padding gets through.
    """
    is_inverse = "~" in call.form  # True = padding
    means_padding, quoted = documented(call.mask, said_of(call.attention))
    by = f'its docstring, "{quoted}",'
    if means_padding is None and words(call.mask) & (MEANT | OF_TOKENS):
        means_padding, by = _means_padding(call.mask), "its name"
    about = {"name": call.mask, "by": by}
    if "torch.where" in call.form:
        is_usual = by == "its name" and call.mask == "attention_mask"  # extended by its caller
        is_told = means_padding is not None and not quoted.startswith("0") and not is_usual
        yield "mask-added" if is_told else "mask-is-added", about
    elif holds and means_padding not in (None, is_inverse) and "sum" not in call.form:
        yield "mask-inverted", about
    elif is_inverse and not means_padding:
        yield "polarity"


# ---- what is said if there is none ----


def _unknown(call: Call, of_names: Roles) -> list[str]:
    """Return arguments whose names tell nothing, but for those that are the query and the keys."""
    given = [name for name in call.given if not role_of(name)]
    return [name for name in given if name not in of_names["query"] + of_names["keys"]]


def _progress(problem: Problem) -> tuple[bool, int]:
    """Return the line that a call reached: the right layout gets farthest. No layout causes a
    NameError, and no other one repairs it.
    """
    call, _, error = problem
    return isinstance(error, NameError), next(iter(_lines(call, error)), 0)


def _lines(call: Call, error: Exception) -> list[int]:
    """Return the lines of the attention's file that an exception passed, the outermost first."""
    file = inspect.unwrap(function_of(call.attention)).__code__.co_filename
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.lineno or 0 for frame in frames if frame.filename == file]


def _refusal(call: Call, of_names: Roles, error: Exception) -> Seq2AttnError:
    """Say why it cannot be called, with a call to edit."""
    unknown = _unknown(call, of_names)
    why = f"what it needs as {', '.join(unknown)} is not known"
    if not unknown:
        lines = [f"line {line}: " for line in _lines(call, error)]
        why = f"{''.join(lines[-1:])}{error_text(error)}, in `{call.text}`"
    mask = mask_of(of_names)
    given = {**call.given, **dict.fromkeys(unknown, "___")}
    call = replace(call, given=given, mask=mask, form="valid" if mask else "")
    hint = f"Edit this, and examine `attend`, with `attention` made above it:\n{call}"
    return Seq2AttnError(f"the attention cannot be called: {why}", hint=hint)
