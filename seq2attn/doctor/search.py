"""Finds how an attention is called: names of arguments say what they may be, and the forms that may
be meant are tried, the usual ones first.
"""

import contextlib
import copy
import inspect
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, islice, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.doctor.call import B, Call, Inputs, L, S, draw, padded
from seq2attn.doctor.masks import padding
from seq2attn.doctor.names import (
    BATCH,
    OF_TOKENS,
    WORDS,
    Roles,
    axes_of,
    documented,
    function_of,
    guess,
    masks_of,
    module_of,
    required,
    role_by_type,
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
MOST = 1000  # calls that are tried: what needs more is refused
MOST_RANKED = 2000
MOST_OF_LAYOUT = 80
ALIKE = 6  # errors that are all the same
ENOUGH = 4  # doubtful calls of a layout
LONGEST = 64  # of sources whose length a module may ask for
Problem = tuple[Call, Roles, Exception]
Widths = tuple[int, int]
"""of the query and of the keys"""


class Meaning(NamedTuple):
    """What the arguments of an attention may be, and which inputs it may take."""

    names: Mapping[str, bool]
    """of arguments, and whether each is given"""
    roles: Roles
    mask: str
    """the argument that says which keys are valid; the empty string if there is none"""
    is_guess: bool
    """nothing says that this is the mask, and only its effect can tell"""
    layouts: str
    """of queries and keys: "plain", "heads" or "channels" """
    widths: Widths
    length: int
    said: str
    """what is said of shapes"""

    @property
    def setting(self) -> Any:
        """What does not depend on the roles of names"""
        return self.layouts, self.length, self.said, self.names


def find_subject(attention: Any, widths: Sequence[Widths]) -> Subject:
    """Return an attention with the call that was found, for a query and keys of the first of these
    widths that it takes. Raises `Seq2AttnError` if there is none.

    A call that works is put aside while other roles of the names may fit better: if no weights were
    caught, or if another argument may be the mask. If its mask takes no form, queries and keys
    split into heads are tried, too: some masks fit only these.
    """
    is_ready = not any(map(is_lazy, module_of(attention).parameters()))
    fresh = copy.deepcopy(attention) if is_ready else None
    problems: list[Problem] = []
    failed: dict[Any, Exception] = {}  # by calls and the sizes of what they are given
    put_aside: list[tuple[float, int, Subject]] = []
    usual: set[Widths] = set()  # those that it takes
    for setting, meanings in groupby(_meanings(attention, widths), key=lambda one: one.setting):
        if put_aside and setting[0] != "heads":
            continue
        for meaning in meanings:
            if meaning.widths not in (usual or {meaning.widths}) or _is_hopeless(problems):
                continue
            subject = _called(attention, fresh, meaning, problems, failed)
            if subject is None:
                continue
            subject, doubts = _with_mask(subject, meaning)
            if meaning.is_guess and doubts:
                continue
            if len(masks_of(meaning.roles)) < 2:
                doubts = 0  # nothing else can be the mask
            doubts += lacks(subject)
            is_seen = not any(code in UNSEEN for code, *_ in subject.told)
            if is_seen and not doubts:
                return subject
            usual = {meaning.widths}
            put_aside.append((doubts + 10 * (not is_seen), len(put_aside), subject))
        if put_aside and min(put_aside)[0] < 10:
            break
    if put_aside:
        return min(put_aside)[2]
    raise _refusal(*max(problems, key=_progress))


def _is_hopeless(problems: Sequence[Problem]) -> bool:
    """Return whether no other call is worth trying."""
    if not problems:
        return False
    return len(problems) > MOST or any(type(error) is NameError for *_, error in problems)


def _called(
    attention: Any,
    fresh: Any,
    meaning: Meaning,
    problems: list[Problem],
    failed: dict[Any, Exception],
) -> Subject | None:
    """Return the attention with the first call that is beyond doubt (see `_doubts`), or else with
    the least doubtful one; None if none works. What they raise is added to `problems`.
    """
    module = module_of(attention)
    keys = meaning.roles["keys"][0]
    found: list[tuple[float, int, Subject]] = []
    for calls, inputs in _ways(attention, meaning):
        said: list[str] = []  # messages of errors
        works = 0
        for call in calls:  # they differ by the forms of a mask, a state, positions and so on
            key = call.text, meaning.widths, meaning.length
            try:
                if key in failed:
                    raise failed[key]
                subject = observed(Subject(call, module, inputs.free, fresh))
                moved = subject.given.moved(ALL, "keys")
                if not meaning.names[keys] and not subject.change(moved).any():
                    raise ValueError(f"{keys} changes nothing")
                doubts = _doubts(subject)
            except Exception as error:
                failed[key] = error
                problems.append((call, meaning.roles, error))
                said.append(error_text(error))
                if len(said) == ALIKE and len(set(said)) == 1:
                    break  # these forms are not its cause
                continue
            if not doubts:
                return subject
            found.append((doubts, len(found), subject))
            works += 1
            if works == ENOUGH:
                break
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
    texts = dict.fromkeys((said, "")) if any(axes_of(name, said)[0] for name in needed) else [""]
    likeliest = widths[:1], widths[1:]
    settings = product(lengths, likeliest, (False, True), ways, texts, WORDS["cross"])
    for length, pairs, is_same, are_given, text, layouts in settings:
        names = dict(zip(needed, are_given, strict=True))
        for of_names, mask, is_guess in _readings(names, said, is_same):
            if not of_names["query"]:  # pairs differ by the width of keys alone
                pairs = [*dict.fromkeys((keys, keys) for _, keys in pairs)]
            for pair in pairs:
                yield Meaning(names, of_names, mask, is_guess, layouts, pair, length, text)


def _readings(
    names: Mapping[str, bool], said: str, is_same: bool
) -> Iterator[tuple[Roles, str, bool]]:
    """Yield the roles of arguments, the mask among them, and whether that is a guess: an argument
    of which nothing is known may be the mask, too. is_same: query and keys are the same sequence.
    """
    usual = next(roles(names, said))
    late: list[tuple[Roles, str, bool]] = []
    for name in [] if is_same else [*names][1:]:
        if not names[name] or role_of(name) or role_by_type(name, said):
            continue
        others = {other: is_given for other, is_given in names.items() if other != name}
        for of_names in roles(others, said):
            guess_of_mask = {**of_names, "mask": [name, *of_names["mask"]]}, name, True
            if name in usual["query"] + usual["keys"]:
                late.append(guess_of_mask)
            else:
                yield guess_of_mask
            mask = next(iter(masks_of(of_names)), "")
            late.append(({**of_names, "other": [name, *of_names["other"]]}, mask, False))
    for of_names in roles(names, said):
        if is_same:
            if not of_names["query"]:
                continue
            of_names = {**of_names, "keys": of_names["keys"] + of_names["query"], "query": []}
        for mask in masks_of(of_names) or [""]:
            yield of_names, mask, False
    yield from late


def _lengths_of(module: nn.Module) -> list[int]:
    """Return the lengths of sources that a module may ask for: the whole numbers that it holds, as
    of windows or blocks, where it is not one of torch.
    """
    held: set[int] = set()
    for part in module.modules():
        if not type(part).__module__.startswith("torch."):
            held.update(value for value in vars(part).values() if type(value) is int)
    return sorted(size for size in held if 1 < size <= LONGEST and size not in (B, L, S))


def _ways(attention: Any, meaning: Meaning) -> Iterator[tuple[Iterator[Call], Inputs]]:
    """Yield inputs and the calls that may be meant for them, for each layout in `words.toml`, the
    likeliest first. An optional mask is left out here: `_with_mask` tries it once the rest of the
    call is known.
    """
    names, of_names, mask = meaning.names, meaning.roles, meaning.mask
    # methods that prepare a call, such as `attention.reset()`
    first = "\n".join(text for name, text in WORDS["first"].items() if hasattr(attention, name))
    is_alone, is_masked = not of_names["query"], names.get(mask, False)
    for keys, query, queries in WORDS["alone" if is_alone else "cross"][meaning.layouts]:
        inputs = draw(*meaning.widths, queries, length=meaning.length)
        values = keys if is_alone else keys.replace("keys", "values")
        texts = {"query": query, "keys": keys, "again": keys, "values": values}
        sizes = _sizes(meaning, inputs, texts)
        choices = {}
        for role, with_role in of_names.items():
            for name in with_role:
                is_mask = role in ("mask", "lengths")
                if (name == mask and is_masked) or names[name] or not is_mask:
                    given = (
                        [texts[role]]
                        if role in texts
                        else _choices(attention, name, role, meaning, queries)
                    )
                    choices[name] = [
                        text for text in given if _is_as_said(name, text, meaning, inputs, sizes)
                    ]
        call = Call(attention, {}, first, mask * is_masked, needs_mask=is_masked)
        yield _calls(call, {name: choices[name] for name in names if name in choices}), inputs


def _choices(attention: Any, name: str, role: str, meaning: Meaning, queries: int) -> list[str]:
    """Return the expressions that an argument beside the query and the keys may have, the likeliest
    first. queries: how many there are.
    """
    of_names = meaning.roles
    if name == meaning.mask:
        return _forms(meaning)
    if role in ("mask", "lengths"):
        forms = WORDS[f"whole_{role}"]
    elif role_of(name) == role:
        forms = WORDS[role]
    else:
        whole = WORDS["whole_mask"][1:] + WORDS["whole_lengths"]
        forms = [*_states(of_names, queries), *WORDS["other"], *WORDS["history"], *whole]
    usual = guess(name, 0, rest=-1)  # of a number
    if isinstance(usual, float):
        forms = [repr(usual), *forms]
    kind = inspect.signature(function_of(attention)).parameters[name].annotation
    if kind in (int, float, bool):
        forms = [repr(kind(max(usual, 0)))]
    no = "~" if _means_padding(name) else ""
    return [form.replace("NO", no).replace("L", _queries(of_names)) for form in forms]


def _states(of_names: Roles, queries: int) -> list[str]:
    """Return the layouts of a state that stands beside the query: it is the query, too, or 0 where
    there are several, as one state would mix them.
    """
    layouts = WORDS["cross"]["plain"] if of_names["query"] else []
    states = [query for _, query, _ in layouts if "[:, 0]" in query]
    if queries > 1:
        states = [state.replace("query[:, 0]", "(0 * query[:, 0])") for state in states]
    return [*dict.fromkeys(states)]


def _queries(of_names: Roles) -> str:
    """Return an expression of the number of queries."""
    return "query.size(1)" if of_names["query"] else "keys.size(1)"


def _calls(call: Call, choices: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """Yield a call with all combinations of what its arguments may be, the likeliest first: those
    with the smallest sum of ranks.
    """
    for places in _likeliest(*map(len, choices.values())):
        given = {}
        for (name, texts), place in zip(choices.items(), places, strict=True):
            given[name] = texts[place]
        form = given.pop(call.mask, "None")
        yield replace(call, given=given, form=form)


@cache
def _likeliest(*counts: int) -> list[tuple[int, ...]]:
    """Return places in so many lists, those with the smallest sum first."""
    places = product(*map(range, counts))
    return sorted(islice(places, MOST_RANKED), key=sum)[:MOST_OF_LAYOUT]


def _sizes(meaning: Meaning, inputs: Inputs, texts: Mapping[str, str]) -> dict[str, int]:
    """Return what the letters of axes, as in "(B, S, D)", stand for: B, and those of the query and
    the keys, unless one letter stands for both S and L. texts: of the query and the keys, by role.
    """
    found: dict[str, set[int]] = {}
    for role in ("query", "keys"):
        for name in meaning.roles[role]:
            axes, _ = axes_of(name, meaning.said)
            value = None
            with contextlib.suppress(RuntimeError):  # a width that cannot be split: a call says so
                value = eval(texts[role], inputs._asdict())
            if isinstance(value, Tensor) and value.dim() == len(axes):
                for axis, size in zip(axes, value.shape, strict=True):
                    found.setdefault(axis, set()).add(size)
    known = {axis: min(one) for axis, one in found.items() if len(one) == 1}
    return known | dict.fromkeys(BATCH, B)


def _is_as_said(
    name: str, text: str, meaning: Meaning, inputs: Inputs, sizes: Mapping[str, int]
) -> bool:
    """Return whether an expression has the axes that are said of an argument."""
    axes, _ = axes_of(name, meaning.said)
    if not axes or any(axis.startswith(("*", "...")) for axis in axes):
        return True
    try:
        value = eval(text, {**inputs._asdict(), "values": inputs.keys, "torch": torch})
    except RuntimeError:  # a width that cannot be split: a call says so
        return True
    value = value[0] if isinstance(value, tuple) else value
    if not isinstance(value, Tensor) or value.dim() != len(axes):
        return False
    return all(sizes.get(axis, size) == size for axis, size in zip(axes, value.shape, strict=True))


def _forms(meaning: Meaning) -> list[str]:
    """Return the expressions that a mask, or lengths, may have, the likeliest first: such that True
    means what its name says, then the opposite, then those that are added to scores. They are made
    of templates in `words.toml`, where NO stands for nothing or ~, and L for the number of queries.
    """
    mask = meaning.mask
    if mask in meaning.roles["lengths"]:
        return list(WORDS["of_lengths"])
    forms = []
    meant = ("~", "") if _means_padding(mask) else ("", "~")
    for form in WORDS["of_mask"]:
        forms += [form.replace("NO", no) for no in meant]
    for form in WORDS["of_mask"]:
        if form.startswith("NO"):  # not one of whole numbers
            forms.append(form.replace("NOvalid", WORDS["added"]))
    forms += WORDS["of_lengths"]
    return [form.replace("L", _queries(meaning.roles)) for form in forms]


def _doubts(subject: Subject) -> float:
    """Return how doubtful a call is, 0 if not at all: it is if it lacks something, rows of the
    batch mix, or there is NaN. Only what a wrong layout does counts, not what a fault does:
    otherwise the search would find the call that hides a fault.
    """
    return lacks(subject) + 2 * len([*batch(subject), *not_finite(subject)])


def lacks(subject: Subject) -> float:
    """Return how doubtful it is that these are the keys and the query: no weights were caught, or
    the output has no row for each query.
    """
    result = subject.free
    no_weights = not result.weights and not result.uses
    return 2.0 * no_weights + (result.output.size(1) != subject.queries(subject.given))


# ---- masks ----


def _with_mask(subject: Subject, meaning: Meaning) -> tuple[Subject, float]:
    """Return a subject with the first form of the mask that keeps padding out, or else with the one
    that is least doubtful (see DOUBTS), and in `told` with what is to be said of the mask; and how
    doubtful it is.
    """
    mask = meaning.mask
    if not mask and "MASK" not in subject.call.first:
        return subject, 0
    tried: list[tuple[float, int, Subject]] = []
    problems: list[Exception] = []
    given = subject.given._replace(valid=padded(B, subject.length))
    codes: set[str] = set()  # of what the rule of padding found, in all forms
    texts = {
        role: subject.call.given[meaning.roles[role][0]]
        for role in ("query", "keys")
        if meaning.roles[role]
    }
    sizes = _sizes(meaning, given, texts)
    forms = _forms(meaning)
    for form in [
        form for form in _forms(meaning) if _is_as_said(mask, form, meaning, given, sizes)
    ] or forms:
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
        told = [(code, {"name": mask, "by": error_text(problems[0])})]
        return replace(subject, told=told), max(DOUBTS.values())
    doubt, _, best = min(tried, key=lambda one: one[:2])
    return replace(best, told=list(_meaning(best.call, holds=not doubt))), doubt


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
    given = [name for name in (*call.given, call.mask) if name and not role_of(name)]
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
    mask = next((name for name in masks_of(of_names) if name not in unknown), "")
    given = {**call.given, **dict.fromkeys(unknown, "___")}
    call = replace(call, given=given, mask=mask, form="valid" if mask else "")
    hint = f"Edit this, and examine `attend`, with `attention` made above it:\n{call}"
    return Seq2AttnError(f"the attention cannot be called: {why}", hint=hint)
