"""Lists what the arguments of an attention may be, and the calls that are tried for it, the usual
ones first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, product
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import (
    B,
    Call,
    Inputs,
    L,
    S,
    arguments_of,
    draw,
    function_of,
    module_of,
)
from seq2attn.doctor.roles import Roles, masks_of, roles
from seq2attn.doctor.said import axes_of, docs_of, role_by_type, unpacked
from seq2attn.doctor.words import (
    BATCH,
    OF_TOKENS,
    PLACED,
    SOURCES,
    WORDS,
    is_in,
    required,
    role_of,
    words,
)

MEANT = {"valid", "pad", "padding", "padded", "len", "lens", "length", "lengths"}
"""words of a mask, or of lengths, that say what is padding"""
RANKED = 2000  # calls of a layout that are put in order
MOST_OF_LAYOUT = 80  # of these, the calls that are tried
LONGEST = 64  # of sources whose length a module may ask for
SIDE, WIDEST = 6, 14  # of an image, whose places are then more than the width of a head
Widths = tuple[int, int]
"""of the query and of the keys"""
Layout = tuple[str, str, int]
"""the expressions of keys and query, and how many queries there are; "" and 0 without a query"""
Reading = tuple[Roles, str, bool]
"""roles of arguments, the mask among them, and whether that is a guess"""


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
    """of queries and keys: "plain", "heads", "channels", "rows", "equal" or "images" """
    widths: Widths
    length: int
    said: str
    """what is said of shapes"""


def meanings(attention: Any, widths: Sequence[Widths]) -> Iterator[tuple[str, list[Meaning]]]:
    """Yield what the arguments may be, the likeliest first, in groups that have their layouts in
    common. A group stands for one combination of what is uncertain: the length of the sources, the
    widths, whether query and keys are the same sequence, whether optional arguments are given,
    whether shapes are as the docstring says, and the layouts, of which those of images come first
    where there is a convolution in two directions. The last one varies fastest.
    """
    needed, said = required(function_of(attention)), docs_of(attention)
    said += f"\n{unpacked(attention)}"
    has_axes = any(axes_of(name, said)[0] for name in needed)
    module = module_of(attention)
    is_of_images = any(isinstance(part, nn.Conv2d) for part in module.modules())
    needed_only, all_given = tuple(needed.values()), (True,) * len(needed)
    combinations = product(
        [S, *_lengths_of(module)],
        (widths[:1], widths[1:]),  # the likeliest widths before all others
        (False, True),  # is_same
        dict.fromkeys((needed_only, all_given)),  # once, if they are equal
        (said, "") if has_axes else ("",),
        sorted(WORDS["cross"], key=lambda layouts: is_of_images and layouts != "channels"),
    )
    for length, pairs, is_same, are_given, text, layouts in combinations:
        names = dict(zip(needed, are_given, strict=True))
        # rows are without the batch, whose axis the docstring counts; of these, both groups are the
        # same, and a call that failed is not tried again
        if layouts == "rows":
            text = ""
        group = []
        for of_names, mask, is_guess in _readings(names, said, is_same):
            # without a query, pairs differ by the width of the keys alone
            both = pairs if of_names["query"] else dict.fromkeys((keys, keys) for _, keys in pairs)
            for pair in both:
                group.append(Meaning(names, of_names, mask, is_guess, layouts, pair, length, text))
        yield layouts, group


def _readings(names: Mapping[str, bool], said: str, is_same: bool) -> Iterator[Reading]:
    """Yield readings of the names of arguments, the likeliest first.

    is_same: read query and keys as the same sequence, given twice.
    """
    early, late = ([], []) if is_same else _of_unknown(names, said)
    yield from early
    for of_names in roles(names, said):
        if is_same:
            if not of_names["query"]:
                continue
            of_names = {**of_names, "keys": of_names["keys"] + of_names["query"], "query": []}
        masks = masks_of(of_names)
        for mask in masks or [""]:
            yield of_names, mask, False
        if any(names[mask] for mask in masks):  # it must be given, and may be None
            late.append((of_names, "", False))
    yield from late


def _of_unknown(names: Mapping[str, bool], said: str) -> tuple[list[Reading], list[Reading]]:
    """Return readings in which an argument that must be given, and whose name tells nothing, is the
    mask, or else neither query, keys nor mask: those that are likelier than a reading that takes it
    for the query or the keys, and those that are not.
    """
    usual = next(roles(names, said))
    early: list[Reading] = []
    late: list[Reading] = []
    for name in [*names][1:]:  # the first argument is the query or the keys
        is_told = name in usual["side"] or role_of(name) or role_by_type(name, said)
        if not names[name] or is_told:
            continue
        others = {other: is_given for other, is_given in names.items() if other != name}
        may_be_input = name in usual["query"] + usual["keys"]
        for of_names in roles(others, said):
            as_mask = {**of_names, "mask": [name, *of_names["mask"]]}
            (late if may_be_input else early).append((as_mask, name, True))
            mask = next(iter(masks_of(of_names)), "")
            late.append(({**of_names, "other": [name, *of_names["other"]]}, mask, False))
    return early, late


def _lengths_of(module: nn.Module) -> list[int]:
    """Return the lengths of sources that a module may ask for: whole numbers among the attributes
    of its parts, such as a window or a block size, and the sizes of square tables of places. Parts
    that are torch's own are left out.
    """
    tables = (one for one in module.buffers() if one.dim() > 1)
    held = {one.size(-1) for one in tables if one.size(-1) == one.size(-2)}
    for part in module.modules():
        if not type(part).__module__.startswith("torch."):
            held.update(value for value in vars(part).values() if type(value) is int)
    # S is tried anyway; a length of B or L would be taken for the axis of rows or of queries
    return sorted(size for size in held if 1 < size <= LONGEST and size not in (B, L, S))


def calls_of(attention: Any, meaning: Meaning) -> Iterator[tuple[Iterator[Call], Inputs]]:
    """Yield for each layout in `words.toml` the calls that may be meant, and the inputs for them.
    An optional mask is left out: `polarity.with_mask` tries it once the rest of the call is known.
    There is no call if no expression has the axes that the docstrings name for an argument.
    """
    names, of_names = meaning.names, meaning.roles
    call, side = _without_arguments(attention, meaning), _side(meaning)
    length = side**2 or meaning.length
    if side > WIDEST:
        return
    # a query with an axis of its own stands for several, unless that has length 1
    axes = [axis for name in of_names["query"][:1] for axis in axes_of(name, meaning.said)[0]]
    is_several = len(axes) == 3 and not any(axis.startswith("1") for axis in axes)
    for keys, query, queries in WORDS["cross" if of_names["query"] else "alone"][meaning.layouts]:
        if queries == 1 and is_several:
            continue
        queries = length if queries == S else queries  # as many as keys
        inputs = draw(*meaning.widths, queries, length=length)
        joined = ".flatten(2)" if "mT" in keys else ".flatten(1, 2)"
        call = replace(call, after=joined if "SIDE" in keys else "")
        keys = keys.replace("SIDE", str(side))
        # what attends to itself is given the same sequence as values, too
        values = keys.replace("keys", "values") if of_names["query"] else keys
        texts = {"query": query, "keys": keys, "again": keys, "values": values}
        choices = {name: [""] for name in names}  # "": the argument is left out
        places = _places_said(meaning, queries or length, length)
        for role, of_role in of_names.items():
            for name in of_role:
                if role in ("mask", "lengths") and not names[name]:
                    continue
                forms = [texts.get(role, "")]
                if role not in texts:
                    forms = _choices(name, role, meaning, (keys, query, queries))
                choices[name] = as_said(name, forms, meaning.said, inputs, places)
        yield _ranked(call, choices), inputs


def _without_arguments(attention: Any, meaning: Meaning) -> Call:
    """Return the call of an attention before its arguments are chosen."""
    # methods that prepare a call, such as `attention.reset()`
    first = "\n".join(text for name, text in WORDS["first"].items() if hasattr(attention, name))
    mask = meaning.mask if meaning.names.get(meaning.mask) else ""  # only if it must be given
    arguments = arguments_of(attention).items()
    placed = {name for name, one in arguments if one.kind is PLACED}
    by_row = meaning.layouts == "rows"
    return Call(attention, {}, first, mask, needs_mask=bool(mask), placed=placed, by_row=by_row)


def _side(meaning: Meaning) -> int:
    """Return the side of the images that are given, or whose places are a sequence; 0 if there are
    none. Of a module that has a number, as of a window, two windows stand on a side, at least.
    """
    window = meaning.length
    if meaning.layouts == "images" and window != S:
        return window * max(2, -(-SIDE // window))
    return SIDE if meaning.layouts == "images" or meaning.roles["side"] else 0


def _choices(name: str, role: str, meaning: Meaning, layout: Layout) -> list[str]:
    """Return the expressions that an argument beside the query and the keys may have, the likeliest
    first: those that make it a second memory, or the mask of one, come before the usual ones, and
    the keys and the query themselves after the first three.
    """
    forms = _usual_choices(name, role, meaning, layout)
    keys, query, _ = layout
    # second memories have masks of their own
    masks = meaning.roles["mask"] + meaning.roles["lengths"]
    seconds = [other for other in meaning.roles["other"] if is_in(other, masks)]
    if name in seconds:
        return [keys.replace("keys", WORDS["second"]["memory"]), *forms]
    if role in ("mask", "lengths") and any(is_in(other, [name]) for other in seconds):
        return [*_both_ways(name, [WORDS["second"][role]], meaning), *forms]
    if role == "other" and words(name) & SOURCES:  # a second memory without a mask
        return [keys, *forms]
    if role == "history" or (role == "other" and role_of(name) != "other"):
        return [*forms[:3], *filter(None, (query, keys)), *forms[3:]]
    return forms


def _usual_choices(name: str, role: str, meaning: Meaning, layout: Layout) -> list[str]:
    """Return the usual expressions of such an argument, made of templates in `words.toml`."""
    queries = layout[2]
    if name == meaning.mask:
        return forms_of_mask(meaning)
    if role == "side":
        return [str(_side(meaning))]
    if role in ("mask", "lengths"):  # another one than the mask: it hides nothing
        forms = WORDS[f"whole_{role}"]
    elif role_of(name) == role:
        forms = WORDS[role]
    else:  # nothing is known of it: it may be a state, such as the query if there is only one
        # of several queries none is the state of all: a state of zeros adds nothing
        state = "query[:, 0]" if queries == 1 else "(0 * query[:, 0])"
        states = [form.replace("STATE", state) for form in WORDS["states"] if queries]
        whole = [*WORDS["whole_mask"], *WORDS["whole_lengths"]]
        # a state, or else nothing or a number, before the other layouts of a state
        early = [*states[:1], *WORDS["other"][:2]]
        forms = [*early, *states, *WORDS["other"], *WORDS["history"], *whole]
    return _both_ways(name, forms, meaning)


def forms_of_mask(meaning: Meaning) -> list[str]:
    """Return the expressions that a mask, or lengths, may have, the likeliest first: such that True
    means what its name says, then the opposite, then those that are added to scores. They are made
    of templates in `words.toml`, where NO stands for nothing or ~, and L for the number of queries.
    """
    if meaning.mask in meaning.roles["lengths"]:
        is_column = len(axes_of(meaning.mask, meaning.said)[0]) == 2
        return [*is_column * WORDS["column_of_lengths"], *WORDS["of_lengths"]]
    forms = _both_ways(meaning.mask, WORDS["of_mask"], meaning)
    for form in WORDS["of_mask"]:
        if form.startswith("NO"):  # the others turn a mask into numbers
            forms.append(filled(form.replace("NOvalid", WORDS["added"]), meaning))
    return forms + WORDS["of_lengths"]


def _both_ways(name: str, forms: Sequence[str], meaning: Meaning) -> list[str]:
    """Return each template as an expression in which True means what the name of the argument says,
    followed by one in which it means the opposite; only one of a template without NO.
    """
    signs = ("~", "") if means_padding(name) else ("", "~")
    return [*dict.fromkeys(filled(form, meaning, no) for form in forms for no in signs)]


def filled(form: str, meaning: Meaning, no: str = "") -> str:
    """Return a template of `words.toml` with what NO and L stand for."""
    queries = "query.size(-2)" if meaning.roles["query"] else "keys.size(-2)"
    return form.replace("NO", no).replace("L", queries)


def means_padding(mask: str) -> bool:
    """Return whether the name of a mask says that True means padding."""
    return bool(words(mask) & MEANT) and not words(mask) & OF_TOKENS


def _places_said(meaning: Meaning, queries: int, length: int) -> dict[str, int]:
    """Return the sizes of the axes of places that docstrings name, of queries and of keys: "t" and
    "s" of "states (B, T, D), memory (B, S, D)"; none if both have one name.
    """
    found: list[dict[str, int]] = []
    for role, size in (("keys", length), ("query", queries)):
        named = [axes_of(name, meaning.said)[0] for name in meaning.roles[role][:1]]
        places = [axis for axes in named if len(axes) == 3 for axis in axes[:2]]
        found.append({axis: size for axis in places if axis.isidentifier() and axis not in BATCH})
    keys, query = found
    return {axis: size for axis, size in (keys | query).items() if keys.get(axis, size) == size}


def as_said(
    name: str,
    texts: Sequence[str],
    said: str,
    inputs: Inputs,
    places: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """Return those of the expressions, such as `valid[:, None]`, that have the axes which the
    docstrings (`said`) name for an argument, such as "mask: (B, 1, S)": as many axes, and the batch
    in the same place. Those that have length 1 just where 1 is said come first, and where an axis
    is named as one of queries or keys (`places`), those that are as long.
    """
    axes, _ = axes_of(name, said)
    if not axes or any(axis.startswith(("*", "...")) for axis in axes):
        return list(texts)
    fitting = []
    for text in texts:
        try:
            # values are drawn later, in the shape of the keys
            value = eval(text, {**inputs._asdict(), "values": inputs.keys, "torch": torch})
        except RuntimeError:  # a width that cannot be split: a call says so
            value = None
        value = value[0] if isinstance(value, tuple) else value
        sizes = value.shape if isinstance(value, Tensor) else ()
        said_sizes = [*zip(axes, sizes, strict=False)]
        has_batch = all(size == B for axis, size in said_sizes if axis in BATCH)
        if has_batch and len(sizes) == len(axes):
            misfits = [(size == 1) != axis.startswith("1") for axis, size in said_sizes]
            misfits += [size != places.get(axis, size) for axis, size in said_sizes]
            fitting.append((sum(misfits), text))
    return [text for _, text in sorted(fitting, key=lambda one: one[0])]


def _ranked(call: Call, choices: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """Yield a call with all combinations of what its arguments may be, the likeliest first: those
    with the smallest sum of ranks. An argument that may only be "" is left out.
    """
    for places in _places(*map(len, choices.values())):
        given = {}
        for (name, texts), place in zip(choices.items(), places, strict=True):
            if texts[place]:
                given[name] = texts[place]
        form = given.pop(call.mask, "None")
        yield replace(call, given=given, form=form)


@cache
def _places(*counts: int) -> list[tuple[int, ...]]:
    """Return combinations of an index into each of several lists, whose lengths are `counts`: those
    with the smallest sum first, at most MOST_OF_LAYOUT. They are put in order from the RANKED that
    come first if the last index varies fastest: all of them may be too many to sort.
    """
    places = product(*map(range, counts))
    return sorted(islice(places, RANKED), key=sum)[:MOST_OF_LAYOUT]
