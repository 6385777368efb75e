"""Finds how an attention is called: names of arguments say what they may be, and the forms that may
be meant are tried, the usual ones first.

A meaning is a reading of the arguments' names, with widths and a length of inputs (`Meaning`). Its
layouts are those of queries and keys, such as "heads", split into heads. A form is the expression
that a call gives for an argument. A call is doubtful if another one is likelier to be the one that
was meant; 0 doubts are none.
"""

import ast
import contextlib
import copy
import inspect
import re
import traceback
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from seq2attn.doctor.call import B, Call, Inputs, L, S, arguments_of, draw, function_of, module_of
from seq2attn.doctor.forms import Meaning, Widths, calls_of, meanings
from seq2attn.doctor.layout import given_ids, observed
from seq2attn.doctor.masks import padding
from seq2attn.doctor.polarity import DOUBTS, UNSEEN, not_examined, with_mask
from seq2attn.doctor.roles import masks_of
from seq2attn.doctor.rows import batch, not_finite
from seq2attn.doctor.subject import ALL, Subject, least_doubtful
from seq2attn.doctor.weights import sums
from seq2attn.doctor.words import required, role_of
from seq2attn.errors import Seq2AttnError, error_text, quoted
from seq2attn.findings.engine import listed

MOST = 1500  # calls that fail before the search ends
MOST_OF_WIDTHS = 700  # of these, with widths of which none works, if others are left to try
UNEXAMINED = 0.6  # doubts of a call whose mask is left out
MAY_BE_MASK = 0.5  # doubts of an argument whose name tells nothing, and that is taken for no mask
ALIKE = 6  # errors that are all the same, after which the other forms of a layout are left out
Problem = tuple[Call, Meaning, Exception]
"""a call that failed, the first meaning that it had, and what it raised"""


def find_subject(attention: Any, widths: Sequence[Widths]) -> Subject:
    """Return an attention with the call that was found, for a query and keys of the first of these
    widths that it takes. Raises `Seq2AttnError`, with a call to edit, if no call works.

    The first call without doubts is returned at once. One with doubts is put aside while other
    meanings of its group may fit better: if no weights were caught, say, or if another argument may
    be the mask. If its mask takes no form, which is UNSEEN doubts, queries and keys split into
    heads are tried, too, as some masks fit only these. In the end the least doubtful call counts.
    """
    fresh = _copied(attention)
    problems: dict[Any, Problem] = {}  # by the text of the call, and the shapes of its inputs
    of_ids: dict[Any, Problem] = {}  # of calls with ids, which leave the others as many as ever
    put_aside: list[Subject] = []
    is_found = False  # whether a result of these is finite: otherwise any layout may be better
    taken: Widths | None = None  # those of the calls that work, once one does
    failed = Counter[Widths]()  # how many calls failed
    for layouts, group in meanings(attention, widths):
        # only a mask that took no form is left to be found
        if is_found and layouts not in ("heads", "equal"):
            continue
        kept = of_ids if layouts == "ids" else problems
        for meaning in group:
            may_fit = taken == meaning.widths
            if taken is None:  # any widths may fit, until too many calls with them have failed
                may_fit = len(widths) == 1 or failed[meaning.widths] < MOST_OF_WIDTHS
            most = MOST * (1 + len(put_aside))  # a call that worked earns as many more
            if not may_fit or _is_hopeless(kept.values(), most):
                continue
            before = len(problems)
            subject = _called(attention, fresh, meaning, kept)
            failed[meaning.widths] += len(problems) - before
            subject = subject and _with_its_mask(subject, meaning)
            if subject is None:
                continue
            if _has_rows_of_keys(subject):  # query and keys may be the other way round
                group += _turned(meaning, group)  # which this loop comes to in the end
            if not subject.doubts:
                return _untouched(subject)
            taken = meaning.widths
            put_aside.append(subject)
            is_found |= not listed(not_finite(subject))
        # the best of a group will do, unless its mask took no form
        if is_found and least_doubtful(put_aside).doubts < UNSEEN:
            break
    if not put_aside:
        raise _refusal(*max((problems or of_ids).values(), key=_plainness))
    return _untouched(least_doubtful(put_aside))


def called_as(attention: Any, text: str, widths: Sequence[Widths]) -> Subject:
    """Return an attention that is called as `text` says, such as `attention(query, keys, valid)`,
    with inputs of the first of these widths that it takes; `query[:, 0]` is a single query. Raises
    `Seq2AttnError` if the text is no such call, or fails.
    """
    call = _written(attention, text)
    queries = 1 if "query[" in text else L if "query" in text else 0
    # a copy that no call has changed takes the module's place in the end (`_untouched`)
    fresh, problems = _copied(attention), []
    for pair in widths:
        inputs = draw(*pair, queries)
        try:
            subject = observed(Subject(call, module_of(attention), inputs.unpadded, fresh))
            subject = replace(subject, inputs=inputs if call.mask else inputs.unpadded)
            subject.results(subject.inputs)  # it takes padding, too
        except Exception as error:
            problems.append(error)
            continue
        found = [("mask-inverted", {"name": call.mask, "by": "its call"})]
        return _untouched(replace(subject, call_findings=found * _is_inverted(subject)))
    raise Seq2AttnError(_raised(call, problems[0]))


def _written(attention: Any, text: str) -> Call:
    """Return the call of an attention that a user wrote as `text`; the argument with `valid` in it
    is the mask. Raises `Seq2AttnError` if the text is not a call, or gives more arguments than
    the attention takes.
    """
    try:
        written = ast.parse(text, mode="eval").body
    except SyntaxError:
        written = None
    if not isinstance(written, ast.Call) or any(one.arg is None for one in written.keywords):
        raise Seq2AttnError(
            f"the call of an attention: found {quoted(text)}",
            hint="Write it with query, keys, values and valid: attention(query[:, 0], keys, valid)",
        )
    names = [*arguments_of(attention)]
    if len(written.args) > len(names):
        raise Seq2AttnError(f"it takes {', '.join(names) or 'no arguments'}; it is given `{text}`")
    given = dict(zip(names, map(ast.unparse, written.args), strict=False))
    given |= {str(one.arg): ast.unparse(one.value) for one in written.keywords}
    mask = next((name for name, one in given.items() if "valid" in one), "")
    form = given.pop(mask, "None")
    return Call(attention, given, mask=mask, form=form, needs_mask=bool(mask))


def _is_inverted(subject: Subject) -> bool:
    """Return whether padding gets through a mask, and does not if it means the opposite; False for
    lengths, which have no opposite.
    """
    form = subject.call.form
    if not subject.has_mask or "sum(" in form or not listed(padding(subject)):
        return False
    with contextlib.suppress(Exception):  # it may not take the opposite
        return not listed(padding(subject.called(form=form.replace("valid", "(~valid)"))))
    return False


def _copied(attention: Any) -> Any:
    """Return a copy of an attention that was never called; None of a module with lazy parameters,
    which the first call makes, as a copy would make other ones.
    """
    is_lazy_still = any(map(is_lazy, module_of(attention).parameters()))
    return None if is_lazy_still else copy.deepcopy(attention)


def _with_its_mask(subject: Subject, meaning: Meaning) -> Subject | None:
    """Return a subject that is called with its mask, with its doubts; None if the mask was a guess,
    and does not do what a mask does: take the weight from padding, and only that.
    """
    subject = with_mask(subject, meaning)
    doubts = subject.doubts
    hides_weight = subject.unmasked.weights and "torch.where" not in subject.call.form
    is_hiding = doubts <= (DOUBTS["padding-mixed"] if hides_weight else 0)
    are_ones = any(code == "axis" for code, *_ in listed(sums(subject)))  # values, and not weights
    if meaning.is_guess and (are_ones or not is_hiding):
        return None
    # nothing else can be the mask, and it took a form: what is wrong is a fault of the attention,
    # no reason to doubt this call
    if doubts < UNSEEN and len(masks_of(meaning.roles)) < 2:
        doubts = 0
    # what has a name that tells nothing may rather be the mask, as a later meaning has it
    given = subject.call.expressions
    unknown = [name for name in meaning.roles["other"] if name in given and not role_of(name)]
    as_masks = [name for name in unknown if "valid |" in given[name] or ".bool()" in given[name]]
    found = [not_examined(name, "all that it takes hides nothing") for name in as_masks]
    is_left_out = bool(subject.call_findings) and not subject.has_mask
    doubts += doubts_of_roles(subject) + MAY_BE_MASK * bool(unknown) + UNEXAMINED * is_left_out
    return replace(subject, doubts=doubts, call_findings=[*subject.call_findings, *found])


def _called(
    attention: Any, fresh: Any, meaning: Meaning, problems: dict[Any, Problem]
) -> Subject | None:
    """Return the attention with the first call of this meaning that is beyond doubt (see
    `doubts_of`), or else with the least doubtful one; None if none works. What calls raise is added
    to `problems`, by the text of the call and the shapes of its inputs.

    fresh: a copy of the attention that was never called; None if the first call makes parameters.
    """
    module = module_of(attention)
    found: list[Subject] = []
    for calls, inputs in calls_of(attention, meaning):  # for each layout
        shapes = [tensor.shape for tensor in inputs if tensor is not None]
        messages: list[str] = []  # of errors
        for call in calls:  # they differ by the forms of a mask, a state, positions and so on
            key = call.text, *shapes
            try:
                if key in problems:  # it failed before, with another meaning of its arguments
                    raise problems[key][-1]
                subject = _working(Subject(call, module, inputs.unpadded, fresh), meaning)
                subject = replace(subject, doubts=doubts_of(subject))
            except Exception as error:
                traceback.clear_frames(error.__traceback__)  # frames hold tensors
                problems.setdefault(key, (call, meaning, error))
                messages.append(error_text(error))
                are_alike = len(messages) == ALIKE and len(set(messages)) == 1
                # the layout is the cause, and not the forms, which are all that differs; but if the
                # error is about bool, a later form of a mask is of numbers
                if are_alike and "bool" not in messages[0].lower():
                    break
                continue
            if not subject.doubts:
                return subject
            found.append(subject)
            # another layout is likelier to be right than another form, unless a mask that has to be
            # given hides all keys in this form
            if not listed(not_finite(subject)):
                break
    return least_doubtful(found) if found else None


def _working(subject: Subject, meaning: Meaning) -> Subject:
    """Return a subject with what a few calls show (`observed`).

    Raises what the calls raise, and `ValueError` where another reading is likelier: if an argument
    that may be left out, or whose name tells nothing, is read as the query or the keys and changes
    nothing; if rows of the batch are mixed, and an axis was added, or moved without any weights; if
    it is called with one row of the batch at a time, with an axis of length 1, or with ids, and no
    token reaches another one; if a mask adds an axis of rows to a result, as (B, S) does in the
    place of (L, S); or if places are mixed with heads at a length other than S, which was a guess.
    """
    if meaning.layouts == "ids":
        subject = subject.called(embeddings=given_ids(subject))
    subject, inputs = observed(subject), subject.inputs

    def fresh_output(inputs: Inputs) -> Tensor:
        """Return the subject's output without what earlier calls left behind, which may hide that
        the attention fails or ignores its inputs.
        """
        return _untouched(subject).output(inputs)

    before = fresh_output(inputs)
    call = subject.call
    may_be_apart = call.by_row or call.embeddings or subject.has_rows_of_one
    if may_be_apart and subject.keeps_tokens_apart:
        raise ValueError("what was taken for a sequence is a batch, or not attended to")
    # the axis of places may be that of heads: then each query sees the key in its own place alone
    is_paired = inputs.query is not None and subject.queries(inputs) == subject.length
    if is_paired and torch.equal(subject.seen, torch.eye(subject.length).bool()):
        raise ValueError("what was taken for places are heads")
    # another axis may stand where that of the batch belongs, or if no weights are caught, one that
    # was moved
    texts = " ".join(call.expressions.values())
    has_axis = re.search(r"(?<!mT)\[(:, )*None\]|keys\.unflatten\(1,", texts)
    is_moved = "transpose(0, 1)" in texts and not subject.unmasked.uses
    if (has_axis or is_moved) and listed(batch(subject)):
        raise ValueError("another axis is that of the batch")
    if all(_has_rows_twice(subject, rows) for rows in (B, 2)):  # other axes may be as long as one
        raise ValueError("a mask of another layout has been broadcast")
    if subject.length != S and subject.unmasked.watch.is_moved:
        raise ValueError(f"at length {subject.length} views mix places and heads")
    needed = required(function_of(call.attention))
    for role in ("keys", "query"):
        for name in meaning.roles[role][:1]:
            # it must be given, and its name tells, if only a little where it is attended to
            tell_nothing = [""] if subject.unmasked.uses else ["", "weak"]
            is_told = needed[name] and role_of(name) not in tell_nothing
            if not is_told and torch.equal(fresh_output(inputs.changed_at(ALL, role)), before):
                raise ValueError(f"{name} changes nothing")
    return subject


def _has_rows_twice(subject: Subject, rows: int) -> bool:
    """Return whether a result has two axes of rows of the batch, as (B, B, D) has."""
    results = subject.results(subject.draw(rows=rows).unpadded)
    return any(one.dim() > 2 and [*one.shape].count(rows) > 1 for one in results)


def _untouched(subject: Subject) -> Subject:
    """Return a subject without what calls left behind in its module: with a copy of the module that
    was never called (`fresh`), if it was kept. Its results are computed anew.
    """
    if subject.fresh is None:
        return subject
    attention = copy.deepcopy(subject.fresh)
    other = subject.called(attention=attention)
    return replace(other, module=module_of(attention))


def with_width(subject: Subject, attention: Any, width: int) -> Subject:
    """Return an attention that is called as that of a subject is, with inputs of another width."""
    module, inputs = module_of(attention), subject.draw(width=width)
    called = subject.called(attention=attention)
    return observed(replace(called, module=module, inputs=inputs, fresh=None))


def doubts_of(subject: Subject) -> float:
    """Return how doubtful a call is, 0 if not at all: that of its roles, 2 more for mixed rows of
    the batch, 5 for a result without any, and 2 more for NaN or infinity. Only what a wrong layout
    does counts, not what a fault does: otherwise the search would find the call that hides a fault.
    """
    found = [*batch(subject), *not_finite(subject)]
    results = subject.results(subject.inputs.unpadded)
    has_no_batch = bool(results) and not any(B in one.shape for one in results)
    return doubts_of_roles(subject) + 2 * len(found) + 5 * has_no_batch


def doubts_of_roles(subject: Subject) -> float:
    """Return how doubtful it is that these are the keys and the query: 2 if no weights were caught,
    and 1 more if the output has not one row for each query, or has one for each key.
    """
    result = subject.unmasked
    no_weights = not result.weights and not result.uses
    has_rows = result.output.size(1) == subject.queries(subject.inputs)
    return 2.0 * no_weights + (not has_rows or _has_rows_of_keys(subject))


def _has_rows_of_keys(subject: Subject) -> bool:
    """Return whether all that cross-attention returns, beside weights, has an axis as long as there
    are keys: a row for each key, and not for each query.
    """
    inputs = subject.inputs.unpadded
    results = enumerate(subject.results(inputs))
    shapes = [one.shape for index, one in results if index not in subject.weight_indices]
    is_cross = inputs.query is not None and subject.length != subject.queries(inputs)
    return is_cross and bool(shapes) and all(subject.length in shape for shape in shapes)


def _turned(meaning: Meaning, group: Sequence[Meaning]) -> list[Meaning]:
    """Return a meaning with query and keys the other way round, once for each argument that may
    then be the mask; none if a meaning of the group has these roles already.
    """
    roles = meaning.roles
    roles = {**roles, "query": roles["keys"], "keys": roles["query"]}
    if any(other.roles == roles for other in group):
        return []
    return [meaning._replace(roles=roles, mask=mask) for mask in masks_of(roles) or [""]]


# ---- what is said if there is none ----


def _is_hopeless(problems: Collection[Problem], most: int) -> bool:
    """Return whether no other call is worth trying: more than `most` have failed, or one raised a
    NameError, which no call repairs.
    """
    return len(problems) > most or any(type(error) is NameError for *_, error in problems)


def _progress(problem: Problem) -> tuple[bool, int]:
    """Return how far a call came, to be compared: whether to a NameError, which no layout causes,
    and to which line of the attention's file. The right layout gets farthest.
    """
    call, _, error = problem
    return type(error) is NameError, next(iter(_lines(call, error)), 0)  # 0: it raised before


def _plainness(problem: Problem) -> tuple[bool, bool, bool, int]:
    """Return how well a call shows what is wrong, to be compared: one with a NameError at best,
    then one of documented shapes, then one that gives the inputs as they are; of these, the one
    that came farthest.
    """
    _, meaning, error = problem
    is_name_error, line = _progress(problem)
    is_plain = meaning.layouts == "plain" and "to unpack" not in str(error)  # it takes more axes
    return is_name_error, bool(meaning.said), is_plain, line


def _lines(call: Call, error: Exception) -> list[int]:
    """Return the lines of the attention's file that an exception passed, the outermost first."""
    code = getattr(inspect.unwrap(function_of(call.attention)), "__code__", None)
    file = getattr(code, "co_filename", None)  # a callable object has none
    frames = traceback.walk_tb(error.__traceback__)
    return [line for frame, line in frames if frame.f_code.co_filename == file]


def _raised(call: Call, error: Exception) -> str:
    """Return what a call raised, and in which line of the attention's file."""
    lines = [f"line {line}: " for line in _lines(call, error)]
    if isinstance(error, NotImplementedError):
        return f"{''.join(lines[-1:])}{str(error) or 'it is not written yet'}"
    return f"{''.join(lines[-1:])}{error_text(error)}, in `{call.text}`"


def _refusal(call: Call, meaning: Meaning, error: Exception) -> Seq2AttnError:
    """Return the error that says why an attention cannot be called: as it is not known what some of
    its arguments are, or else what its likeliest call raised, and in which line. Its hint is a call
    to edit, with `___` for arguments that are not known.

    call: the one that is shown. meaning: of its arguments. error: what it raised.
    """
    of_names = meaning.roles
    inputs = of_names["query"] + of_names["keys"]
    unknown = [name for name in (*call.expressions, call.mask) if name and name not in inputs]
    unknown = [name for name in unknown if not role_of(name)]  # their names tell nothing
    why = f"what it needs as {', '.join(unknown)} is not known"
    if not unknown:
        why = _raised(call, error)
    if isinstance(error, NotImplementedError):  # another call does not help
        return Seq2AttnError(_raised(call, error))
    # of the likeliest mask, the usual form is shown, as all forms failed that were tried
    mask = next((name for name in masks_of(of_names) if name not in unknown), "")
    expressions = {**call.expressions, **dict.fromkeys(unknown, "___")}
    call = replace(call, expressions=expressions, mask=mask, form="valid" if mask else "None")
    hint = f"Edit this, and examine `attend`, with `attention` made above it:\n{call}"
    return Seq2AttnError(f"the attention cannot be called: {why}", hint=hint)
