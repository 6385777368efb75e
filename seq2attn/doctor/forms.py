"""Lists what the arguments of an attention may be, and the calls that are tried for it, the usual
ones first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, product
from typing import Any, NamedTuple

from torch import nn

from seq2attn.doctor.call import B, Call, Inputs, L, S, draw, function_of, module_of
from seq2attn.doctor.constructors import SIDE
from seq2attn.doctor.roles import Roles, masks_of, roles
from seq2attn.doctor.said import axes_of, docs_of, role_by_type
from seq2attn.doctor.words import (
    BATCH,
    OF_TOKENS,
    POSITIONS,
    STATES,
    WORDS,
    required,
    role_of,
    words,
)

MEANT = {"valid", "pad", "padding", "padded", "len", "lens", "length", "lengths"}
"""words of a mask, or of lengths, that say what is padding"""
MAY_BE_IDS = ("query", "keys", "values", "again", "history", "other")
"""roles of arguments that may all be ids of one sequence"""
ADJACENT = {"adj", "adjacency"}
"""words of a mask of edges, of which padding has none"""
RANKED = 6000  # calls of a layout that are put in order
MOST_OF_LAYOUT = 80  # of these, the calls that are tried
LONGEST = 64  # of sources whose length a module may ask for
WIDEST = 14  # the longest side of an image
Widths = tuple[int, int]
"""of the query and of the keys"""
Layout = tuple[str, str, int]
"""the expressions of keys and query, and how many queries there are; "" and 0 without a query"""
Reading = tuple[Roles, str, bool]
"""roles of arguments; the mask among them, or ""; whether nothing says that it is the mask"""


class Meaning(NamedTuple):
    """What the arguments of an attention may be, and which inputs it may take."""

    names: Mapping[str, bool]
    """names of arguments; True: it has to be given, False: it may be left out"""
    roles: Roles
    """names of arguments by their role, such as {"keys": ["memory"]}"""
    mask: str
    """the argument that says which keys are valid; "" if there is none"""
    is_guess: bool
    """nothing says that this is the mask, and only its effect can tell"""
    layouts: str
    """of queries and keys: a table of `words.toml`, such as "plain" or "heads" """
    widths: Widths
    length: int
    """how many keys there are"""
    said: str
    """docstrings that may name shapes; "" if these are not heeded"""


def meanings(attention: Any, widths: Sequence[Widths]) -> Iterator[tuple[str, list[Meaning]]]:
    """Yield what the arguments may be, the likeliest first, in groups, each with the name of the
    layouts that it has in common. Within a group, the roles of arguments differ, and the widths.

    A group stands for one combination of what is uncertain: the length of the sources, whether the
    widths are the first of `widths` or the others, whether query and keys are the same sequence,
    whether optional arguments are given, whether shapes are as the docstring says, and the layouts,
    of which "channels" come first where there is an `nn.Conv2d`. The last one varies fastest. Where
    there are embeddings, groups in which they are given ids come before all others.
    """
    needed, said = required(function_of(attention)), docs_of(attention)
    has_axes = any(axes_of(name, said)[0] for name in needed)
    module = module_of(attention)
    is_of_images = any(isinstance(part, nn.Conv2d) for part in module.modules())
    needed_only, all_given = tuple(needed.values()), (True,) * len(needed)
    lengths, given = [S, *_lengths_of(module)], dict.fromkeys((needed_only, all_given))
    of_ids = {(one.embedding_dim, one.embedding_dim) for one in embeddings_of(module)}
    for length, are_given in product(lengths, given) if of_ids else ():
        names = dict(zip(needed, are_given, strict=True))
        pairs = product(_of_ids(names), of_ids)
        yield "ids", [Meaning(names, *one, "ids", pair, length, "") for one, pair in pairs]
    combinations = product(
        lengths,
        (widths[:1], widths[1:]),  # the likeliest widths before all others
        (False, True),  # is_same: query and keys are the same sequence
        given,
        (said, "") if has_axes else ("",),  # text: "" where shapes are not as docstrings say
        sorted(WORDS["cross"], key=lambda layouts: is_of_images and layouts != "channels"),
    )
    for length, pairs, is_same, are_given, text, layouts in combinations:
        names = dict(zip(needed, are_given, strict=True))
        # one row is given without the axis of the batch, which docstrings count. So the group comes
        # twice, at no cost: a call that failed is not tried again
        if layouts == "rows":
            text = ""
        group = []
        for of_names, mask, is_guess in _readings(names, said, is_same, bool(of_ids)):
            # without a query, pairs differ by the width of the keys alone
            unique = pairs if of_names["query"] else dict.fromkeys((key, key) for _, key in pairs)
            for pair in unique:
                group.append(Meaning(names, of_names, mask, is_guess, layouts, pair, length, text))
        yield layouts, group


def _readings(
    names: Mapping[str, bool], said: str, is_same: bool, has_ids: bool = False
) -> Iterator[Reading]:
    """Yield readings of the names of arguments, the likeliest first: the roles that `roles` finds
    for them, each with every argument that may be the mask, or without one. After these come
    readings in which an argument whose name tells nothing is the mask (`_of_unknown`), and those in
    which no argument says which keys are valid, although a mask must be given.

    names: as in `Meaning`. said: the docstrings.
    is_same: read query and keys as the same sequence, given twice, and leave out readings without a
        query.
    has_ids: first read each argument as the id of the token before (`_of_steps`).
    """
    if has_ids and not is_same:
        yield from _of_steps(names)
    late = [] if is_same else list(_of_unknown(names, said))
    for of_names in roles(names, said):
        if is_same:
            if not of_names["query"]:
                continue
            of_names = {**of_names, "keys": of_names["keys"] + of_names["query"], "query": []}
        masks = masks_of(of_names)
        for mask in masks or [""]:
            yield of_names, mask, False
        # a mask that must be given may be None. One that need not be given has no such reading, as
        # it is left out anyway if no expression works for it
        if any(names[mask] for mask in masks):
            late.append((of_names, "", False))
    yield from late


def embeddings_of(module: nn.Module) -> list[nn.Embedding]:
    """Return the embeddings of a module, but for those of positions."""
    named = module.named_modules()
    return [
        part
        for name, part in named
        if isinstance(part, nn.Embedding) and not words(name) & POSITIONS["encoded"]
    ]


def _of_ids(names: Mapping[str, bool]) -> Iterator[Reading]:
    """Yield readings of the names of arguments where ids may be given: those of `_readings`, then
    those in which all arguments that it does not know are ids of one sequence.
    """
    usual = list(_readings(names, "", False))
    yield from usual
    for of_names, mask, is_guess in usual:
        alike: Roles = {role: [] for role in MAY_BE_IDS}
        for name in names:
            if any(name in of_names[role] for role in MAY_BE_IDS):
                alike["other" if words(name) & STATES else "keys"].append(name)
        yield {**of_names, **alike}, mask, is_guess


def _of_steps(names: Mapping[str, bool]) -> Iterator[Reading]:
    """Yield readings in which an argument whose name says little is the id of the token before, as
    in a step of a decoder, with a state and the encoder's outputs.
    """
    for name in names:
        if role_of(name) in ("weak", "history", ""):
            others = {other: needed for other, needed in names.items() if other != name}
            for of_names in roles(others):
                mask, states = next(iter(masks_of(of_names)), ""), of_names["history"]
                if not of_names["query"]:  # a previous state may be the query
                    of_names = {**of_names, "query": states[:1], "history": states[1:]}
                if of_names["query"]:
                    yield {**of_names, "index": [name]}, mask, False


def _of_unknown(names: Mapping[str, bool], said: str) -> Iterator[Reading]:
    """Yield readings in which an argument that must be given, and whose name tells nothing, is the
    mask, or has the role "other": it is neither the query, keys or values, nor a mask.

    names: argument -> whether it must be given. said: the docstrings.
    """
    usual = next(roles(names, said))  # the likeliest roles
    for name in [*names][1:]:  # the first argument is the query or the keys
        # its name tells what it is: the side of an image, how many keys there are, as `n_regions`
        # does, or what one of its words says
        is_told = name in usual["side"] + usual["lengths"] or role_of(name)
        if not names[name] or is_told or role_by_type(name, said):
            continue
        others = {other: is_given for other, is_given in names.items() if other != name}
        for of_names in roles(others, said):
            yield {**of_names, "mask": [name, *of_names["mask"]]}, name, True
            mask = next(iter(masks_of(of_names)), "")  # of the other arguments; "": none
            yield {**of_names, "other": [name, *of_names["other"]]}, mask, False


def _lengths_of(module: nn.Module) -> list[int]:
    """Return the lengths of sources that a module may ask for, from 2 to LONGEST, the shortest
    first: whole numbers among the attributes of its parts, such as a window or a block size, but
    not of parts that are torch's own; and the sizes of buffers that are square in their last axes,
    as tables of pairs of places are. S is left out, as it is tried anyway, and B and L.
    """
    tables = (one for one in module.buffers() if one.dim() > 1)
    held = {one.size(-1) for one in tables if one.size(-1) == one.size(-2)}
    for part in module.modules():
        if not type(part).__module__.startswith("torch."):
            held.update(value for value in vars(part).values() if type(value) is int)
    # an axis of length B or L would be taken for that of rows or of queries
    return sorted(size for size in held if 1 < size <= LONGEST and size not in (B, L, S))


def calls_of(attention: Any, meaning: Meaning) -> Iterator[tuple[Iterator[Call], Inputs]]:
    """Yield for each of the meaning's layouts in `words.toml` the calls that may be meant, the
    likeliest first, and the inputs for them.

    A mask that need not be given is left out: `polarity.with_mask` tries it once the rest of the
    call is known. A layout has no calls if docstrings name other axes for the query, the keys or
    the values. There are no layouts at all for an image whose side is above WIDEST.
    """
    names, of_names = meaning.names, meaning.roles
    call, side = _without_arguments(attention, meaning), _side(meaning)
    length = side**2 or meaning.length  # the places of an image are the keys
    if side > WIDEST:  # it would take too long
        return
    known = max((one.num_embeddings for one in embeddings_of(module_of(attention))), default=0)
    ids = WORDS["ids"]
    of_keys, of_query = (ids[name].replace("KNOWN", str(known)) for name in ("keys", "query"))
    kind = "cross" if of_names["query"] else "alone"
    layouts = ids[kind] if meaning.layouts == "ids" else WORDS[kind][meaning.layouts]
    for keys, query, queries in layouts:
        queries = length if queries == S else queries  # S: as many as keys
        inputs = draw(*meaning.widths, queries, length=length)
        # what joins the sides of an image in the result, if that is laid out as the keys are
        joined = ".flatten(2)" if "mT" in keys else ".flatten(1, 2)"
        call = replace(call, after=joined if "SIDE" in keys else "")
        keys = keys.replace("SIDE", str(side)).replace("OF_KEYS", of_keys)
        query = query.replace("OF_QUERY", of_query)
        # what attends to itself is given the same sequence as values, too
        values = keys.replace("keys", "values") if of_names["query"] else keys
        texts = {"query": query, "keys": keys, "again": keys, "values": values}
        layout = keys, query, queries
        told = {name: texts[role] for role in texts for name in of_names[role]}
        if not all(_is_as_said(*one, meaning.said, inputs) for one in told.items()):
            continue
        choices = {name: [""] for name in names}  # "": the argument is left out
        for role, of_role in of_names.items():
            for name in of_role:
                if role in ("mask", "lengths") and not names[name]:  # tried later
                    continue
                is_told = name in told
                choices[name] = [told[name]] if is_told else _choices(name, role, meaning, layout)
        yield _ranked(call, choices), inputs


def _without_arguments(attention: Any, meaning: Meaning) -> Call:
    """Return the call of an attention before its arguments are chosen: with the methods of the
    attention that come first, and with its mask, if that must be given.
    """
    # calls of these methods, such as `attention.reset()`
    first = "\n".join(text for name, text in WORDS["first"].items() if hasattr(attention, name))
    mask = meaning.mask if meaning.names.get(meaning.mask) else ""
    by_row = meaning.layouts == "rows"
    return Call(attention, {}, first, mask, needs_mask=bool(mask), by_row=by_row)


def _side(meaning: Meaning) -> int:
    """Return the side of the images that are given, or whose places are a sequence; 0 if there are
    none. If the length was read off the module (`_lengths_of`), it may be the side of a window: at
    least two windows stand on a side of an image then.
    """
    window = meaning.length
    if meaning.layouts == "images" and window != S:
        return window * max(2, -(-SIDE // window))  # SIDE, or the next multiple of the window
    return SIDE if meaning.layouts == "images" or meaning.roles["side"] else 0


def _choices(name: str, role: str, meaning: Meaning, layout: Layout) -> list[str]:
    """Return the expressions that an argument beside query, keys and values may have, the likeliest
    first, made of templates in `words.toml`.
    """
    keys, query, queries = layout
    if name == meaning.mask:
        return forms_of_mask(meaning)
    if role == "side":
        return [str(_side(meaning))]
    if role in ("mask", "lengths"):  # another one than the meaning's mask: it hides nothing
        forms = WORDS["adjacency" if words(name) & ADJACENT else f"whole_{role}"]
    elif role in (role_of(name), "index"):  # its name says what it is, or the reading does
        forms = WORDS[role]
    else:  # it may be anything, first of all a decoder's state, if there are queries
        # of a single query, the state is this; of several, zeros, which add nothing
        state = "query[:, 0]" if queries == 1 else "(0 * query[:, 0])"
        states = [form.replace("STATE", state) for form in WORDS["states"] if queries]
        whole = [*WORDS["whole_mask"], *WORDS["whole_lengths"]]
        # the plain state, None and 0 come before states in other layouts, and the query or the keys
        # once more
        early = [*states[:1], *WORDS["other"][:2], *filter(None, (query, keys))]
        forms = [*early, *states, *WORDS["other"], *WORDS["history"], *whole]
    return _both_ways(name, forms, meaning)


def forms_of_mask(meaning: Meaning) -> list[str]:
    """Return the expressions that the mask of a meaning may have, the likeliest first, made of
    templates in `words.toml`, where NO stands for nothing or ~, and L for the number of queries.

    For lengths, these are lengths alone. For a mask, they are each template with True as the mask's
    name says, and then with the opposite; then those of 0 and -inf, to be added to scores; then
    lengths, or these first, if only the documented shape says that it is lengths.
    """
    is_of_lengths = meaning.mask in meaning.roles["lengths"]
    if is_of_lengths and role_of(meaning.mask) != "mask":
        return [*WORDS["of_lengths"]]
    forms = _both_ways(meaning.mask, WORDS["of_mask"], meaning)
    for form in WORDS["of_mask"]:
        if form.startswith("NO"):  # not "(NOvalid).to(keys)": -inf and 0 are numbers already
            forms.append(filled(form.replace("NOvalid", WORDS["added"]), meaning))
    return WORDS["of_lengths"] + forms if is_of_lengths else forms + WORDS["of_lengths"]


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


def _is_as_said(name: str, text: str, said: str, inputs: Inputs) -> bool:
    """Return whether an expression has the axes that docstrings (`said`) name for an argument: as
    many, with the batch in the same place, and of three axes one of length 1 only where 1 is said.
    True if they name no axes, or leave open how many, as "(*, S)" does.

    name: that of the argument. text: the expression. inputs: its variables.
    """
    axes, _ = axes_of(name, said)
    if not axes or any(axis.startswith(("*", "...")) for axis in axes):
        return True
    try:  # values are drawn later, in the shape of the keys
        value = eval(text, {**inputs._asdict(), "values": inputs.keys})
    except RuntimeError:  # the width cannot be split into heads
        return False
    sizes = value[0].shape if isinstance(value, tuple) else value.shape  # of a pair, such as (h, c)
    pairs = list(zip(axes, sizes, strict=False))
    has_batch = all(size == B for axis, size in pairs if axis in BATCH)
    # a single query, (B, 1, D), or a state of a single layer, (1, B, D), is documented as such
    has_ones = len(axes) != 3 or all((size == 1) == axis.startswith("1") for axis, size in pairs)
    return len(sizes) == len(axes) and has_batch and has_ones


def _ranked(call: Call, choices: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """Yield a call with combinations of what its arguments may be, the likeliest first: those whose
    indices in `choices` have the smallest sum, at most MOST_OF_LAYOUT. An argument whose expression
    is "" is left out of the call.

    choices: by the name of an argument, its expressions, the likeliest first.
    """
    for indices in _indices(*map(len, choices.values())):  # one for each argument
        given = {}
        for (name, texts), index in zip(choices.items(), indices, strict=True):
            if texts[index]:
                given[name] = texts[index]
        form = given.pop(call.mask, "None")  # the call keeps its mask apart
        yield replace(call, expressions=given, form=form)


@cache
def _indices(*counts: int) -> list[tuple[int, ...]]:
    """Return combinations of an index into each of several lists, whose lengths are `counts`: those
    with the smallest sum first, at most MOST_OF_LAYOUT. They are put in order from the RANKED that
    come first if the last index varies fastest: all of them may be too many to sort.
    """
    indices = product(*map(range, counts))
    return sorted(islice(indices, RANKED), key=sum)[:MOST_OF_LAYOUT]
